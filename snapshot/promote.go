package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/live"
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
	Merge     Merger // merges files that changed on both sides; nil for none
	// Choices are the rules of single paths, before Conflicts.
	Choices map[string]ConflictRule
	Caller  live.Caller
	List    *budget.Charge // see RestoreOptions
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

// Promote brings what changed in a fork since its origin into the workspace.
// A path that changed on both sides in different ways, which do not merge, is a
// conflict: nothing is touched then, unless the options decide.
func (w *Workspace) Promote(ctx context.Context, fork string, o PromoteOptions) (PromoteResult, error) {
	s := w.store
	f, err := w.ForkNamed(fork)
	if err != nil {
		return PromoteResult{Fork: fork}, err
	}
	done, err := patient(ctx, o.List, func() (done[PromoteResult], error) { return w.promote(ctx, f, fork, o) })
	res := done.res
	if err != nil {
		return res, err
	}
	s.tell(done.inv)
	if res.Changed == 0 {
		return res, nil
	}
	res.Gone = done.inv.Gone(maxGone)
	s.eventsOf(w, done.changes, fork, res.Undo, RestoreOptions{Caller: o.Caller})
	s.event(Event{Workspace: w.view, Action: "promoted", From: fork, Caller: o.Caller})
	return res, nil
}

// promote prepares the changes, and then journals and makes them in one step.
func (w *Workspace) promote(ctx context.Context, f *Workspace, fork string, o PromoteOptions) (done done[PromoteResult], err error) {
	s, res := w.store, &done.res
	res.Fork = fork
	e, err := s.forest.Edit(ctx, w.view, f.view)
	if err != nil {
		return done, err
	}
	defer s.Hold(e.Base())()
	defer e.End()
	defer s.Importing()() // merged files
	r := promoteRecord{Fork: f.view, Now: time.Now().UnixNano()}
	m, err := s.mergeFor(ctx, e, f, o, &r)
	if m != nil {
		res.Conflicts, done.changes = m.conflicts, m.changes
	}
	if err != nil {
		return done, err
	}
	if res.Changed, res.Paths, res.More = listChanges(m.changes); m.changes.Len() == 0 {
		return done, nil
	}
	err = s.forest.Update(false, func(tx *live.Tx) error {
		if err := errors.Join(w.alive(), f.alive()); err != nil {
			return err
		}
		// The undo point stays as it is when only times of directories differ.
		if res.Changed > 0 {
			if r.Pre, err = w.newSnapshot(tx, CaptureOptions{
				Origin: OriginPreRestore, Message: "before promotion of " + fork, Caller: o.Caller,
			}); err != nil {
				return err
			}
		}
		if err := s.journal(tx, recPromote, r); err != nil {
			return err
		}
		res.Undo = r.Pre.Name
		done.inv, err = s.finishPromote(tx, w, r, e)
		return err
	})
	return done, err
}

// mergeFor prepares a promotion, and fills in its record.
func (s *Store) mergeFor(ctx context.Context, e *live.Edit, f *Workspace, o PromoteOptions, r *promoteRecord) (*merging, error) {
	var m *merging
	if err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		m, err = s.newMerging(tx, e, f)
		return err
	}); err != nil {
		return nil, err
	}
	m.list = o.List
	if err := m.merge(ctx, nil); err != nil {
		return nil, err
	}
	if len(m.conflicts) > 0 && o.Merge != nil {
		if err := m.mergeTexts(ctx, o.Merge, r); err != nil {
			return nil, err
		}
		if err := m.merge(ctx, nil); err != nil {
			return nil, err
		}
	}
	conflicts, kept := m.conflicts, []string(nil)
	for _, path := range conflicts {
		switch o.rule(path) {
		case RefuseConflicts:
			return m, fmt.Errorf("%w: %s; decide with --ours or --theirs, or make them equal first", ErrConflict, some(conflicts))
		case KeepOurs:
			kept = append(kept, path)
		}
	}
	if len(kept) > 0 {
		r.Skip = BytePaths(kept)
		if err := m.merge(ctx, kept); err != nil {
			return nil, err
		}
		m.conflicts = conflicts
	}
	err := m.graft(ctx, e, r.Now)
	r.FirstIno = e.FirstIno
	return m, err
}

// some names a few of many paths.
func some(paths []string) string {
	const few = 20
	if len(paths) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:few], ", "), len(paths)-few)
	}
	return strings.Join(paths, ", ")
}

// applyPromote makes the promotion that a record tells of.
func (s *Store) applyPromote(tx *live.Tx, r promoteRecord) error {
	f, ok := s.cat.workspaces[r.Fork]
	if !ok {
		return fmt.Errorf("%w: a promotion of a fork that is gone", ErrNoFork)
	}
	w, ok := s.cat.workspaces[f.parent]
	if !ok {
		return fmt.Errorf("%w: a promotion into a fork that is gone", ErrNoFork)
	}
	e, err := tx.Edit(w.view)
	if err != nil {
		return err
	}
	m, err := s.newMerging(tx, e, f)
	if err == nil {
		err = m.loadTexts(r)
	}
	if err == nil {
		err = m.merge(context.Background(), PathStrings(r.Skip))
	}
	if err != nil {
		return err
	}
	e.FirstIno = r.FirstIno
	if err := m.graft(context.Background(), e, r.Now); err != nil {
		return err
	}
	_, err = s.finishPromote(tx, w, r, e)
	return err
}

// finishPromote captures the state before, and puts the merged one in place.
func (s *Store) finishPromote(tx *live.Tx, w *Workspace, r promoteRecord, e *live.Edit) (live.Invalidation, error) {
	if err := s.captureUndo(tx, w, r.Pre); err != nil {
		return live.Invalidation{}, err
	}
	if r.Texts != "" {
		id, err := cas.ParseHash(r.Texts)
		if err != nil {
			return live.Invalidation{}, err
		}
		s.cat.grafts = append(s.cat.grafts, id)
	}
	return s.apply(tx, e), nil
}
