package service

import (
	"context"
	"io"
	"reflect"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
)

// A Request is the caller, the workspace and the streams of one call.
type Request struct {
	Caller actors.Caller
	// Workspace is nil for main.
	Workspace *snapshot.Workspace
	// In is the stream that the operation reads.
	In io.Reader
	// Out receives the text or bytes that the operation writes.
	Out io.Writer
	// Item receives each event.
	Item func(any) error
	// Progress is called during long work. It may be nil.
	Progress func(Progress)

	op     *Op            // that is carried out
	answer *budget.Charge // see Request.list
}

// list is the account for lists in the answer, until Done.
func (r *Request) list(s *Service) *budget.Charge {
	if r.answer == nil {
		r.answer = r.budget(s, Lists).Charge()
	}
	return r.answer
}

// Done returns the memory that the answer was charged for.
func (r *Request) Done() { r.answer.Release() }

// Progress is how much of a long work is done. A Total of 0 is not known yet.
type Progress struct {
	What  string `json:"what"`
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"`
	// Unit is "bytes", "files" or, in a push, "parts".
	Unit string `json:"unit,omitempty"`
	// Bytes is the number of bytes done, if Unit is not bytes.
	Bytes int64 `json:"bytes,omitempty"`
}

func (r *Request) progress(p Progress) {
	if r.Progress != nil {
		r.Progress(p)
	}
}

// The types of streams that an operation writes.
const (
	Text   = "text/plain; charset=utf-8"
	Bytes  = "application/octet-stream"
	Tar    = "application/x-tar"
	Events = "text/event-stream"
)

// An Op is one operation.
type Op struct {
	Name   string
	About  string // one sentence
	Access Access
	// Mutates: refused when the mount is read-only, as the kernel refuses writes to
	// control files. Taking a snapshot changes nothing that exists.
	Mutates bool
	Cost    Cost
	Charges Pool
	// Input and Output are the types of the streams, "" for none.
	Input, Output string
	// Instead does the same in a mount, for an operation that needs the socket.
	Instead      string
	Args, Result reflect.Type

	run func(s *Service, ctx context.Context, r *Request, args any) (any, error)
}

func op[A, R any](o Op, run func(*Service, context.Context, *Request, A) (R, error)) *Op {
	o.Args, o.Result = reflect.TypeFor[A](), reflect.TypeFor[R]()
	o.run = func(s *Service, ctx context.Context, r *Request, args any) (any, error) {
		return run(s, ctx, r, args.(A))
	}
	return &o
}

