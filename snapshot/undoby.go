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
	// Contents has priority over Ours and Theirs. Decision.Of is the Digest of the present file.
	Contents map[string]threeway.Decision `json:"contents,omitempty" jsonschema:"the texts of single paths, by path"`
	After    time.Time                    `json:"-"` // undo only changes in intervals that ended later
	Merge    threeway.Merger              `json:"-"` // see MergeOptions
	Caller   actors.Caller                `json:"-"`
	List     *budget.Charge               `json:"-"` // see RestoreOptions
}

// UndoByResult lists the undone changes, or the conflicts if the undo was refused.
type UndoByResult struct {
	Actor string `json:"actor"`
	MergeResult
	Shared []string `json:"shared,omitempty" jsonschema:"paths that others changed between the same two snapshots: they are in conflict, and with theirs these changes are undone, too"`
	Kept   []string `json:"kept,omitempty" jsonschema:"paths with changes of the actor that were left as they are"`
}

// UndoBy undoes the changes of an actor and keeps the changes of all other actors: the changes of
// the actor in each interval between snapshots are reverted, newest interval first. Otherwise it
// works as a restore.
//
// If the actor was undone before, that undo is reverted, too, when its interval is reached. So the
// changes that it undid exist again when their own interval is reverted. Without this, they would
// be in conflict with the earlier undo.
func (ss Snapshots) UndoBy(ctx context.Context, o UndoByOptions) (UndoByResult, error) {
	u, err := ss.newUndoBy(o)
	if err != nil {
		return UndoByResult{Actor: o.By}, err
	}

	start := time.Now()
	order := change{name: "undo-by", caller: o.Caller, list: o.List, from: o.By, Changes: Changes{DryRun: o.DryRun}}
	c, err := ss.w.change(ctx, order, func(c *change) error { return u.planChange(ctx, c) })
	if c.Undo != "" {
		ss.w.store.metrics.Note(func(m *info.Metrics) { m.Restores++; m.LastRestoreMs = info.MsSince(start) })
	}

	return UndoByResult{o.By, c.mergeResult(), slices.Sorted(maps.Keys(u.shared)), slices.Sorted(maps.Keys(u.kept))}, err
}

// An actorUndo is one call of UndoBy or SidesBy.
type actorUndo struct {
	w     *Workspace
	o     UndoByOptions
	paths []string
	rule  threeway.Rule
	list  []catalogue.Interval // intervals to revert, newest first
	since uint64               // sequence number of the snapshot at the begin of the oldest one
	open  []*OpenInterval      // opened so far, see close

	keep, shared, kept map[string]bool // sets of paths: keep of the options, the others of the result
}

// newUndoBy checks the options and finds the intervals to revert.
func (ss Snapshots) newUndoBy(o UndoByOptions) (u *actorUndo, err error) {
	u = &actorUndo{w: ss.w, o: o, keep: make(map[string]bool), shared: make(map[string]bool), kept: make(map[string]bool)}
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
		u.w.withReadLock(func() { keep = slices.Concat(keep, u.w.ws.Policy.RestoreKeeps, u.w.ws.Policy.ReadOnly) })
	}
	for _, k := range keep {
		u.keep[k] = true
	}

	return u, u.findIntervals(ss.Intervals())
}

// findIntervals sets list and since. all are the intervals of the workspace, newest first.
func (u *actorUndo) findIntervals(all []catalogue.Interval) (err error) {
	var since info.Info
	if u.o.Since != "" {
		if since, err = u.w.Find(u.o.Since); err != nil {
			return err
		}
	}

	found := u.o.Since == ""

	for _, i := range all {
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
		return errs.New(errs.Invalid, "malformed request: snapshot %s is no earlier state of this workspace", u.o.Since)
	}

	// Drop undos that are not reverted. since was not known when they were collected.
	u.list = slices.DeleteFunc(u.list, func(i catalogue.Interval) bool { return !i.By(u.o.By) && !u.revertsUndo(i) })

	return nil
}

// planChange is the plan of Workspace.change.
func (u *actorUndo) planChange(ctx context.Context, c *change) error {
	c.releases = append(c.releases, u.close)
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

	// The source of the graft is the deepest state of which steps use contents.
	used := make(map[uint32]bool) // by view
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
	c.undone = &catalogue.Undone{By: u.o.By, Since: u.since}
	c.kept = slices.Sorted(maps.Keys(u.kept))
	c.check = func() error {
		for _, i := range u.list {
			if used[i.From.View] && u.w.store.cat.Snapshots.At(i.From.View) == nil {
				return catalogue.DeletedError(i.From)
			}
		}
		return nil
	}

	return c.usePlan(p, steps)
}

