package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// RestoreOptions says what to bring back.
type RestoreOptions struct {
	Name   string   // of the snapshot
	Paths  []string // relative to the root; everything when empty
	DryRun bool
	Caller live.Caller
	// List is charged with what the list of changes takes. If others leave too little,
	// everything begins anew when all of it is free.
	List *budget.Charge
}

// RestoreResult tells what a restore did, or would do.
type RestoreResult struct {
	Snapshot string       `json:"snapshot"`
	Changed  int          `json:"changed"`
	Paths    []PathChange `json:"paths"`
	More     bool         `json:"more,omitempty"` // Paths are not all of them
	Undo     string       `json:"undo,omitempty"` // the snapshot of the state before
	// Gone are files that were replaced or removed and that the kernel knew, the first
	// of them.
	Gone []live.NodeID `json:"-"`
}

// maxGone bounds RestoreResult.Gone: who has them open is asked for each.
const maxGone = 10_000

// Restore makes the workspace, or some paths of it, equal to a snapshot. The
// state before is captured first.
func (w *Workspace) Restore(ctx context.Context, o RestoreOptions) (RestoreResult, error) {
	s := w.store
	start := time.Now()
	paths, err := cleanPaths(o.Paths)
	if err != nil {
		return RestoreResult{}, err
	}
	var to *target
	w.read(func() { to, err = w.target(o.Name, paths) })
	if err != nil {
		return RestoreResult{}, err
	}
	defer s.Hold(to.state)()
	if o.DryRun {
		now, err := w.State()
		if err != nil {
			return RestoreResult{}, err
		}
		changes, err := patient(ctx, o.List, func() (*live.Steps, error) { return s.restoreChanges(ctx, now, to, o.List) })
		return newRestoreResult(to, changes), err
	}
	defer s.gc.puts.enter()()
	done, err := patient(ctx, o.List, func() (done[RestoreResult], error) {
		done, err := w.restore(ctx, to, o, false)
		if !errors.Is(err, errMany) {
			return done, err
		}
		_, release, err := w.SealPresent(ctx)
		if err != nil {
			return done, err
		}
		defer release()
		return w.restore(ctx, to, o, true)
	})
	res := done.res
	if err != nil {
		return res, err
	}
	s.figures.restored(time.Since(start))
	s.tell(done.inv)
	if res.Changed > 0 {
		res.Gone = done.inv.Gone(maxGone)
		s.eventsOf(w, done.changes, res.Snapshot, res.Undo, o)
	}
	return res, nil
}

// done is what a restore or a promotion has done.
type done[R any] struct {
	res     R
	inv     live.Invalidation
	changes *live.Steps
}

// patient does what takes memory for each thing that differs. If others leave it too
// little, it is done anew when all of the budget is free; nothing is held meanwhile.
func patient[T any](ctx context.Context, list *budget.Charge, do func() (T, error)) (T, error) {
	res, err := do()
	if err == nil || !list.Full() {
		return res, err
	}
	if err := list.All(ctx); err != nil {
		return res, err
	}
	return do()
}

// A target is what a restore goes back to.
type target struct {
	snap  *snap
	state *tree.State
	like  *tree.State // see restored; may be nil
	paths []string    // everything when empty
}

// target finds the snapshot of a name. The lock is held.
func (w *Workspace) target(name string, paths []string) (*target, error) {
	if err := w.alive(); err != nil {
		return nil, err
	}
	sn, err := w.store.find(w, name)
	if err != nil {
		return nil, err
	}
	return w.targetOf(sn, paths)
}

func (w *Workspace) targetOf(sn *snap, paths []string) (*target, error) {
	st, err := w.store.stateOf(sn)
	return &target{snap: sn, state: st, like: w.restoredState(sn.View), paths: paths}, err
}

func newRestoreResult(to *target, changes *live.Steps) RestoreResult {
	r := RestoreResult{Snapshot: to.snap.Name}
	r.Changed, r.Paths, r.More = listChanges(changes)
	return r
}

// errMany is that so much changes that the workspace is to be sealed first: the edit will
// seal it, and changes wait meanwhile.
var errMany = errors.New("very much changes")

