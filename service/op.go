package service

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
)

// A Request is the caller, the workspace and the streams of one call.
type Request struct {
	// Caller is the calling process. Service.Do sets its actor and, for a call in the mount, the name of its program.
	Caller actors.Caller
	// Workspace is the workspace of the call. A caller of Service.Do may leave it nil for main.
	Workspace *snapshot.Workspace
	// In is the stream that the operation reads.
	In io.Reader
	// NextFile returns the next of the open files that the client sends together with In. The caller closes the
	// file. NextFile is nil for a request in the mount.
	NextFile func() (*os.File, error)
	// Out receives the text or bytes that the operation writes.
	Out io.Writer
	// Item receives each event of an operation with the output Events.
	Item func(any) error
	// Carried, if set, is the effect that this request had in the previous daemon, which ended before
	// it answered.
	Carried *snapshot.RequestResult
	// Progress is called during long work. It may be nil.
	Progress func(Progress)

	op         *Op
	listCharge *budget.Charge // the memory of lists in the answer, see Request.listMemoryCharge
	*core                     // the shared parts of the service, set by Service.Do
}

// listMemoryCharge returns the charge for the memory of lists in the answer. Release releases it.
func (r *Request) listMemoryCharge() *budget.Charge {
	if r.listCharge == nil {
		r.listCharge = r.budget(ListMemory).NewCharge()
	}
	return r.listCharge
}

// Release releases the memory that was reserved for lists in the answer. The caller of Service.Do calls it when
// it has written the answer.
func (r *Request) Release() { r.listCharge.Release() }