// plan reverts the intervals on top of now, the present state. If now is nil, it reverts them on
// top of the newest state with a change of the actor, and does not revert earlier undos. It
// returns the plan and the intervals that it reverts.
func (u *actorUndo) plan(ctx context.Context, now *tree.State) (*threeway.Plan, []threeway.Interval, error) {
	p := u.newPlan(now, u.w.ws.View)
	var all, withoutUndos []threeway.Interval

	for _, i := range u.list {
		undo := u.revertsUndo(i)
		if undo && now == nil {
			continue
		}

		open, err := u.w.Snapshots().Open(i)
		if err != nil {
			return nil, nil, err
		}

		u.open = append(u.open, open)
		reverse, err := u.reverse(ctx, p, open, undo)
		if err != nil {
			return nil, nil, err
		}
		if p.Ours == nil && len(reverse.Changes) > 0 {
			p.Ours, p.View = open.After, cmp.Or(i.To.View, u.w.ws.View)
		}
		if all = append(all, reverse); !undo {
			withoutUndos = append(withoutUndos, reverse)
		}
	}
	if p.Ours == nil {
		return nil, nil, errs.New(errs.NotExist, "there is no change by %s", u.o.By)
	}

	err := takeIntervals(ctx, p, all)
	if err != nil || len(p.Conflicts) == 0 || len(withoutUndos) == len(all) {
		return p, all, err
	}

	// A restore after an earlier undo may have brought the undone changes back. Then the undo
	// must not be reverted.
	p2 := u.newPlan(p.Ours, p.View)
	if err := takeIntervals(ctx, p2, withoutUndos); err != nil {
		return p, all, err
	}
	if len(p2.Conflicts) < len(p.Conflicts) {
		return p2, withoutUndos, nil
	}

	return p, all, nil
}

func (u *actorUndo) newPlan(ours *tree.State, view uint32) *threeway.Plan {
	return &threeway.Plan{
		Source: u.w.store.src, Store: textStore(u.w.store), Ours: ours, View: view, Now: time.Now().UnixNano(), Merge: u.o.Merge, List: u.o.List, Skip: u.keep,
		Rule: func(string) threeway.Rule { return u.rule },
	}
}

// takeIntervals adds the changes of all intervals to a plan.
func takeIntervals(ctx context.Context, p *threeway.Plan, all []threeway.Interval) error {
	return p.Run(func() error {
		for _, i := range all {
			if err := p.Take(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// revertsUndo reports whether an interval is an earlier undo of the actor that is reverted: the
// new undo reaches back at least as far.
func (u *actorUndo) revertsUndo(i catalogue.Interval) bool {
	return i.Undoes != nil && actors.Below(i.Undoes.By, u.o.By) && i.Undoes.Since >= u.since
}

func (u *actorUndo) close() {
	for _, open := range u.open {
		open.Close()
	}
	u.open = nil
}

// SidesBy calls fn with two versions of the only path in o.Paths: the version that the actor left,
// and the version without the actor's changes. A version is nil if the path does not exist in it.
func (ss Snapshots) SidesBy(ctx context.Context, o UndoByOptions, fn func(left, without *tree.Inode) error) error {
	u, err := ss.newUndoBy(o)
	if err != nil {
		return err
	}
	defer ss.w.store.Importing()() // the plan stores merged files
	defer u.close()

	p, _, err := u.plan(ctx, nil)
	if err != nil {
		return err
	}
	if err := p.Refused(); err != nil {
		return err
	}

	left, without, err := p.Versions(u.paths[0])
	if err != nil {
		return err
	}

	return fn(left, without)
}

// reverse returns the reversed changes of the actor in an interval. Of an undo it returns all
// changes reversed.
func (u *actorUndo) reverse(ctx context.Context, p *threeway.Plan, open *OpenInterval, undo bool) (threeway.Interval, error) {
	of := threeway.Interval{Base: open.After, Theirs: open.Before, View: open.From.View, Disputed: make(map[string]bool)}
	err := open.Changes(ctx, tree.DiffOptions{Paths: u.paths}, func(c graft.ChangedBy) error {
		if _, decided := u.o.Contents[c.Path.String()]; decided || !undo && !actors.Among(c.By, u.o.By) {
			return nil
		}
		if _, _, git := threeway.InGit(c.Path.String() + "/"); git {
			return nil // only git can undo commits and branches
		}

		if k := threeway.Under(c.Path.String(), u.keep); k != "" {
			u.kept[k] = true
			return nil
		}

		dir := c.Before != nil && c.Before.IsDir() || c.After != nil && c.After.IsDir()
		madeOrRemoved := c.Before == nil || c.After == nil
		byOthers := slices.ContainsFunc(c.By, func(a string) bool { return !actors.Below(a, u.o.By) })

		// A directory that was made or removed is not shared: files of other actors in it are
		// changes of their own, and prevent its removal.
		if !undo && byOthers && !(dir && madeOrRemoved) {
			u.shared[c.Path.Short()], of.Disputed[c.Path.String()] = true, true
		}

		return p.Collect(ctx, &of, c.Reversed())
	})

	return of, err
}
