package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A ConflictRule says what becomes of a path that changed on both sides.
type ConflictRule int

// The rules.
const (
	RefuseConflicts ConflictRule = iota // nothing is touched
	KeepOurs                            // the workspace's version stays
	TakeTheirs                          // the fork's version wins
)

// PromoteOptions says how a fork is merged.
type PromoteOptions struct {
	Conflicts ConflictRule
	Merge     threeway.Merger // merges files that changed on both sides; nil for none
	// Choices are the rules of single paths, before Conflicts.
	Choices map[string]ConflictRule
	DryRun  bool
	Caller  live.Caller
	List    *budget.Charge // see RestoreOptions
	May     func(path *tree.Path, in ...*tree.State) error
}

// rule says what becomes of a path that changed on both sides.
func (o PromoteOptions) rule(path string) ConflictRule {
	if r, ok := o.Choices[path]; ok {
		return r
	}
	return o.Conflicts
}

// PromoteResult tells what a promotion did, or why it did nothing.
type PromoteResult struct {
	Fork      string       `json:"fork"`
	Conflicts []string     `json:"conflicts,omitempty"`
	Changed   int          `json:"changed"`
	Paths     []PathChange `json:"paths"`
	More      bool         `json:"more,omitempty"` // Paths are not all of them
	Undo      string       `json:"undo,omitempty"`
	// Gone is that of a RestoreResult.
	Gone []live.NodeID `json:"-"`
}

// ErrConflict is wrapped by the error of a promotion that was refused.
var ErrConflict = errors.New("changed on both sides")

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
	s.eventsOf(fs.w, out.steps, fork, res.Undo, RestoreOptions{Caller: o.Caller})
	s.event(Event{Workspace: fs.w.view, Action: "merged", From: fork, Caller: o.Caller})
	return res, nil
}

// promote prepares the steps, and then journals and makes them in one step.
func (fs Forks) merge(ctx context.Context, f *Workspace, fork string, o PromoteOptions) (out outcome[PromoteResult], err error) {
	s, res := fs.w.store, &out.res
	res.Fork = fork
	e, err := s.forest.Edit(ctx, fs.w.view, f.view)
	if err != nil {
		return out, err
	}
	defer s.Hold(e.Base())()
	defer e.End()
	defer s.Importing()() // merged files
	m, err := s.mergeFor(ctx, e, f, o)
	if m != nil {
		if refused := permittedMerge(o.May, m); refused != nil {
			return out, refused
		}
		res.Conflicts, out.steps = m.Conflicts, m.Steps
	}
	if err != nil {
		return out, err
	}
	if res.Changed, res.Paths, res.More = listChanges(m.Steps); len(m.Steps) == 0 || o.DryRun {
		return out, nil
	}
	r := editRecord{WS: fs.w.view, Now: m.Now}
	g := live.Graft{Source: m.Theirs, View: f.view, Exact: m.Clean, KeepFull: !m.Clean}
	if err := s.graft(ctx, e, &r, m.Steps, g); err != nil {
		return out, err
	}
	// The undo point stays as it is when only times of directories differ.
	before := CaptureOptions{Message: "before promotion of " + fork, Caller: o.Caller}
	out.inv, err = s.commitEdit(fs.w, e, &r, res.Changed > 0, before, f.alive)
	res.Undo = r.Pre.Name
	return out, err
}

// permittedMerge asks may for what a merge changes, and for its conflicts.
func permittedMerge(may func(path *tree.Path, in ...*tree.State) error, m *threeway.Merge) error {
	if may == nil {
		return nil
	}
	for _, c := range m.Conflicts {
		p, err := tree.ParsePath(c)
		if err == nil {
			err = may(p, m.Ours, m.Theirs)
		}
		if err != nil {
			return err
		}
	}
	return permitted(may, m.Steps, m.Ours, m.Theirs)
}

// mergeFor finds the steps of a merge.
func (s *core) mergeFor(ctx context.Context, e *live.Edit, f *Workspace, o PromoteOptions) (*threeway.Merge, error) {
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
		return nil, err
	}
	if err := m.Run(ctx, nil); err != nil {
		return nil, err
	}
	if m.Stored {
		if err := s.cas.Commit(); err != nil {
			return nil, err
		}
	}
	if len(m.Conflicts) > 0 && o.Merge != nil {
		if err := errors.Join(m.Texts(ctx, o.Merge), s.cas.Commit()); err != nil {
			return nil, err
		}
		if err := m.Run(ctx, nil); err != nil {
			return nil, err
		}
	}
	conflicts, kept := m.Conflicts, make(map[string]bool)
	for _, path := range conflicts {
		switch o.rule(path) {
		case RefuseConflicts:
			return m, fmt.Errorf("%w: %s; decide with --ours or --theirs, or make them equal first", ErrConflict, some(conflicts))
		case KeepOurs:
			kept[path] = true
		}
	}
	if len(kept) > 0 {
		if err := m.Run(ctx, kept); err != nil {
			return nil, err
		}
		m.Conflicts = conflicts
	}
	return m, nil
}

// some names a few of many paths.
func some(paths []string) string {
	const few = 20
	if len(paths) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:few], ", "), len(paths)-few)
	}
	return strings.Join(paths, ", ")
}
