package snapshot

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// GraftOptions says what tree to bring in, and where to.
type GraftOptions struct {
	Tree    *tree.State // sealed; its root directory is merged into Path
	Path    string      // a directory relative to the root, which must exist; "" is the root
	Caller  live.Caller
	Message string
}

// GraftResult tells what was brought in.
type GraftResult struct {
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
	Undo  string `json:"undo"`
}

// Graft merges a tree into the workspace in one step. The state before is
// captured first.
func (w *Workspace) Graft(ctx context.Context, o GraftOptions) (GraftResult, error) {
	s := w.store
	id, ok := o.Tree.ID()
	if !ok {
		return GraftResult{}, errs.New(errs.Invalid, "malformed request: the tree is not sealed")
	}
	prefix := ""
	if o.Path != "" && o.Path != "." {
		paths, err := cleanPaths([]string{o.Path})
		if err != nil {
			return GraftResult{}, err
		}
		if len(paths) == 1 {
			prefix = paths[0]
		}
	}
	e, err := s.forest.Edit(ctx, w.view)
	if err != nil {
		return GraftResult{}, err
	}
	defer e.End()
	r := graftRecord{WS: w.view, State: id.String(), Prefix: BytePath(prefix), Now: time.Now().UnixNano()}
	changes, err := s.graft(ctx, e, o.Tree, r)
	if err != nil {
		return GraftResult{}, err
	}
	r.FirstIno = e.FirstIno
	var inv live.Invalidation
	err = s.forest.Update(false, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		r.Pre, err = w.newSnapshot(tx, CaptureOptions{Origin: OriginPreRestore, Message: "before import", Caller: o.Caller})
		if err != nil {
			return err
		}
		if err := s.journal(tx, recGraft, r); err != nil {
			return err
		}
		inv, err = s.finishGraft(tx, w, id, r, e)
		return err
	})
	e.End()
	if err != nil {
		return GraftResult{}, err
	}
	s.tell(inv)
	s.event(Event{Workspace: w.view, Action: "captured", From: r.Pre.Name, Caller: o.Caller})
	for _, c := range changes {
		if shown(c) {
			p := pathChange(c)
			s.event(Event{
				Workspace: w.view, Action: p.Action, Path: path.Join(prefix, p.Path), Size: sizeAfter(c), Caller: o.Caller,
			})
		}
	}
	return GraftResult{Files: o.Tree.Inodes - 1, Bytes: o.Tree.Bytes, Undo: r.Pre.Name}, s.Sync()
}

// graft prepares the import of a tree.
func (s *Store) graft(ctx context.Context, e *live.Edit, st *tree.State, r graftRecord) ([]tree.Change, error) {
	changes, err := live.Overlay(ctx, s.src, e.Base(), st, string(r.Prefix))
	if err != nil {
		return nil, err
	}
	return changes, e.Graft(ctx, st, changes, live.Graft{Prefix: string(r.Prefix), Now: r.Now})
}

// applyGraft makes the import that a record tells of.
func (s *Store) applyGraft(tx *live.Tx, r graftRecord) error {
	w, ok := s.cat.workspaces[r.WS]
	if !ok {
		return fmt.Errorf("%w: an import into a fork that is gone", ErrNoFork)
	}
	h, err := cas.ParseHash(r.State)
	if err != nil {
		return err
	}
	st, err := tree.Load(s.src, h)
	if err != nil {
		return err
	}
	e, err := tx.Edit(r.WS)
	if err != nil {
		return err
	}
	e.FirstIno = r.FirstIno
	if _, err := s.graft(context.Background(), e, st, r); err != nil {
		return err
	}
	_, err = s.finishGraft(tx, w, h, r, e)
	return err
}

// finishGraft captures the state before, and puts that with the tree in place.
func (s *Store) finishGraft(tx *live.Tx, w *Workspace, id cas.Hash, r graftRecord, e *live.Edit) (live.Invalidation, error) {
	pre, err := s.applyCapture(tx, r.Pre)
	if err != nil {
		return live.Invalidation{}, err
	}
	w.undo = pre.View
	s.cat.grafts = append(s.cat.grafts, id)
	return tx.Apply(e), nil
}

// Importing guards objects that an import puts into the store until its tree
// is grafted: gc waits for done. The objects must be on disk (CAS().Commit)
// before Graft.
func (s *Store) Importing() (done func()) {
	s.gc.imports.Add(1)
	leave := s.gc.puts.enter()
	return func() {
		leave()
		s.gc.imports.Add(-1)
	}
}

// Abandon tells that objects were put which nothing will refer to: gc is due
// soon.
func (s *Store) Abandon() { s.gc.remove() }

// Begin makes the present state the workspace's origin, and forgets what was
// before: for a store that was filled when it was made.
func (w *Workspace) Begin(c live.Caller) error {
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		view, err := tx.NewView()
		if err != nil {
			return err
		}
		r := storedSnapshot{View: view, WS: w.view, Name: "origin", Origin: OriginImport, Created: s.opt.Now(), UID: c.UID, PID: c.PID}
		if err := s.journal(tx, recBegin, r); err != nil {
			return err
		}
		return s.applyBegin(tx, r)
	})
}

func (s *Store) applyBegin(tx *live.Tx, r storedSnapshot) error {
	w, ok := s.cat.workspaces[r.WS]
	if !ok {
		return nil
	}
	st, err := tx.Capture(r.WS)
	if err != nil {
		return err
	}
	for _, sn := range slices.Clone(w.snaps) {
		s.cat.remove(sn)
	}
	if o, ok := s.cat.snaps[w.origin]; ok {
		s.cat.remove(o)
	}
	w.nextSeq, w.undo, w.head = 1, 0, ""
	w.at = tx.Changed(w.view)
	return s.setOrigin(tx, w, st, r)
}
