package snapshot

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type UndoByOptions struct {
	By     string            `json:"by" jsonschema:"the actor; names below it are included"`
	Since  string            `json:"since,omitempty" jsonschema:"only changes since: a snapshot, a duration such as 2h or 7d, or a date"`
	Paths  []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories"`
	Keep   []naming.BytePath `json:"keep,omitempty" jsonschema:"leave these paths as they are"`
	Ours   bool              `json:"ours,omitempty" jsonschema:"leave paths in conflict as they are"`
	Theirs bool              `json:"theirs,omitempty" jsonschema:"make paths in conflict what they were before the actor"`
	DryRun bool              `json:"dry_run,omitempty" jsonschema:"return what would change, and change nothing"`
	// Contents decides before Ours and Theirs. Of is the Digest of the present file.
	Contents map[string]threeway.Decision `json:"contents,omitempty" jsonschema:"the texts of single paths, by path"`
	After    time.Time                    `json:"-"` // only changes in intervals that ended later
	Merge    threeway.Merger              `json:"-"`
	Caller   actors.Caller                `json:"-"`
	List     *budget.Charge               `json:"-"`
}

// UndoByResult is what was undone, or why nothing was.
type UndoByResult struct {
	Actor string `json:"actor"`
	MergeResult
	Shared []string `json:"shared,omitempty" jsonschema:"paths that others changed between the same two snapshots: they are in conflict, and with theirs these changes are undone, too"`
	Kept   []string `json:"kept,omitempty" jsonschema:"paths with changes of the actor that were left as they are"`
}

// UndoBy takes back what an actor changed and keeps what all others did: each interval in
// which it changed a path is reverted, the newest first. It is a restore in all other ways.
//
// An earlier undo of the actor is reverted, too, in its turn: the changes that it took back
// are there again when they are reverted. With the earlier undo as a change of somebody else
// they would be in conflict with it.
func (ss Snapshots) UndoBy(ctx context.Context, o UndoByOptions) (UndoByResult, error) {
	u, err := ss.newUndoBy(o)
	if err != nil {
		return UndoByResult{Actor: o.By}, err
	}
	start := time.Now()
	order := change{caller: o.Caller, list: o.List, from: o.By, Changes: Changes{DryRun: o.DryRun}}
	c, err := ss.w.change(ctx, order, func(c *change) error { return u.change(ctx, c) })
	if c.Undo != "" {
		ss.w.store.metrics.Note(func(m *info.Metrics) { m.Restores++; m.LastRestoreMs = info.MsSince(start) })
	}
	return UndoByResult{o.By, c.mergeResult(), slices.Sorted(maps.Keys(u.shared)), slices.Sorted(maps.Keys(u.kept))}, err
}

// undoBy is one UndoBy.
type undoBy struct {
	w     *Workspace
	o     UndoByOptions
	paths []string
	rule  threeway.Rule
	list  []catalogue.Interval // to take back, newest first
	since uint64               // the number of the snapshot that they reach back to
	open  []*OpenInterval

	keep, shared, kept map[string]bool
}

// newUndoBy checks the options and finds the intervals.
func (ss Snapshots) newUndoBy(o UndoByOptions) (u *undoBy, err error) {
	u = &undoBy{w: ss.w, o: o, keep: make(map[string]bool), shared: make(map[string]bool), kept: make(map[string]bool)}
	if u.rule, err = threeway.RuleOf(o.Ours, o.Theirs); err != nil {
		return nil, err
	}
	if u.paths, err = naming.CleanPaths(o.Paths); err != nil {
		return nil, err
	}
	keep, err := naming.CleanPaths(o.Keep)
	if err != nil {
		return nil, err
	}
	if len(u.paths) == 0 {
		u.w.read(func() { keep = append(keep, u.w.ws.Policy.RestoreKeeps...) })
	}
	for _, k := range keep {
		u.keep[k] = true
	}
	var since info.Info
	if u.o.Since != "" {
		if since, err = u.w.Find(u.o.Since); err != nil {
			return nil, err
		}
	}
	found := u.o.Since == ""
	for _, i := range ss.Intervals() {
		if !i.Now() && !i.To.Created.After(u.o.After) {
			u.since = i.To.Seq
			break
		}
		if i.By(u.o.By) || i.Undoes != nil {
			u.list = append(u.list, i)
		}
		if found = found || i.From.View == since.View; found && u.o.Since != "" {
			u.since = i.From.Seq
			break
		}
	}
	if !found {
		return nil, errs.New(errs.Invalid, "malformed request: snapshot %s is no earlier state of this workspace", u.o.Since)
	}
	u.list = slices.DeleteFunc(u.list, func(i catalogue.Interval) bool { return !i.By(u.o.By) && !u.reverts(i) })
	return u, nil
}

