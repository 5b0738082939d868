package snapshot

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/interval"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/revert"
	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// UndoByOptions says which changes of an actor are taken back.
type UndoByOptions struct {
	By        string    // the actor, and those with names below it
	Since     string    // only changes after this snapshot
	After     time.Time // only changes in intervals that ended later
	Paths     []string  // relative to the root; everything when empty
	Keep      []string  // see RestoreOptions
	Conflicts threeway.Rule
	Merge     threeway.Merger
	DryRun    bool
	Caller    live.Caller
	List      *budget.Charge
	May       steps.May
}

// UndoByResult is what was taken back, or why nothing was.
type UndoByResult struct {
	Actor     string             `json:"actor"`
	Conflicts []string           `json:"conflicts,omitempty" jsonschema:"paths that others changed later in ways that do not merge"`
	Shared    []string           `json:"shared,omitempty" jsonschema:"paths that others changed between the same two snapshots: these changes are undone, too"`
	Changed   int                `json:"changed"`
	Paths     []steps.PathChange `json:"paths"`
	More      bool               `json:"more,omitempty" jsonschema:"more changed than paths names"`
	Undo      string             `json:"undo,omitempty" jsonschema:"the snapshot of the state before"`
	Kept      []string           `json:"kept,omitempty" jsonschema:"paths with changes of the actor that were left as they are"`
	// Gone is that of a RestoreResult.
	Gone []live.NodeID `json:"-"`
}

// UndoBy takes back what an actor changed and keeps what all others did: each interval in
// which it changed a path is reverted, the newest first. It is a restore in all other ways.
func (ss Snapshots) UndoBy(ctx context.Context, o UndoByOptions) (UndoByResult, error) {
	w := ss.w
	s := w.store
	u := &undoBy{w: w, o: o, states: make(map[uint32]*tree.State), shared: make(map[string]bool), kept: make(map[string]bool)}
	if err := u.prepare(); err != nil {
		return UndoByResult{Actor: o.By}, err
	}
	start := time.Now()
	out, err := retryWithWholeBudget(ctx, o.List, func() (outcome[UndoByResult], error) { return u.run(ctx) })
	if err != nil || out.res.Changed == 0 || o.DryRun {
		return out.res, err
	}
	s.metrics.Note(func(m *info.Metrics) { m.Restores++; m.LastRestoreMs = info.MsSince(start) })
	s.tell(out.inv)
	out.res.Gone = out.inv.Gone(maxGone)
	s.eventsOf(w, out.steps, o.By, out.res.Undo, o.Caller)
	return out.res, nil
}

// undoBy is one UndoBy.
type undoBy struct {
	w            *Workspace
	o            UndoByOptions
	list         []Interval             // to take back, newest first
	open         []*OpenInterval        // those of list
	states       map[uint32]*tree.State // their older states, by view
	shared, kept map[string]bool
}

// prepare checks the paths and finds the intervals.
func (u *undoBy) prepare() (err error) {
	if u.o.Paths, err = naming.CleanPaths(u.o.Paths); err != nil {
		return err
	}
	if u.o.Keep, err = naming.CleanPaths(u.o.Keep); err != nil {
		return err
	}
	if len(u.o.Paths) == 0 {
		u.w.read(func() { u.o.Keep = append(u.o.Keep, u.w.policy.RestoreKeeps...) })
	}
	var since Info
	if u.o.Since != "" {
		if since, err = u.w.Find(u.o.Since); err != nil {
			return err
		}
	}
	found := u.o.Since == ""
	for _, i := range u.w.Snapshots().Intervals() {
		if !i.Now() && !i.To.Created.After(u.o.After) {
			break
		}
		if i.By(u.o.By) {
			u.list = append(u.list, i)
		}
		if found = found || i.From.View == since.View; found && u.o.Since != "" {
			break
		}
	}
	if !found {
		return errs.New(errs.Invalid, "malformed request: snapshot %s is no earlier state of this workspace", u.o.Since)
	}
	return nil
}

// By reports whether an actor, or one with a name below it, changed anything.
func (i Interval) By(actor string) bool {
	if len(i.Actors) == 0 {
		return actor == actors.Unknown
	}
	return ActorIn(i.Actors, actor)
}

// ActorIn reports whether an actor, or one with a name below it, is among some.
func ActorIn(list []string, actor string) bool {
	return slices.ContainsFunc(list, func(a string) bool { return actors.Below(a, actor) })
}

