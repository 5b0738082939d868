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
	Tree   *tree.State // sealed; its root directory is merged into Path
	Path   string      // a directory relative to the root, which must exist; "" is the root
	Caller live.Caller
}

// GraftResult tells what was brought in.
type GraftResult struct {
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
	Undo  string `json:"undo"`
}

// Graft merges a tree into the workspace in one step. The state before is
// captured first.
//
// The whole state is sealed before it is put in place: so a graft takes little memory,
// whatever comes, and recovery has nothing to do but to load it.
func (w *Workspace) Graft(ctx context.Context, o GraftOptions) (GraftResult, error) {
	s := w.store
	if _, ok := o.Tree.ID(); !ok {
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
	defer s.gc.puts.enter()()
	// Most of what is there is sealed while changes go on.
	_, release, err := w.SealPresent(ctx)
	if err != nil {
		return GraftResult{}, err
	}
	release()
	e, err := s.forest.Edit(ctx, w.view)
	if err != nil {
		return GraftResult{}, err
	}
	defer e.End()
	over := &live.Overlay{Base: e.Base(), Source: o.Tree, Prefix: prefix}
	defer s.Hold(over.Base)()
	r, err := s.graft(ctx, w, e, over)
	if err != nil {
		return GraftResult{}, err
	}
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
		return s.finishGraft(tx, w, r, e)
	})
	e.End()
	if err != nil {
		return GraftResult{}, err
	}
	s.event(Event{Workspace: w.view, Action: "captured", From: r.Pre.Name, Caller: o.Caller})
	s.announce(w, e, over, o.Caller)
	return GraftResult{Files: o.Tree.Inodes - 1, Bytes: o.Tree.Bytes, Undo: r.Pre.Name}, s.Sync()
}

// graft merges a tree into an edited workspace, and returns when the state that this
// comes to is on disk. The caller holds puts.
func (s *Store) graft(ctx context.Context, w *Workspace, e *live.Edit, over *live.Overlay) (graftRecord, error) {
	r := graftRecord{WS: w.view}
	seal := s.sealsEdit(ctx, &r.State)
	if err := seal(over.Base.Clone()); err != nil {
		return r, err
	}
	if err := e.Merge(ctx, over, time.Now().UnixNano(), seal); err != nil {
		return r, err
	}
	r.NextIno = e.Next()
	return r, s.cas.Commit()
}

// sealsEdit returns what seals the states of an edit for its record, which has the id of
// the last one. The caller holds puts.
func (s *Store) sealsEdit(ctx context.Context, record *string) func(*tree.State) error {
	return func(st *tree.State) error {
		id, err := s.sealTo(ctx, cas.Quick{Store: s.cas}, st)
		*record = id.String()
		return err
	}
}

// applyGraft makes the import that a record tells of.
func (s *Store) applyGraft(tx *live.Tx, r graftRecord) error {
	w, ok := s.cat.workspaces[r.WS]
	if !ok {
		return fmt.Errorf("%w: an import into a fork that is gone", ErrNoFork)
	}
	e, err := tx.Edit(r.WS)
	if err != nil {
		return err
	}
	if err := s.loadEdit(e, r.State, r.NextIno); err != nil {
		return err
	}
	return s.finishGraft(tx, w, r, e)
}

// loadEdit makes the state of a record what the edited view is to become.
func (s *Store) loadEdit(e *live.Edit, state string, nextIno uint64) error {
	h, err := cas.ParseHash(state)
	if err != nil {
		return err
	}
	st, err := tree.Load(s.src, h)
	if err != nil {
		return err
	}
	e.Sealed(st, nextIno)
	return nil
}

// finishGraft captures the state before, and puts that with the tree in place.
func (s *Store) finishGraft(tx *live.Tx, w *Workspace, r graftRecord, e *live.Edit) error {
	pre, err := s.applyCapture(tx, r.Pre)
	if err != nil {
		return err
	}
	w.undo = pre.View
	tx.Apply(e)
	return s.keepSealed(r.State)
}

// keepSealed keeps the state of a record for as long as the record is in the journal.
func (s *Store) keepSealed(state string) error {
	id, err := cas.ParseHash(state)
	if err == nil {
		s.cat.grafts = append(s.cat.grafts, id)
	}
	return err
}

const (
	// toldAtOnce is how many names the kernel is told of at a time.
	toldAtOnce = 10_000
	// toldBelow is how many names are told of that are in directories which came
	// themselves. Only watchers want to know them.
	toldBelow = 20_000
)

// announce tells the kernel and the log what came with a graft.
func (s *Store) announce(w *Workspace, e *live.Edit, over *live.Overlay, c live.Caller) {
	defer e.Forgotten()
	inv := live.Invalidation{Entries: new(live.Entries)}
	told := func(most int) {
		if inv.Entries.Len()+len(inv.Inodes) > most {
			s.tell(inv)
			inv = live.Invalidation{Entries: new(live.Entries)}
		}
	}
	below := 0
	err := over.Walk(context.Background(), s.src, func(in live.Place, ch tree.Change, _ uint64) error {
		step := live.StepOf(ch)
		p := pathChange(&step)
		s.event(Event{
			Workspace: w.view, Action: p.Action, Path: path.Join(over.Prefix, p.Path), Size: step.Size, Caller: c,
		})
		if in.Here == nil {
			below++
		}
		switch {
		case ch.A != nil && !ch.A.IsDir():
			entry, inodes, err := e.Replaced(in, ch)
			if err != nil {
				return err
			}
			inv.Entries.Add(entry)
			inv.Inodes = append(inv.Inodes, inodes...)
		case ch.A == nil && (in.Here != nil || below < toldBelow):
			inv.Entries.Add(live.Entry{Parent: live.Node(w.view, in.Ino), Name: ch.Path.Name})
		}
		told(toldAtOnce)
		return nil
	}, func(in live.Place) error {
		if in.Here != nil {
			inv.Inodes = append(inv.Inodes, live.Node(w.view, in.Ino))
		}
		return nil
	})
	if err != nil {
		s.logger.Warn("telling what an import brought", "err", err)
	}
	told(0)
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
