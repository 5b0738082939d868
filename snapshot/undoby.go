package snapshot

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/actors/blame"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type UndoByOptions struct {
	Actor string            `json:"by" jsonschema:"the actor; names below it are included"`
	Since string            `json:"since,omitempty" jsonschema:"only changes since: a snapshot, a duration such as 2h or 7d, or a date"`
	Paths []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories"`
	Keep  []naming.BytePath `json:"keep,omitempty" jsonschema:"leave these paths as they are"`
	MergeRules
	// Contents has priority over Ours and Theirs. Decision.Digest is the Digest of the present file.
	Contents   map[string]threeway.Decision `json:"contents,omitempty" jsonschema:"the texts of single paths, by path"`
	After      time.Time                    `json:"-"` // undo only changes in intervals that ended later
	Merge      threeway.Merger              `json:"-"` // see MergeOptions
	Caller     actors.Caller                `json:"-"`
	ListCharge *budget.Charge               `json:"-"` // see RestoreOptions
}

// UndoByResult lists the undone changes, or the conflicts if the undo was refused.
type UndoByResult struct {
	Actor string `json:"actor"`
	MergeResult
	Shared []string `json:"shared,omitempty" jsonschema:"paths that others changed between the same two snapshots: they are in conflict, and with theirs these changes are undone, too"`
	Kept   []string `json:"kept,omitempty" jsonschema:"paths with changes of the actor that were left as they are"`
}

// UndoBy undoes the changes of an actor and keeps the changes of all other actors. It reverts the actor's changes
// in each interval between snapshots, newest interval first. In all other respects it works like a restore.
//
// If changes of the actor were undone before, UndoBy first reverts that undo, in the interval in which it was made.
// So these changes exist again when UndoBy reaches their own interval. Otherwise they would be in conflict with the
// earlier undo.
func (ss Snapshots) UndoBy(ctx context.Context, o UndoByOptions) (UndoByResult, error) {
	u, err := ss.newUndoBy(o)
	if err != nil {
		return UndoByResult{Actor: o.Actor}, err
	}

	start := time.Now()
	args := change{name: "undo-by", caller: o.Caller, listCharge: o.ListCharge, sourceName: o.Actor, Changes: Changes{DryRun: o.DryRun}}
	c, err := ss.w.change(ctx, args, func(c *change) error { return planUndoBy(ctx, u, c) })
	if c.Undo != "" {
		ss.w.store.parts.Metrics.Update(func(m *info.Metrics) { m.Restores++; m.LastRestoreMs = info.MsSince(start) })
	}

	return UndoByResult{o.Actor, c.mergeResult(), slices.Sorted(maps.Keys(u.SharedPaths)), slices.Sorted(maps.Keys(u.KeptPaths))}, err
}

// newUndoBy checks the options and finds the intervals to revert.
func (ss Snapshots) newUndoBy(o UndoByOptions) (*blame.Undo, error) {
	s := ss.w.store
	rule, err := threeway.RuleOf(o.Ours, o.Theirs)
	if err != nil {
		return nil, err
	}
	paths, err := naming.CleanPaths(o.Paths)
	if err != nil {
		return nil, err
	}

	keep, err := naming.CleanPaths(o.Keep)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		rules := ss.w.Policy()
		keep = slices.Concat(keep, rules.RestoreKeeps, rules.ReadOnly)
	}

	u := blame.NewUndo(o.Actor, paths, keep)
	u.Decisions, u.View, u.OpenInterval = o.Contents, ss.w.ws.View, ss.OpenInterval
	u.NewPlan = func() *threeway.Plan {
		return &threeway.Plan{
			Source: s.src, StoreText: textStorer(s), Now: time.Now().UnixNano(), Merge: o.Merge, ListCharge: o.ListCharge, SkipPaths: u.KeepPaths,
			Rule: func(string) threeway.Rule { return rule },
		}
	}

	var since info.Info
	if o.Since != "" {
		if since, err = ss.w.Find(o.Since); err != nil {
			return nil, err
		}
	}

	if !u.ChooseIntervals(ss.Intervals(), since, o.After) {
		return nil, errs.New(errs.Invalid, "malformed request: snapshot %s is no earlier state of this workspace", o.Since)
	}

	return u, nil
}

// planUndoBy plans the undo u. It is the function plan of Workspace.change.
func planUndoBy(ctx context.Context, u *blame.Undo, c *change) error {
	c.releases = append(c.releases, u.Close)
	p, all, err := u.Plan(ctx, c.present)
	if err != nil {
		return err
	}

	steps, err := p.Steps()
	if err != nil {
		return err
	}

	// The graft computes the depth of the new state from the depth of its source. Its steps use the contents of
	// several states, so the source must be the deepest of these.
	used := make(map[uint32]bool) // by view
	for _, step := range steps {
		used[step.ReplacementView] = true
	}

	deepest := c.present
	for _, i := range all {
		if used[i.View] && i.Theirs.Depth > deepest.Depth {
			deepest = i.Theirs
		}
	}

	c.graft.Options = graft.Options{Source: deepest, View: u.View, Touch: true}
	c.message = "before undo of " + u.Actor
	c.snapshotAfter = &CaptureOptions{Kind: info.KindActor, Message: "after undo of " + u.Actor}
	c.actorUndo = &catalogue.ActorUndo{By: u.Actor, Since: u.SinceSeq}
	c.keptPaths = slices.Sorted(maps.Keys(u.KeptPaths))
	c.checkBeforePublish = func() error {
		for _, i := range u.Intervals {
			if used[i.From.View] && c.w.store.cat.Snapshots.At(i.From.View) == nil {
				return catalogue.DeletedError(i.From)
			}
		}
		return nil
	}

	return c.usePlan(p, steps)
}

// VersionsBy calls fn with two versions of the only path in o.Paths: lastByActor, just after the last change of the
// actor, and withoutActor, without the actor's changes. A version is nil if the path does not exist in it.
func (ss Snapshots) VersionsBy(ctx context.Context, o UndoByOptions, fn func(lastByActor, withoutActor *tree.Inode) error) error {
	u, err := ss.newUndoBy(o)
	if err != nil {
		return err
	}
	defer ss.w.store.BeginImport()() // the plan stores merged files
	defer u.Close()

	p, _, err := u.Plan(ctx, nil)
	if err != nil {
		return err
	}
	if err := p.ConflictError(); err != nil {
		return err
	}

	lastByActor, withoutActor, err := p.Versions(u.Paths[0])
	if err != nil {
		return err
	}

	return fn(lastByActor, withoutActor)
}