var ops = []*Op{
	op(Op{Name: "snapshot", Cost: Cheap, Access: Add,
		About: "Takes a snapshot of the workspace."}, (*Service).snapshot),
	op(Op{Name: "list", Cost: Allocates, Charges: Lists,
		About: "Lists the snapshots, newest first."}, (*Service).list),
	op(Op{Name: "show", Cost: Cheap,
		About: "Returns everything about one snapshot."}, (*Service).show),
	op(Op{Name: "summaries", Cost: Allocates, Charges: Lists | Texts, Access: Owner,
		About: "Counts the files that snapshots changed."}, (*Service).summaries),
	op(Op{Name: "rename", Cost: Cheap, Access: Change, Mutates: true,
		About: "Renames a snapshot."}, (*Service).rename),
	op(Op{Name: "remove", Cost: Cheap, Access: Change, Mutates: true,
		About: "Deletes snapshots: all that are named or, if one is unknown, none."}, (*Service).remove),
	op(Op{Name: "compact", Cost: Compares, Access: Change, Mutates: true,
		About: "Replaces several snapshots by one that contains all of their files, each in its newest version. Pinned snapshots stay."}, (*Service).compact),
	op(Op{Name: "du", Cost: Compares, Access: Govern,
		About: "Returns the bytes on disk that deleting each snapshot and fork would free, and deleting all of them."}, (*Service).du),
	op(Op{Name: "pin", Cost: Cheap, Access: Change,
		About: "Protects snapshots from deletion, or ends the protection."}, (*Service).pin),
	op(Op{Name: "restore", Cost: Allocates, Charges: Lists, Access: Owner, Mutates: true,
		About: "Makes the workspace, or some paths of it, equal to a snapshot."}, (*Service).restore),
	op(Op{Name: "revert", Cost: Allocates, Charges: Lists, Access: Owner, Mutates: true,
		About: "Restores one file or directory."}, (*Service).revert),
	op(Op{Name: "restore-hunk", Cost: Allocates, Charges: Lists | Texts, Access: Owner, Mutates: true,
		About: "Restores the lines of one hunk of a comparison, if they are still the same."}, (*Service).restoreHunk),
	op(Op{Name: "diff", Cost: Allocates, Charges: Lists | Texts, Access: Owner, Output: Text,
		About: "Returns the changes from one snapshot to another, or to now."}, (*Service).diff),
	op(Op{Name: "changes", Cost: Allocates, Charges: Lists | Texts, Access: Owner,
		About: "Lists the files that differ from one snapshot to another, or to now."}, (*Service).changes),
	op(Op{Name: "hunks", Cost: Allocates, Charges: Texts, Access: Owner,
		About: "Returns the changed lines of one file, a part at a time."}, (*Service).hunks),
	op(Op{Name: "file", Cost: Compares, Access: Owner, Output: Bytes,
		About: "Returns the bytes of a file, now or in a snapshot."}, (*Service).file),
	op(Op{Name: "undo-by", Cost: Allocates, Charges: Lists | Gits, Access: Owner, Mutates: true,
		About: "Undoes what one actor changed and keeps the changes of all others."}, (*Service).undoBy),
	op(Op{Name: "blame", Cost: Allocates, Charges: Lists | Texts, Access: Owner,
		About: "Shows for each line of a file the snapshot, actor and command that it came with."}, (*Service).blame),
	op(Op{Name: "actors", Cost: Compares,
		About: "Lists the actors that changed the workspace."}, (*Service).actors),
	op(Op{Name: "history", Cost: Allocates, Charges: Lists, Access: Owner,
		About: "Lists the snapshots in which a path was created, modified or deleted."}, (*Service).history),
	op(Op{Name: "events", Cost: Allocates, Charges: Lists, Access: Owner, Output: Events,
		About: "Returns the events of the workspace, oldest first."}, (*Service).events),
	op(Op{Name: "fork", Cost: Cheap, Access: Add, Mutates: true,
		About: "Creates a fork of a snapshot or of the present state."}, (*Service).fork),
	op(Op{Name: "forks", Cost: Compares,
		About: "Lists the forks of the workspace."}, (*Service).forks),
	op(Op{Name: "claim", Cost: Cheap, Access: Add, Mutates: true,
		About: "Returns the fork with a label. If there is none, creates it."}, (*Service).claim),
	op(Op{Name: "rename-fork", Cost: Cheap, Access: Change, Mutates: true,
		About: "Renames a fork."}, (*Service).renameFork),
	op(Op{Name: "delete-fork", Cost: Cheap, Access: Change, Mutates: true,
		About: "Deletes a fork, after a snapshot of its last state."}, (*Service).deleteFork),
	op(Op{Name: "conflict", Cost: Allocates, Charges: Lists | Texts | Gits, Access: Owner,
		About: "Returns the sides of a file that changed in a fork and in the workspace."}, (*Service).conflict),
	op(Op{Name: "merge", Cost: Allocates, Charges: Lists | Gits, Access: Owner, Mutates: true,
		About: "Merges a fork's changes into the workspace."}, (*Service).merge),
	op(Op{Name: "actor", Cost: Cheap, Access: Add,
		About: "Registers the name of an actor for a process and its descendants."}, (*Service).actor),
	op(Op{Name: "policy", Cost: Cheap,
		About: "Returns the policy of the workspace."}, (*Service).policy),
	op(Op{Name: "set-policy", Cost: Cheap, Access: Own,
		About: "Changes the policy by a JSON merge patch."}, (*Service).setPolicy),
	op(Op{Name: "status", Cost: Cheap,
		About: "Returns the state of the workspace and its store."}, (*Service).status),
	op(Op{Name: "export", Cost: Allocates, Charges: Gits, Access: Add,
		About: "Writes a snapshot as a commit into the store's own git repository."}, (*Service).export),
	op(Op{Name: "tar", Cost: Compares, Access: Socket, Output: Tar, Instead: "`tar` in .snapshots/NAME",
		About: "Returns a snapshot as a tar archive."}, (*Service).exportTar),
	op(Op{Name: "import", Cost: Allocates, Charges: Texts, Access: Socket, Mutates: true, Input: Tar, Instead: "`tar`, `git` or `cp` in the workspace",
		About: "Imports the tree of a tar archive, all at once."}, (*Service).importTree),
	op(Op{Name: "refresh", Cost: Allocates, Charges: Lists | Texts | Gits, Access: Socket, Mutates: true, Input: Bytes, Instead: "`cp` or `git pull` in the workspace",
		About: "Merges what changed in the directory that the workspace was filled from."}, (*Service).refresh),
	op(Op{Name: "layer", Cost: Compares, Access: Socket, Output: Tar,
		About: "Returns what a snapshot changed in a container image, as a layer of an image."}, (*Service).exportLayer),
	op(Op{Name: "image", Cost: Cheap, Access: Socket,
		About: "Returns the container image that a snapshot, or the present state, was made on top of."}, (*Service).image),
	op(Op{Name: "open", Cost: Cheap, Access: Socket, Output: Events, Instead: "`git` on .snapshots/NAME",
		About: "Keeps the objects of a snapshot readable while the answer is read."}, (*Service).open),
	op(Op{Name: "open-changes", Cost: Cheap, Access: Socket, Output: Events, Instead: "`cp` or `git diff` on the files",
		About: "Keeps the objects of the workspace's base and of a snapshot, or of now, readable while the answer is read."}, (*Service).openChanges),
	op(Op{Name: "objects", Cost: Compares, Access: Socket, Output: Bytes,
		About: "Returns objects of an open snapshot, by their hashes."}, (*Service).objects),
	op(Op{Name: "exported", Cost: Cheap, Access: Socket,
		About: "Records the commit that a client exported a snapshot as."}, (*Service).exported),
	op(Op{Name: "freeze", Cost: Cheap, Access: Govern,
		About: "Stops all changes for a limited time."}, (*Service).freeze),
	op(Op{Name: "thaw", Cost: Cheap, Access: Govern,
		About: "Ends a freeze."}, (*Service).thaw),
	op(Op{Name: "gc", Cost: Compares, Access: Govern,
		About: "Frees the space that no snapshot and no workspace needs."}, (*Service).gc),
	op(Op{Name: "verify", Cost: Compares, Access: Govern,
		About: "Reads and checks everything in the store."}, (*Service).verify),
	op(Op{Name: "push", Cost: Cheap, Access: Add,
		About: "Sends snapshots to a remote."}, (*Service).push),
	op(Op{Name: "pull", Cost: Cheap, Access: Govern, Mutates: true,
		About: "Copies snapshots of a remote into the store."}, (*Service).pull),
	op(Op{Name: "remotes", Cost: Cheap, Access: Govern,
		About: "Lists the registered remotes."}, (*Service).remotes),
	op(Op{Name: "add-remote", Cost: Cheap, Access: Socket,
		About: "Registers a remote, and sets it up if it is new."}, (*Service).addRemote),
	op(Op{Name: "trust-remote", Cost: Cheap, Access: Socket,
		About: "Agrees to contact a remote that the store names."}, (*Service).trustRemote),
	op(Op{Name: "remove-remote", Cost: Cheap, Access: Socket,
		About: "Forgets a remote. Nothing on the remote changes."}, (*Service).removeRemote),
	op(Op{Name: "remote-snapshots", Cost: Cheap, Access: Socket,
		About: "Lists the snapshots on a remote, newest first."}, (*Service).remoteSnapshots),
	op(Op{Name: "remove-pushed", Cost: Cheap, Access: Socket,
		About: "Deletes snapshots from a remote."}, (*Service).removePushed),
	op(Op{Name: "verify-remote", Cost: Cheap, Access: Socket,
		About: "Checks that a remote has everything its snapshots need."}, (*Service).verifyRemote),
	op(Op{Name: "gc-remote", Cost: Cheap, Access: Socket,
		About: "Frees what no snapshot on a remote needs, in several runs on different days."}, (*Service).gcRemote),
	op(Op{Name: "umount", Cost: Cheap, Access: Socket,
		About: "Unmounts. The daemon ends when everything is on disk."}, (*Service).umount),
}

func findOp(name string) (*Op, error) {
	var known []string
	for _, o := range ops {
		if o.Name == name {
			return o, nil
		}
		known = append(known, o.Name)
	}
	return nil, like(fail.New(fail.Usage, "no such operation: %q", name), name, known, "docs/api/openapi.yaml lists the operations")
}

// OpOf finds the operation of a type of arguments. It panics if there is none.
func OpOf(args any) *Op {
	t := reflect.TypeOf(args)
	for _, o := range ops {
		if o.Args == t {
			return o
		}
	}
	panic("no operation takes " + t.String())
}

// Do carries out the operation that args belongs to.
func (s *Service) Do(ctx context.Context, r *Request, args any) (any, error) {
	defer r.Done()
	return s.do(ctx, r, OpOf(args), args)
}
