package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/actors/blame"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Actor asks to register a name for a process and its descendants.
type Actor struct {
	Name string `json:"name" jsonschema:"the name: letters, digits, '_', '.', '-', ':' and '/'"`
	PID  uint32 `json:"pid,omitempty" jsonschema:"the process; the caller if missing. Through the mount, the caller or an ancestor of it"`
	Up   int    `json:"up,omitempty" jsonschema:"the process is so many generations above the caller"`
}

// Registered is the result of Actor.
type Registered struct {
	Name string `json:"name"`
	PID  uint32 `json:"pid" jsonschema:"0 stands for all processes that the daemon cannot see"`
}

func (fl *files) registerActor(_ context.Context, r *Request, a Actor) (Registered, error) {
	id, err := actorProcess(r, a)
	if err != nil {
		return Registered{}, err
	}
	return Registered{a.Name, id}, fl.registry.Register(id, r.Caller.UID, r.Workspace.View(), a.Name)
}

// actorProcess returns the id of the process to register. The id 0 registers the actor for all processes that the
// daemon cannot see. A caller in the mount can register only itself and its ancestors.
func actorProcess(r *Request, a Actor) (uint32, error) {
	switch {
	case r.Caller.ViaSocket && a.PID != 0:
		return a.PID, nil
	case r.Caller.PID == 0 && r.Workspace.IsFork():
		return 0, nil // the caller and all programs in its fork are in another PID namespace
	case r.Caller.PID == 0:
		return 0, errs.Fail(errs.Perm, "the process cannot be seen by the daemon: a name for all such can be registered in a fork only")
	}

	id := process.ProcessOf(int(r.Caller.PID))
	for up := a.Up; id > 1; up-- {
		if a.PID == 0 && up <= 0 || a.PID != 0 && id == int(a.PID) {
			return uint32(id), nil
		}
		st, err := process.StatOf(id)
		if err != nil {
			break
		}
		id = st.Parent
	}

	return 0, errs.Fail(errs.NotExist, "the caller has no such ancestor")
}

func (*files) actors(_ context.Context, r *Request, _ Actors) (ActorList, error) {
	known := make(map[string]*ActorState)

	for _, i := range r.Workspace.Snapshots().Intervals() {
		for _, name := range i.Actors {
			a := known[name]
			if a == nil {
				a = &ActorState{Name: name, Last: i.To.Created, Now: i.IsPresent()}
				known[name] = a
			}

			if a.First = i.From.Created; !i.IsPresent() {
				a.Snapshots++
			}
		}
	}

	out := ActorList{Actors: []ActorState{}}
	for _, a := range known {
		if a.Now {
			a.Last = time.Now()
		}
		out.Actors = append(out.Actors, *a)
	}

	slices.SortStableFunc(out.Actors, func(a, b ActorState) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Name, b.Name))
	})

	return out, nil
}

// checkActor returns an error for an unknown actor. The known actors are the actor of the caller, those that changed
// something in the workspace, and those that are registered for the workspace.
func (fl *files) checkActor(ctx context.Context, r *Request, actor string) error {
	if err := actors.Check(actor); err != nil {
		return err
	}

	list, err := fl.actors(ctx, r, Actors{})
	if err != nil {
		return err
	}

	names := []string{actors.Unknown, r.Caller.Actor}
	for _, a := range list.Actors {
		top, _, _ := strings.Cut(a.Name, "/")
		names = append(names, a.Name, top)
	}
	if actors.ContainsOrBelow(names, actor) || fl.registry.IsRegistered(actor, r.Workspace.View()) {
		return nil
	}

	return WithSuggestion(errs.Fail(errs.NotExist, "there is no actor %s", actor), actor, names, "see `amberfs actors`")
}

// completeUndoOptions completes the options of a request to undo the changes of an actor. If o.Since is not the name
// of a snapshot, completeUndoOptions parses it as a date or duration, sets o.After to that time, and clears o.Since.
func (fl *files) completeUndoOptions(ctx context.Context, r *Request, o snapshot.UndoByOptions) (snapshot.UndoByOptions, error) {
	if err := fl.checkActor(ctx, r, o.Actor); err != nil {
		return o, err
	}

	o.Merge, o.Caller, o.ListCharge = r.textMerger().Merge, r.Caller, r.listMemoryCharge()
	since := o.Since
	if _, err := r.Workspace.Find(since); err == nil {
		return o, nil
	}

	var err error
	o.Since = ""
	if o.After, err = ParseSince(since); err != nil {
		return o, errs.Fail(errs.Invalid, "since is a snapshot, a duration such as 2h or 7d, or a date, not %q", since)
	}
	if o.After.After(time.Now()) {
		return o, errs.Fail(errs.Invalid, "since is after now: %s", since)
	}

	return o, nil
}

