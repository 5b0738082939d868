package service

import (
	"context"
	"io"
	"reflect"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A Request says who asks, about what, and where streams go.
type Request struct {
	Caller live.Caller
	// Workspace is the one that the request is about; main if nil.
	Workspace *snapshot.Workspace
	// In is the stream that the operation takes.
	In io.Reader
	// Out gets the stream of text or bytes that the operation gives.
	Out io.Writer
	// Item gets each event.
	Item func(any) error
	// Progress is told how far long work has come; it may be nil.
	Progress func(Progress)

	list *budget.Charge // see Request.charge
}

// charge is what lists that belong to the answer are charged to, until Done.
func (r *Request) charge(of *budget.Budget) *budget.Charge {
	if r.list == nil {
		r.list = of.Of(r.tenant()).Charge()
	}
	return r.list
}

// tenant is what shares limits: a fork of main with the forks in it, or main.
func (r *Request) tenant() *snapshot.Workspace {
	ws := r.Workspace
	for up := ws.Parent(); up != nil && up.IsFork(); up = ws.Parent() {
		ws = up
	}
	return ws
}

// Done gives back the memory that the answer took, when nobody needs it any more.
func (r *Request) Done() { r.list.Release() }

// Progress is how far long work has come. A Total of 0 is not known yet.
type Progress struct {
	What  string `json:"what"`
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"`
	// Unit is "bytes", "files" or, of what is sent to a remote, "parts".
	Unit string `json:"unit,omitempty"`
	// Bytes is how many bytes were done, where something else is counted.
	Bytes int64 `json:"bytes,omitempty"`
}

func (r *Request) progress(p Progress) {
	if r.Progress != nil {
		r.Progress(p)
	}
}

// The kinds of streams that an operation gives.
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
	// Mutates: refused when the mount is read-only, as the kernel refuses what
	// the control files would do. A capture changes nothing that is there.
	Mutates bool
	// Input and Output are the types of the streams, "" for none.
	Input, Output string
	// Instead is what does the same in a mount, for an operation that needs the socket.
	Instead string
	// Hasty: each event goes out at once.
	Hasty        bool
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

// ops are all operations.
var ops = []*Op{
	op(Op{Name: "snapshot", Access: Makes,
		About: "Captures the workspace as it is now."}, (*Service).snapshot),
	op(Op{Name: "list",
		About: "Lists the snapshots, newest first."}, (*Service).list),
	op(Op{Name: "show",
		About: "Shows everything about one snapshot."}, (*Service).show),
	op(Op{Name: "rename", Access: Alters, Mutates: true,
		About: "Renames a snapshot."}, (*Service).rename),
	op(Op{Name: "remove", Access: Alters, Mutates: true,
		About: "Deletes snapshots: all that are named or, if one is unknown, none."}, (*Service).remove),
	op(Op{Name: "compact", Access: Alters, Mutates: true,
		About: "Makes one snapshot of all files that some have, of each path the newest; the others go unless they are pinned."}, (*Service).compact),
	op(Op{Name: "du", Access: Governs,
		About: "Tells what each snapshot and fork alone keeps, and what deleting several would give back, in bytes of disk."}, (*Service).du),
	op(Op{Name: "pin", Access: Alters,
		About: "Protects snapshots from deletion, or ends that."}, (*Service).pin),
	op(Op{Name: "restore", Access: Alters, Mutates: true,
		About: "Makes the workspace, or some paths of it, equal to a snapshot."}, (*Service).restore),
	op(Op{Name: "revert", Access: Alters, Mutates: true,
		About: "Brings one file or directory back."}, (*Service).revert),
	op(Op{Name: "diff", Access: Tells, Output: Text,
		About: "Shows what changed from one snapshot to another, or to now."}, (*Service).diff),
	op(Op{Name: "changes", Access: Tells,
		About: "Lists the files that differ from one snapshot to another, or to now."}, (*Service).changes),
	op(Op{Name: "hunks", Access: Tells,
		About: "Shows how the lines of one file differ, a part at a time."}, (*Service).hunks),
	op(Op{Name: "file", Access: Tells, Output: Bytes,
		About: "Gives the bytes of a file as it is now, or in a snapshot."}, (*Service).file),
	op(Op{Name: "history", Access: Tells,
		About: "Lists the snapshots in which a path was new, modified or deleted."}, (*Service).history),
	op(Op{Name: "events", Access: Tells, Output: Events,
		About: "Gives the events of the workspace, oldest first."}, (*Service).events),
	op(Op{Name: "fork", Access: Makes, Mutates: true,
		About: "Makes a writable workspace that starts equal to a snapshot or to now."}, (*Service).fork),
	op(Op{Name: "forks",
		About: "Lists the forks of the workspace."}, (*Service).forks),
	op(Op{Name: "claim", Access: Makes, Mutates: true,
		About: "Gets the one fork that belongs to a label: the running one, else its last state, else a fresh one."}, (*Service).claim),
	op(Op{Name: "rename-fork", Access: Alters, Mutates: true,
		About: "Renames a fork."}, (*Service).renameFork),
	op(Op{Name: "end-fork", Access: Alters, Mutates: true,
		About: "Ends a fork, after a capture of its last state."}, (*Service).endFork),
	op(Op{Name: "promote", Access: Alters, Mutates: true,
		About: "Merges a fork's changes into the workspace."}, (*Service).promote),
	op(Op{Name: "policy",
		About: "Shows the policy of the workspace."}, (*Service).policy),
	op(Op{Name: "set-policy", Access: Owns,
		About: "Changes the policy by a JSON merge patch."}, (*Service).setPolicy),
	op(Op{Name: "status",
		About: "Shows how the workspace and its store are."}, (*Service).status),
	op(Op{Name: "export", Access: Makes,
		About: "Writes a snapshot as a commit into the store's own git repository."}, (*Service).export),
	op(Op{Name: "tar", Access: Direct, Output: Tar, Instead: "`tar` in .snapshots/NAME",
		About: "Gives a snapshot as a tar archive."}, (*Service).exportTar),
	op(Op{Name: "import", Access: Direct, Mutates: true, Input: Tar, Instead: "`tar`, `git` or `cp` in the workspace",
		About: "Brings the tree of a tar archive in, all at once."}, (*Service).importTree),
	op(Op{Name: "open", Access: Direct, Output: Events, Hasty: true, Instead: "`git` on .snapshots/NAME",
		About: "Keeps the objects of a snapshot at hand for as long as the answer is read."}, (*Service).open),
	op(Op{Name: "open-changes", Access: Direct, Output: Events, Hasty: true, Instead: "`cp` or `git diff` on the files",
		About: "Keeps the objects of what the workspace began from, and of a snapshot or of now, at hand for as long as the answer is read."}, (*Service).openChanges),
	op(Op{Name: "objects", Access: Direct, Output: Bytes,
		About: "Gives objects of an open snapshot, by their hashes."}, (*Service).objects),
	op(Op{Name: "exported", Access: Direct,
		About: "Notes the commit that a client exported a snapshot as."}, (*Service).exported),
	op(Op{Name: "freeze", Access: Governs,
		About: "Holds back every change for a bounded moment."}, (*Service).freeze),
	op(Op{Name: "thaw", Access: Governs,
		About: "Lets changes go on after a freeze."}, (*Service).thaw),
	op(Op{Name: "gc", Access: Governs,
		About: "Frees what no snapshot and no workspace needs any more."}, (*Service).gc),
	op(Op{Name: "verify", Access: Governs,
		About: "Checks everything stored, byte for byte."}, (*Service).verify),
	op(Op{Name: "push", Access: Makes,
		About: "Sends snapshots to a remote."}, (*Service).push),
	op(Op{Name: "pull", Access: Governs, Mutates: true,
		About: "Brings snapshots of a remote into the store."}, (*Service).pull),
	op(Op{Name: "remotes", Access: Governs,
		About: "Lists the remotes that the store knows."}, (*Service).remotes),
	op(Op{Name: "add-remote", Access: Direct,
		About: "Sets a remote up, or gets to know one."}, (*Service).addRemote),
	op(Op{Name: "trust-remote", Access: Direct,
		About: "Agrees to contact a remote that came with the store."}, (*Service).trustRemote),
	op(Op{Name: "remove-remote", Access: Direct,
		About: "Forgets a remote; nothing on it changes."}, (*Service).removeRemote),
	op(Op{Name: "remote-snapshots", Access: Direct,
		About: "Lists the snapshots on a remote, newest first."}, (*Service).remoteSnapshots),
	op(Op{Name: "remove-pushed", Access: Direct,
		About: "Removes snapshots from a remote."}, (*Service).removePushed),
	op(Op{Name: "verify-remote", Access: Direct,
		About: "Checks that a remote has all that its snapshots need."}, (*Service).verifyRemote),
	op(Op{Name: "gc-remote", Access: Direct,
		About: "Gives back what no snapshot on a remote needs, in several runs days apart."}, (*Service).gcRemote),
	op(Op{Name: "umount", Access: Direct,
		About: "Unmounts; the daemon ends when all is on disk."}, (*Service).umount),
}

// Ops returns all operations.
func Ops() []*Op { return ops }

// findOp finds an operation by its name.
func findOp(name string) (*Op, error) {
	var known []string
	for _, o := range ops {
		if o.Name == name {
			return o, nil
		}
		known = append(known, o.Name)
	}
	e := fail.New(fail.Usage, "there is no operation %q", name)
	if like := Nearest(name, known); like != "" {
		return nil, e.WithHint("did you mean %q?", like)
	}
	return nil, e.WithHint("docs/api/openapi.yaml lists the operations")
}

// OpOf finds the operation that a value of arguments belongs to. It panics if
// there is none: the types are known when the program is built.
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
func Do[R any](ctx context.Context, s *Service, r *Request, args any) (R, error) {
	defer r.Done()
	out, err := s.do(ctx, r, OpOf(args), args)
	if err != nil {
		var none R
		return none, err
	}
	result, ok := out.(R)
	if !ok {
		return result, fail.New(fail.Failed, "%T is not the result of %s", result, OpOf(args).Name)
	}
	return result, nil
}