// restore prepares the changes, and then journals and makes them in one step. If there
// are very many, the state that they come to is on disk before, which takes less
// memory than the changes do, and recovery has nothing to do but to load it.
func (w *Workspace) restore(ctx context.Context, to *target, o RestoreOptions, sealed bool) (done done[RestoreResult], err error) {
	s := w.store
	e, err := s.forest.Edit(ctx, w.view)
	if err != nil {
		return done, err
	}
	defer s.Hold(e.Base())()
	defer e.End()
	if done.changes, err = s.restoreChanges(ctx, e.Base(), to, o.List); err != nil {
		return done, err
	}
	many := done.changes.Len() > s.opt.ManyChanges
	if many && !sealed {
		return done, errMany
	}
	r := restoreRecord{WS: w.view, View: to.snap.View, Paths: BytePaths(to.paths), Now: time.Now().UnixNano()}
	var seal func(*tree.State) error
	if many {
		seal = s.sealsEdit(ctx, &r.State)
		defer func() {
			if err != nil {
				s.Abandon()
			}
		}()
	}
	if err := s.graftRestore(ctx, e, to, done.changes, r.Now, seal); err != nil {
		return done, err
	}
	res := newRestoreResult(to, done.changes)
	done.res = res
	if done.changes.Len() == 0 {
		return done, nil
	}
	r.FirstIno = e.FirstIno
	if r.State != "" {
		r.NextIno = e.Next()
		if err := s.cas.Commit(); err != nil {
			return done, err
		}
	}
	err = s.forest.Update(false, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		if s.cat.snaps[to.snap.View] != to.snap {
			return fmt.Errorf("%w: snapshot %s was removed meanwhile", ErrNotFound, to.snap.Name)
		}
		// The undo point stays as it is when only times of directories differ.
		if res.Changed > 0 {
			r.Pre, err = w.newSnapshot(tx, CaptureOptions{Origin: OriginPreRestore, Message: "before restore of " + to.snap.Name, Caller: o.Caller})
			if err != nil {
				return err
			}
		}
		if err := s.journal(tx, recRestore, r); err != nil {
			return err
		}
		done.res.Undo = r.Pre.Name
		done.inv, err = s.finishRestore(tx, w, e, to, r)
		return err
	})
	return done, err
}

// eventsOf tells of the capture before a restore, and of each path that it
// changed.
func (s *Store) eventsOf(w *Workspace, changes *live.Steps, from, undo string, o RestoreOptions) {
	s.event(Event{Workspace: w.view, Action: "captured", From: undo, Caller: o.Caller})
	for c := range changes.All() {
		if !shown(c) {
			continue
		}
		p := pathChange(c)
		s.event(Event{
			Workspace: w.view, Action: "restored", Path: p.Path, From: from, Size: c.Size, Detail: p.Action,
			Caller: o.Caller,
		})
	}
}

// applyRestore makes the restore that a record tells of.
func (s *Store) applyRestore(tx *live.Tx, r restoreRecord) error {
	w, ok := s.cat.workspaces[r.WS]
	sn, found := s.cat.snaps[r.View]
	if !ok || !found {
		return fmt.Errorf("%w: a restore of a snapshot that is gone", ErrNotFound)
	}
	to, err := w.targetOf(sn, PathStrings(r.Paths))
	if err != nil {
		return err
	}
	e, err := tx.Edit(r.WS)
	if err != nil {
		return err
	}
	if err := s.redoRestore(e, to, r); err != nil {
		return err
	}
	_, err = s.finishRestore(tx, w, e, to, r)
	return err
}

func (s *Store) redoRestore(e *live.Edit, to *target, r restoreRecord) error {
	if r.State != "" {
		return s.loadEdit(e, r.State, r.NextIno)
	}
	e.FirstIno = r.FirstIno
	changes, err := s.restoreChanges(context.Background(), e.Base(), to, nil)
	if err != nil {
		return err
	}
	return s.graftRestore(context.Background(), e, to, changes, r.Now, nil)
}

func (s *Store) graftRestore(ctx context.Context, e *live.Edit, to *target, changes *live.Steps, now int64, seal func(*tree.State) error) error {
	partial := len(to.paths) > 0
	return e.Graft(ctx, to.state, changes, live.Graft{Touch: partial, Exact: !partial, Now: now, Seal: seal, SealAfter: (s.opt.ManyChanges + 1) / 2})
}

// finishRestore captures the state before, and puts the restored one in place.
func (s *Store) finishRestore(tx *live.Tx, w *Workspace, e *live.Edit, to *target, r restoreRecord) (live.Invalidation, error) {
	if err := s.captureUndo(tx, w, r.Pre); err != nil {
		return live.Invalidation{}, err
	}
	if r.State != "" {
		if err := s.keepSealed(r.State); err != nil {
			return live.Invalidation{}, err
		}
	}
	inv := s.apply(tx, e)
	if len(to.paths) > 0 {
		return inv, nil
	}
	w.head = to.snap.Name
	return inv, w.keepRestored(tx, to.snap.View)
}