// run makes the plan, and then journals and makes its steps in one step.
func (u *undoBy) run(ctx context.Context) (out outcome[UndoByResult], err error) {
	s, res := u.w.store, &out.res
	res.Actor = u.o.By
	e, err := s.forest.As(u.o.Caller.Actor).Edit(ctx, u.w.view)
	if err != nil {
		return out, err
	}
	defer s.Hold(e.Base())()
	defer e.End()
	defer s.Importing()() // merged files
	defer u.close()
	now := time.Now().UnixNano()
	p, err := u.plan(ctx, e.Base(), nil)
	if err != nil {
		return out, err
	}
	res.Conflicts = p.Conflicts
	for ours := make(map[string]bool); len(p.Conflicts) > 0 && u.o.Conflicts == threeway.KeepOurs; {
		for _, at := range p.Conflicts {
			ours[at] = true
		}
		if p, err = u.plan(ctx, e.Base(), ours); err != nil {
			return out, err
		}
		res.Conflicts = append(res.Conflicts, p.Conflicts...)
	}
	if out.steps, err = p.Steps(); err != nil {
		return out, err
	}
	res.Shared, res.Kept = slices.Sorted(maps.Keys(u.shared)), slices.Sorted(maps.Keys(u.kept))
	states := []*tree.State{e.Base()}
	views := make(map[uint32]bool)
	for _, step := range out.steps {
		if st := u.states[step.WithView]; step.With != nil && st != nil && !views[step.WithView] {
			views[step.WithView] = true
			states = append(states, st)
		}
	}
	asked := slices.Clone(out.steps)
	for _, c := range res.Conflicts {
		path, err := tree.ParsePath(c)
		if err != nil {
			return out, err
		}
		asked = append(asked, live.Step{Path: path})
	}
	if err := u.o.May.Allow(asked, states...); err != nil {
		res.Conflicts = nil
		return out, err
	}
	if len(res.Conflicts) > 0 && u.o.Conflicts == threeway.RefuseConflicts {
		return out, fmt.Errorf("%w: others changed %d path(s) of %s later", threeway.ErrConflict, len(res.Conflicts), u.o.By)
	}
	if res.Changed, res.Paths, res.More = steps.Listed(out.steps); len(out.steps) == 0 || u.o.DryRun {
		return out, nil
	}
	if p.Stored {
		if err := s.cas.Commit(); err != nil {
			return out, err
		}
	}
	deepest := slices.MaxFunc(states, func(a, b *tree.State) int { return a.Depth - b.Depth })
	r := editRecord{WS: u.w.view, Now: now}
	if err := s.graft(ctx, e, &r, out.steps, live.Graft{Source: deepest, View: u.w.view, Touch: true}); err != nil {
		return out, err
	}
	before := CaptureOptions{Message: "before undo of " + u.o.By, Caller: u.o.Caller}
	out.inv, err = s.commitEdit(u.w, e, &r, true, before, func() error {
		for _, i := range u.list {
			if _, ok := s.cat.snaps[i.From.View]; !ok && views[i.From.View] {
				return removedMeanwhile(i.From)
			}
		}
		return nil
	})
	res.Undo = r.Pre.Name
	return out, err
}

// plan plans how the intervals are taken back. The paths in ours stay as they are.
func (u *undoBy) plan(ctx context.Context, now *tree.State, ours map[string]bool) (*revert.Plan, error) {
	s := u.w.store
	p := &revert.Plan{
		Source: s.src, Objects: s.cas, Now: now, NowView: u.w.view, Merge: u.o.Merge, List: u.o.List, Skip: make(map[string]bool),
		Ours: ours, Theirs: u.o.Conflicts == threeway.TakeTheirs,
	}
	for _, k := range u.o.Keep {
		p.Skip[k] = true
	}
	for n, i := range u.list {
		if n == len(u.open) {
			open, err := u.w.Snapshots().Open(i)
			if err != nil {
				return nil, err
			}
			u.open = append(u.open, open)
			u.states[i.From.View] = open.Before
		}
		open := u.open[n]
		todo := revert.Interval{Older: open.Before, Newer: open.After, OlderView: i.From.View}
		if err := open.Changes(ctx, tree.DiffOptions{Paths: u.o.Paths}, func(c interval.ChangedBy) error {
			if !ActorIn(c.By, u.o.By) {
				return nil
			}
			at := c.Path.String()
			for k := at; k != "."; k = path.Dir(k) {
				if p.Skip[k] {
					u.kept[k] = true
					return nil
				}
			}
			if slices.ContainsFunc(c.By, func(a string) bool { return !actors.Below(a, u.o.By) }) {
				u.shared[c.Path.Short()] = true
			}
			todo.Changes = append(todo.Changes, c.Change)
			return nil
		}); err != nil {
			return nil, err
		}
		if err := p.Take(ctx, todo); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// close lets the intervals go.
func (u *undoBy) close() {
	for _, i := range u.open {
		i.Close()
	}
	u.open = nil
}
