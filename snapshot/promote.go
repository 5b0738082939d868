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

// PromoteOptions says how a fork is merged.
type PromoteOptions struct {
	Conflicts threeway.Rule
	Merge     threeway.Merger // merges files that changed on both sides; nil for none
	// Choices are the rules of single paths, before Conflicts.
	Choices map[string]threeway.Rule
	DryRun  bool
	Caller  live.Caller
	List    *budget.Charge // see RestoreOptions
	May     func(path *tree.Path, in ...*tree.State) error
}

// PromoteResult tells what a promotion did, or why it did nothing.
type PromoteResult struct {
	Fork      string             `json:"fork"`
	Conflicts []string           `json:"conflicts,omitempty"`
	Changed   int                `json:"changed"`
	Paths     []steps.PathChange `json:"paths"`
	More      bool               `json:"more,omitempty"` // Paths are not all of them
	Undo      string             `json:"undo,omitempty"`
	// Gone is that of a RestoreResult.
	Gone []live.NodeID `json:"-"`
}

// Promote brings what changed in a fork since its base into the workspace.
// A path that changed on both sides in different ways, which do not merge, is a
// conflict: nothing is touched then, unless the options decide.
func (fs Forks) Merge(ctx context.Context, fork string, o PromoteOptions) (PromoteResult, error) {
	s := fs.w.store
	f, err := fs.Named(fork)
	if err != nil {
		return PromoteResult{Fork: fork}, err
	}
	out, err := retryWithWholeBudget(ctx, o.List, func() (outcome[PromoteResult], error) { return fs.merge(ctx, f, fork, o) })
	res := out.res
	if err != nil {
		return res, err
	}
	s.tell(out.inv)
	if res.Changed == 0 || o.DryRun {
		return res, nil
	}
	res.Gone = out.inv.Gone(maxGone)
	s.eventsOf(fs.w, out.steps, fork, res.Undo, o.Caller)
	s.event(Event{Workspace: fs.w.view, Action: "merged", From: fork, Caller: o.Caller})
	return res, nil
}

// promote prepares the steps, and then journals and makes them in one step.
func (fs Forks) merge(ctx context.Context, f *Workspace, fork string, o PromoteOptions) (out outcome[PromoteResult], err error) {
	s, res := fs.w.store, &out.res
	res.Fork = fork
	e, err := s.forest.As(o.Caller.Actor).Edit(ctx, fs.w.view, f.view)
	if err != nil {
		return out, err
	}
	defer s.Hold(e.Base())()
	defer e.End()
	defer s.Importing()() // merged files
	m := &threeway.Merge{Source: s.src, Objects: s.cas, Ours: e.Base(), OursView: f.parent, TheirsView: f.view, List: o.List, Now: time.Now().UnixNano()}
	if err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		base, ok := s.cat.snaps[f.base]
		if !ok {
			return fmt.Errorf("%w: fork %q has no base", ErrNotFound, f.name)
		}
		if m.Base, err = s.cat.stateOf(base); err != nil {
			return err
		}
		m.Theirs, err = tx.Capture(f.view)
		return err
	}); err != nil {
		return out, err
	}
	err = m.Settle(ctx, o.Merge, func(path string) threeway.Rule {
		if r, ok := o.Choices[path]; ok {
			return r
		}
		return o.Conflicts
	})
	if err == nil || errors.Is(err, threeway.ErrConflict) {
		if refused := m.Allow(o.May); refused != nil {
			return out, refused
		}
		res.Conflicts, out.steps = m.Conflicts, m.Steps
	}
	if err != nil {
		return out, err
	}
	if m.Stored {
		if err := s.cas.Commit(); err != nil {
			return out, err
		}
	}
	if res.Changed, res.Paths, res.More = steps.Listed(m.Steps); len(m.Steps) == 0 || o.DryRun {
		return out, nil
	}
	r := editRecord{WS: fs.w.view, Now: m.Now}
	inFork := interval.States{Source: s.src, Before: m.Base, After: m.Theirs, Set: s.union(f.Snapshots().everChanged())}
	g := live.Graft{Source: m.Theirs, View: f.view, Exact: m.Clean, KeepFull: !m.Clean, By: inFork.ActorsOf}
	if err := s.graft(ctx, e, &r, m.Steps, g); err != nil {
		return out, err
	}
	// The undo point stays as it is when only times of directories differ.
	before := CaptureOptions{Message: "before merge of " + fork, Caller: o.Caller}
	out.inv, err = s.commitEdit(fs.w, e, &r, res.Changed > 0, before, f.alive)
	res.Undo = r.Pre.Name
	return out, err
}
