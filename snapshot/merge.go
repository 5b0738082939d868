package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/interval"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type PromoteOptions struct {
	Conflicts threeway.Rule
	Merge     threeway.Merger // merges files that changed on both sides; nil for none
	// Choices are the rules of single paths, before Conflicts.
	Choices map[string]threeway.Rule
	// Decided are the texts of single paths, before Choices.
	Decided map[string]threeway.Decision
	DryRun  bool
	Caller  live.Caller
	List    *budget.Charge // see RestoreOptions
}

// A MergeResult is what a merge or an undo of an actor changed, or why it changed nothing.
type MergeResult struct {
	Conflicts []string `json:"conflicts,omitempty" jsonschema:"paths that changed on both sides in ways that do not merge"`
	Changes
}

type PromoteResult struct {
	Fork string `json:"fork"`
	MergeResult
}

// Merge brings what changed in a fork since its base into the workspace.
// A path that changed on both sides in different ways, which do not merge, is a
// conflict: nothing is touched then, unless the options decide.
func (fs Forks) Merge(ctx context.Context, fork string, o PromoteOptions) (PromoteResult, error) {
	f, err := fs.Named(fork)
	if err != nil {
		return PromoteResult{Fork: fork}, err
	}
	out, err := retryWithWholeBudget(ctx, o.List, func() (outcome, error) { return fs.merge(ctx, f, o) })
	if out.report(fs.w, fork, o.Caller); out.Undo != "" {
		fs.w.store.event(Event{Workspace: fs.w.rec.View, Action: "merged", From: fork}, o.Caller)
	}
	return PromoteResult{fork, MergeResult{out.conflicts, out.Changes}}, err
}

// merge prepares the steps, and then journals and makes them in one step.
func (fs Forks) merge(ctx context.Context, f *Workspace, o PromoteOptions) (out outcome, err error) {
	s := fs.w.store
	e, err := s.forest.As(o.Caller.Actor).Edit(ctx, fs.w.rec.View, f.rec.View)
	if err != nil {
		return out, err
	}
	defer s.Hold(e.Base())()
	defer e.End()
	defer s.Importing()() // merged files
	var base, theirs *tree.State
	var changed interval.Changes
	if err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		sn, ok := s.cat.snaps[f.rec.Base]
		if !ok {
			return fmt.Errorf("%w: fork %q has no base", ErrNotFound, f.rec.Name)
		}
		if base, err = sn.Tree(s.src); err != nil {
			return err
		}
		changed = f.Snapshots().allChanges(tx)
		theirs, err = tx.Capture(f.rec.View)
		return err
	}); err != nil {
		return out, err
	}
	p := &threeway.Plan{
		Source: s.src, Objects: s.cas, Ours: e.Base(), View: f.rec.Parent, Now: time.Now().UnixNano(), Merge: o.Merge, List: o.List, ByPath: true,
		Decided: o.Decided,
		Rule: func(path string) threeway.Rule {
			if r, ok := o.Choices[path]; ok {
				return r
			}
			return o.Conflicts
		},
	}
	in := interval.States{Source: s.src, Before: base, After: theirs, Set: s.union(changed)}
	g := live.Graft{Source: theirs, View: f.rec.View, By: in.ActorsOf}
	var all []live.Step
	differs := errors.New("it differs")
	switch err = tree.Diff(ctx, s.src, base, p.Ours, tree.DiffOptions{}, func(tree.Change) error { return differs }); {
	case err == nil: // only the fork changed
		g.Exact = true
		all, err = steps.Between(ctx, s.src, p.Ours, theirs, tree.DiffOptions{}, o.List)
	case errors.Is(err, differs):
		of := threeway.Interval{Base: base, Theirs: theirs, View: f.rec.View}
		if err = tree.Diff(ctx, s.src, theirs, base, tree.DiffOptions{}, func(c tree.Change) error { return p.Collect(ctx, &of, c) }); err == nil {
			err = p.Run(func() error { return p.Take(ctx, of) })
		}
		if err == nil {
			all, err = p.Steps()
		}
	}
	if err == nil {
		err = p.AllDecided()
	}
	if err != nil {
		return out, err
	}
	c := change{w: fs.w, edit: e, steps: all, graft: g, check: f.alive}
	c.before = CaptureOptions{Message: "before merge of " + f.rec.Name, Caller: o.Caller}
	return c.merge(ctx, p, o.DryRun)
}

// merge is make for the steps of a plan.
func (c change) merge(ctx context.Context, p *threeway.Plan, dryRun bool) (outcome, error) {
	if err := p.Refused(); err != nil {
		return outcome{conflicts: p.Conflicts}, err
	}
	if dryRun {
		c.edit = nil
	}
	c.now, c.graft.Now, c.stored = p.Ours, p.Now, p.Stored
	out, err := c.make(ctx)
	out.conflicts = p.Conflicts
	return out, err
}