// change plans the change.
func (u *undoBy) change(ctx context.Context, c *change) error {
	c.held = append(c.held, u.close)
	p, all, err := u.plan(ctx, c.now)
	if err != nil {
		return err
	}
	for at, d := range u.o.Contents {
		if threeway.Under(at, u.keep) != "" {
			continue
		}
		if err := p.Decide(ctx, at, d); err != nil {
			return err
		}
	}
	steps, err := p.Steps()
	if err != nil {
		return err
	}

	used := make(map[uint32]bool) // views
	for _, step := range steps {
		used[step.WithView] = true
	}
	deepest := c.now
	for _, i := range all {
		if used[i.View] && i.Theirs.Depth > deepest.Depth {
			deepest = i.Theirs
		}
	}
	c.graft.Options = graft.Options{Source: deepest, View: u.w.ws.View, Touch: true}
	c.message = "before undo of " + u.o.By
	c.after = &CaptureOptions{Kind: info.KindActor, Message: "after undo of " + u.o.By}
	c.undoes = &catalogue.Undone{By: u.o.By, Since: u.since}
	c.kept = slices.Sorted(maps.Keys(u.kept))
	c.check = func() error {
		for _, i := range u.list {
			if _, ok := u.w.store.cat.Snapshots[i.From.View]; !ok && used[i.From.View] {
				return catalogue.RemovedMeanwhile(i.From)
			}
		}
		return nil
	}
	return c.take(p, steps)
}

// plan takes the intervals back from the present state or, without one, from the newest state
// in which the actor left something.
func (u *undoBy) plan(ctx context.Context, now *tree.State) (*threeway.Plan, []threeway.Interval, error) {
	p := u.newPlan(now, u.w.ws.View)
	var all, own []threeway.Interval // own are those without undos
	for _, i := range u.list {
		undo := u.reverts(i)
		if undo && now == nil {
			continue
		}
		open, err := u.w.Snapshots().Open(i)
		if err != nil {
			return nil, nil, err
		}
		u.open = append(u.open, open)
		of, err := u.changes(ctx, p, open, undo)
		if err != nil {
			return nil, nil, err
		}
		if p.Ours == nil && len(of.Changes) > 0 {
			p.Ours, p.View = open.After, cmp.Or(i.To.View, u.w.ws.View)
		}
		if all = append(all, of); !undo {
			own = append(own, of)
		}
	}
	if p.Ours == nil {
		return nil, nil, errs.New(errs.NotExist, "there is no change by %s", u.o.By)
	}
	err := take(ctx, p, all)
	if err != nil || len(p.Conflicts) == 0 || len(own) == len(all) {
		return p, all, err
	}
	// What an undo took back may be there again: after a restore.
	without := u.newPlan(p.Ours, p.View)
	if err = take(ctx, without, own); err == nil && len(without.Conflicts) < len(p.Conflicts) {
		return without, own, nil
	}
	return p, all, err
}

func (u *undoBy) newPlan(ours *tree.State, view uint32) *threeway.Plan {
	return &threeway.Plan{
		Source: u.w.store.src, Objects: u.w.store.cas, Ours: ours, View: view, Now: time.Now().UnixNano(), Merge: u.o.Merge, List: u.o.List, Skip: u.keep,
		Rule: func(string) threeway.Rule { return u.rule },
	}
}

func take(ctx context.Context, p *threeway.Plan, all []threeway.Interval) error {
	return p.Run(func() error {
		for _, i := range all {
			if err := p.Take(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// reverts reports whether an interval is an undo that is reverted: what it took back is all
// taken back again.
func (u *undoBy) reverts(i catalogue.Interval) bool {
	return i.Undoes != nil && actors.Below(i.Undoes.By, u.o.By) && i.Undoes.Since >= u.since
}

func (u *undoBy) close() {
	for _, open := range u.open {
		open.Close()
	}
	u.open = nil
}

// SidesBy calls fn with two versions of the one path of UndoByOptions: as the actor left it, and
// without the actor's changes. A version is nil if the path does not exist.
func (ss Snapshots) SidesBy(ctx context.Context, o UndoByOptions, fn func(left, without *tree.Inode) error) error {
	u, err := ss.newUndoBy(o)
	if err != nil {
		return err
	}
	defer ss.w.store.Importing()() // merged files
	defer u.close()
	p, _, err := u.plan(ctx, nil)
	if err == nil {
		err = p.Refused()
	}
	if err != nil {
		return err
	}
	left, without, err := p.At(u.paths[0])
	if err != nil {
		return err
	}
	return fn(left, without)
}

// changes collects what to take back of an interval: all of an undo.
func (u *undoBy) changes(ctx context.Context, p *threeway.Plan, open *OpenInterval, undo bool) (threeway.Interval, error) {
	of := threeway.Interval{Base: open.After, Theirs: open.Before, View: open.From.View, Disputed: make(map[string]bool)}
	err := open.Changes(ctx, tree.DiffOptions{Paths: u.paths}, func(c graft.ChangedBy) error {
		if _, decided := u.o.Contents[c.Path.String()]; decided || !undo && !actors.Among(c.By, u.o.By) {
			return nil
		}
		if _, _, git := threeway.InGit(c.Path.String() + "/"); git {
			return nil // commits and branches are git's to take back
		}
		if k := threeway.Under(c.Path.String(), u.keep); k != "" {
			u.kept[k] = true
			return nil
		}
		dir := c.Before != nil && c.Before.IsDir() || c.After != nil && c.After.IsDir()
		came := c.Before == nil || c.After == nil // what others put into a directory is theirs, and keeps it
		if !undo && slices.ContainsFunc(c.By, func(a string) bool { return !actors.Below(a, u.o.By) }) && !(dir && came) {
			u.shared[c.Path.Short()], of.Disputed[c.Path.String()] = true, true
		}
		return p.Collect(ctx, &of, c.Reversed())
	})
	return of, err
}