// apply puts an edit in place that recovery would have to work out again.
func (s *Store) apply(tx *live.Tx, e *live.Edit) live.Invalidation {
	if s.ckpt.changes.Add(int64(e.Changes)) >= checkpointRecords {
		s.ckpt.signal.up()
	}
	return tx.Apply(e)
}

// captureUndo captures the state before a change of a workspace, unless the
// change is not worth an undo point: before has no name then.
func (s *Store) captureUndo(tx *live.Tx, w *Workspace, before storedSnapshot) error {
	if before.Name == "" {
		return nil
	}
	pre, err := s.applyCapture(tx, before)
	if err == nil {
		w.undo = pre.View
	}
	return err
}

// A restored is the state of a workspace right after a restore. It equals the
// snapshot but for the inode numbers of the files that the restore put in
// place: a comparison with the snapshot would look at each of these again, at
// every restore more of them. A small restore after a big one takes 0.25 ms with it,
// and 64 ms without.
type restored struct {
	view  uint32 // of the snapshot
	state *tree.State
}

// maxRestored bounds how many snapshots a workspace goes back to at no more than
// the cost of what differs.
const maxRestored = 4

func (w *Workspace) keepRestored(tx *live.Tx, view uint32) error {
	st, err := tx.Capture(w.view)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(w.restored, func(r restored) bool { return r.view == view })
	w.restored = append(kept[max(0, len(kept)-maxRestored+1):], restored{view, st})
	return nil
}

// restoredState returns nil when there is none for a snapshot.
func (w *Workspace) restoredState(view uint32) *tree.State {
	for _, r := range w.restored {
		if r.view == view {
			return r.state
		}
	}
	return nil
}

// restoreChanges tells what a restore has to change in a state of the workspace.
func (s *Store) restoreChanges(ctx context.Context, now *tree.State, to *target, list *budget.Charge) (*live.Steps, error) {
	above := new(live.Steps)
	seen := make(map[string]bool)
	for _, p := range to.paths {
		if err := s.checkRestorePath(now, to.state, to.snap.Name, p); err != nil {
			return nil, err
		}
		at, err := tree.ParsePath(p)
		if err != nil {
			return nil, err
		}
		more, err := s.missingParents(now, to.state, at, seen)
		if err != nil {
			return nil, err
		}
		for _, c := range more {
			above.Add(c)
		}
	}
	changes, err := s.changes(ctx, now, to.state, tree.DiffOptions{Paths: to.paths, Renumbered: to.like}, list)
	if err != nil && to.like != nil && ctx.Err() == nil && !list.Full() {
		// Whatever is wrong with it, it can be done without.
		s.logger.Warn("comparing by the state after a former restore", "snapshot", to.snap.Name, "err", err)
		changes, err = s.changes(ctx, now, to.state, tree.DiffOptions{Paths: to.paths}, list)
	}
	if err != nil {
		return nil, err
	}
	if above.Len() == 0 {
		return changes, nil
	}
	for c := range changes.All() {
		if !seen[c.Path.String()] {
			above.Add(*c)
		}
	}
	return above, nil
}

// missingParents are the directories above a path that the workspace has lost, none
// if there was nothing at the path then.
func (s *Store) missingParents(now, then *tree.State, p *tree.Path, seen map[string]bool) (missing []live.Step, err error) {
	if _, err := then.Resolve(s.src, p.String()); err != nil {
		return nil, nil
	}
	for dir := p.Dir; dir != nil && !seen[dir.String()]; dir = dir.Dir {
		a, err := now.Resolve(s.src, dir.String())
		if err == nil && a.IsDir() {
			break
		}
		b, err := then.Resolve(s.src, dir.String())
		if err != nil {
			return nil, err
		}
		seen[dir.String()] = true
		missing = append(missing, live.StepOf(tree.Change{Path: dir, A: a, B: b, What: tree.Added}))
	}
	slices.Reverse(missing) // from the top down
	return missing, nil
}

func (s *Store) checkRestorePath(now, then *tree.State, name, p string) error {
	_, errNow := now.Resolve(s.src, p)
	_, errThen := then.Resolve(s.src, p)
	for _, err := range []error{errNow, errThen} {
		if errors.Is(err, tree.ErrSymlink) {
			return errs.New(errs.Invalid, "malformed request: %s leads through a symlink; name the path that it stands for", p)
		}
	}
	if errNow != nil && errThen != nil {
		return fmt.Errorf("%w: %s is neither in the workspace nor in snapshot %s", ErrNoPath, p, name)
	}
	return nil
}