// Progress describes how much of a long operation is done. Total is 0 while it is not known.
type Progress struct {
	What  string `json:"what"`
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"`
	// Unit is "bytes", "files" or, in a push, "parts".
	Unit string `json:"unit,omitempty"`
	// Bytes is the number of bytes done, if Done counts files or parts.
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

// An Op is one operation: a row of the tables in ops_*.go. HTTP, control files, commands, MCP
// tools and the pages of docs/reference are made from the rows.
type Op struct {
	Name   string
	About  string // one sentence
	Access Access
	// Mutates is set for operations that change the workspace. If the mount is read-only, the daemon refuses them, as
	// the kernel refuses writes to control files. It is not set for the operation snapshot, which is also possible in
	// a read-only mount.
	Mutates bool
	Effect  Effect
	Cost    Cost
	// Input and Output are the types of the streams, "" for none.
	Input, Output string
	Args, Result  reflect.Type

	// Text is the text form of the result, for commands and MCP tools.
	Text Form
	// JSONField is the field of the result that --json and tools show; "" for the whole result.
	JSONField string
	// ReadsAll, if set, reports whether a call with these arguments reads a whole tree. Then its cost is CPUHeavy,
	// and not the Cost of the row.
	ReadsAll func(ws *snapshot.Workspace, args any) bool
	// Follows, if set, reports whether a call with these arguments sends items as they happen, until the caller ends
	// the call. Other calls of the operation send them all at once.
	Follows      func(args any) bool
	ControlFiles ControlFiles
	Tools        []Tool
	Commands     []Command

	// CheckArgs, if set, returns an error if a caller other than the owner of the store may not use the
	// operation with these arguments.
	CheckArgs func(r *Request, args any) error

	run opFunc
	// resume, if set, returns the result of a call that the previous daemon carried out and did not
	// answer, or errUnknownResult.
	resume opFunc
}

// An opFunc calls a method of a family of the Service.
type opFunc func(s *Service, ctx context.Context, r *Request, args any) (any, error)

// op returns a row with the method of the family F that runs the operation and, if the operation can be resumed, the
// method for Op.resume. A and R are the types of the operation's arguments and of its result.
func op[F family[F], A, R any](o Op, run func(F, context.Context, *Request, A) (R, error), resume ...func(F, context.Context, *Request, A) (R, error)) *Op {
	o.Args, o.Result = reflect.TypeFor[A](), reflect.TypeFor[R]()
	if o.Result.Kind() == reflect.Pointer {
		o.Result = o.Result.Elem()
	}

	call := func(method func(F, context.Context, *Request, A) (R, error)) opFunc {
		return func(s *Service, ctx context.Context, r *Request, args any) (any, error) {
			var f F
			return method(f.familyOf(s), ctx, r, args.(A))
		}
	}
	o.run = call(run)
	for _, method := range resume {
		o.resume = call(method)
	}

	return &o
}

// IsFollowing reports whether a call with these arguments lasts until the caller ends it.
func (o *Op) IsFollowing(args any) bool { return o.Follows != nil && o.Follows(args) }

// ShownPart returns the part of a result that is shown as JSON. result is a pointer.
func (o *Op) ShownPart(result any) any {
	if o.JSONField == "" {
		return result
	}
	return FieldNamed(reflect.ValueOf(result).Elem(), o.JSONField).Interface()
}

var ops = slices.Concat(snapshotOps, fileOps, forkOps, storeOps, remoteOps)

// Ops returns all operations.
func Ops() []*Op { return ops }

func findOp(name string) (*Op, error) {
	var names []string
	for _, o := range ops {
		if o.Name == name {
			return o, nil
		}
		names = append(names, o.Name)
	}

	return nil, WithSuggestion(errs.Fail(errs.Invalid, "no such operation: %q", name), name, names, "docs/api/openapi.yaml lists the operations")
}

// OpOf returns the operation that takes arguments of the type of args. It panics if there is none.
func OpOf(args any) *Op {
	t := reflect.TypeOf(args)
	if i := slices.IndexFunc(ops, func(o *Op) bool { return o.Args == t }); i >= 0 {
		return ops[i]
	}
	panic("no operation takes " + t.String())
}

// errUnknownResult is the error of Op.resume if the result cannot be reconstructed.
var errUnknownResult = errors.New("the result is not known")

// resume returns the result of an operation that the previous daemon carried out and did not answer. If the
// result cannot be reconstructed, resume returns an error that says that the operation took effect.
func (s *Service) resume(ctx context.Context, r *Request, o *Op, args any) (any, error) {
	if o.resume != nil {
		if result, err := o.resume(s, ctx, r, args); !errors.Is(err, errUnknownResult) {
			return result, err
		}
	}

	return nil, errs.Fail(errs.Failed, "the daemon ended after it carried out %q and before it answered", o.Name).
		WithHint("look at amberfs list and amberfs log before you repeat it")
}

// resumeTake returns the snapshot that was taken. If a.Wait is set, it waits until the snapshot has its id.
func (sn *snapshots) resumeTake(ctx context.Context, r *Request, a snapshot.CaptureOptions) (info.Info, error) {
	made := r.Carried.NewSnapshot
	if made.Name == "" {
		return made, errUnknownResult
	}
	if !a.Wait {
		return made, nil
	}

	return sn.awaitSealed(ctx, r, made)
}

// resumeRestore resumes all operations that restore: their arguments have different types.
func resumeRestore[A any](_ *snapshots, _ context.Context, r *Request, _ A) (snapshot.RestoreResult, error) {
	c := r.Carried
	if c.EditAnswer == nil {
		return snapshot.RestoreResult{}, errUnknownResult
	}
	return snapshot.RestoreResult{Snapshot: c.EditAnswer.Target, Changes: c.Changes(), Kept: c.EditAnswer.Kept}, nil
}

func (*forks) resumeMerge(_ context.Context, r *Request, _ snapshot.MergeOptions) (snapshot.PromoteResult, error) {
	c := r.Carried
	if c.EditAnswer == nil {
		return snapshot.PromoteResult{}, errUnknownResult
	}
	return snapshot.PromoteResult{Fork: c.EditAnswer.Target, MergeResult: snapshot.MergeResult{Changes: c.Changes()}}, nil
}

func (*forks) resumeCreate(_ context.Context, r *Request, a snapshot.ForkOptions) (Forked, error) {
	name := r.Carried.NewFork
	if name == "" || a.As != "" {
		return Forked{}, errUnknownResult
	}

	f, err := r.Workspace.Forks().Named(name)
	if err != nil {
		return Forked{}, err
	}

	return Forked{Name: name, Snapshot: f.BaseSnapshotName(), Path: forkPath(r, name)}, nil
}

func (*snapshots) resumeRemove(_ context.Context, _ *Request, a Remove) (Removed, error) {
	if len(a.Names) != 1 {
		return Removed{}, errUnknownResult
	}
	return Removed{Names: a.Names}, nil
}
