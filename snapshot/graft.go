package snapshot

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// GraftOptions says what tree to bring in, and where to.
type GraftOptions struct {
	Tree    *tree.State // sealed; its root directory is merged into Path
	Path    string      // a directory relative to the root, which must exist; "" is the root
	Caller  live.Caller
	Command string
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
		return GraftResult{}, fmt.Errorf("%w: the tree is not sealed", ErrInvalid)
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
	var res GraftResult
	var inv live.Invalidation
	var brought []PathChange
	err := s.forest.Update(false, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		changes, err := tx.Overlay(ctx, w.view, o.Tree, prefix)
		if err != nil {
			return err
		}
		pre, err := w.newSnapshot(tx, CaptureOptions{Origin: OriginPreRestore, Message: "before import", Caller: o.Caller, Command: o.Command})
		if err != nil {
			return err
		}
		ino, err := tx.MayGraft(w.view, prefix, changes)
		if err != nil {
			return err
		}
		r := graftRecord{WS: w.view, State: id.String(), Prefix: BytePath(prefix), Now: time.Now().UnixNano(), FirstIno: ino, Pre: pre}
		if err := s.journal(tx, recGraft, r); err != nil {
			return err
		}
		res = GraftResult{Files: o.Tree.Inodes - 1, Bytes: o.Tree.Bytes, Undo: pre.Name}
		brought = listChanges(changes)
		inv, err = s.applyGraft(tx, r, changes)
		return err
	})
	if err != nil {
		return res, err
	}
	s.tell(inv)
	s.event(Event{Workspace: w.view, Action: "captured", From: res.Undo, Caller: o.Caller, Command: o.Command})
	for _, c := range brought {
		s.event(Event{
			Workspace: w.view, Action: c.Action, Path: path.Join(prefix, c.Path), Size: c.size, Caller: o.Caller, Command: o.Command,
		})
	}
	return res, s.Sync()
}

func (s *Store) applyGraft(tx *live.Tx, r graftRecord, changes []tree.Change) (live.Invalidation, error) {
	w, ok := s.cat.workspaces[r.WS]
	if !ok {
		return live.Invalidation{}, fmt.Errorf("%w: an import into a fork that is gone", ErrNoFork)
	}
	h, err := cas.ParseHash(r.State)
	if err != nil {
		return live.Invalidation{}, err
	}
	st, err := tree.Load(s.src, h)
	if err != nil {
		return live.Invalidation{}, err
	}
	tx.SetCounters(r.FirstIno, 0)
	if changes == nil {
		if changes, err = tx.Overlay(context.Background(), r.WS, st, string(r.Prefix)); err != nil {
			return live.Invalidation{}, err
		}
	}
	pre, err := s.applyCapture(tx, r.Pre)
	if err != nil {
		return live.Invalidation{}, err
	}
	w.undo = pre.View
	s.cat.grafts = append(s.cat.grafts, h)
	return tx.Graft(r.WS, st, changes, live.Graft{Prefix: string(r.Prefix), Now: r.Now})
}

// Importing guards objects that an import puts into the store until its tree
// is grafted: gc waits for done. The objects must be on disk (CAS().Commit)
// before Graft.
func (s *Store) Importing() (done func()) {
	s.imports.Add(1)
	leave := s.puts.enter()
	return func() {
		leave()
		s.imports.Add(-1)
	}
}

// Abandon tells that objects were put which nothing will refer to: gc is due
// soon.
func (s *Store) Abandon() { s.garbage.removed.Add(1) }

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
		r := stored{View: view, WS: w.view, Info: Info{Name: "origin", Origin: OriginImport, Created: time.Now(), UID: c.UID, PID: c.PID}}
		if err := s.journal(tx, recBegin, r); err != nil {
			return err
		}
		return s.applyBegin(tx, r)
	})
}

func (s *Store) applyBegin(tx *live.Tx, r stored) error {
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