func (fl *files) undoBy(ctx context.Context, r *Request, a snapshot.UndoByOptions) (UndoneBy, error) {
	o, err := fl.completeUndoOptions(ctx, r, a)
	if err != nil {
		return UndoneBy{}, err
	}

	changes, err := r.Workspace.Snapshots().UndoBy(ctx, o)
	result := UndoneBy{UndoByResult: changes}
	if errors.Is(err, threeway.ErrConflict) {
		return result, errs.Fail(errs.Conflict, "others changed %s of %s, too; nothing is touched", plural(len(changes.Conflicts), "path", "paths"), a.Actor).
			WithHint("decide with --ours (keep them as they are) or --theirs (as before %s)", a.Actor).WithResult(result)
	}
	if err != nil {
		return result, explainConflict(err, result, nil, "", "")
	}
	if changes.Undo != "" && !actors.IsOrBelow(r.Caller.Actor, a.Actor) {
		result.Later = r.Workspace.Snapshots().Intervals()[0].ChangedBy(a.Actor)
	}

	return result, nil
}

// pathsChangedBy returns the paths of the files that an actor changed between the snapshots a and b, or up to now
// if b is "". The order of a and b does not matter. If paths is not empty, it returns only files at or below these
// paths.
func (fl *files) pathsChangedBy(ctx context.Context, r *Request, actor, a, b string, paths []naming.BytePath) ([]naming.BytePath, error) {
	if err := fl.checkActor(ctx, r, actor); err != nil {
		return nil, err
	}

	from, err := r.Workspace.Find(a)
	if err != nil {
		return nil, err
	}

	var to info.Info
	if b != "" {
		if to, err = r.Workspace.Find(b); err != nil {
			return nil, err
		}
		if to.Seq < from.Seq {
			from, to = to, from
		}
	}

	// The loop begins with the newest interval. within becomes true at the interval that ends with the snapshot to,
	// and ended after the interval that begins with the snapshot from.
	var out []naming.BytePath
	within, ended := b == "", false

	for _, i := range r.Workspace.Snapshots().Intervals() {
		within = within || i.To.View == to.View && !i.IsPresent()
		if within && !ended && i.ChangedBy(actor) {
			if err := appendPathsBy(ctx, r, i, actor, diffPaths(paths...), &out); err != nil {
				return nil, err
			}
		}

		ended = ended || within && i.From.View == from.View
	}
	if !ended {
		return nil, errs.Fail(errs.Invalid, "%s and %s are not earlier states of this workspace", a, cmp.Or(b, "now"))
	}

	return out, nil
}

// appendPathsBy appends the files that an actor changed in an interval to *out. paths is as in tree.DiffOptions.
func appendPathsBy(ctx context.Context, r *Request, i catalogue.Interval, actor string, paths []string, out *[]naming.BytePath) error {
	open, err := r.Workspace.Snapshots().OpenInterval(i)
	if err != nil {
		return err
	}
	defer open.Close()

	charge := r.listMemoryCharge()
	return open.EachChange(ctx, tree.DiffOptions{Paths: paths}, func(c blame.ActorsChange) error {
		if !actors.ContainsOrBelow(c.Actors, actor) || c.Before != nil && c.Before.IsDir() || c.After != nil && c.After.IsDir() {
			return turns.Yield(ctx)
		}
		*out = append(*out, naming.BytePath(c.Path.String()))
		return charge.Add(ctx, 100+int64(c.Path.Len()))
	})
}

// actorsOf returns the names of the actors that changed a file in an interval, sorted. nodes are the inodes of the
// file before and after the interval; each may be nil.
func actorsOf(r *Request, i catalogue.Interval, nodes ...*tree.Inode) (names []string, err error) {
	open, err := r.Workspace.Snapshots().OpenInterval(i)
	if err != nil {
		return nil, err
	}
	defer open.Close()

	for _, n := range nodes {
		if n != nil {
			names = append(names, open.ActorSet.ActorsOf(n.Ino)...)
		}
	}

	if len(names) == 0 {
		names = open.ActorSet.ActorsWithoutInodes()
	}

	slices.Sort(names)

	return slices.Compact(names), nil
}
