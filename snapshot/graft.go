package snapshot

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// GraftOptions says what tree to bring in, and where to.
type GraftOptions struct {
	Tree   *tree.State // sealed; its root directory is merged into Path
	Path   string      // a directory relative to the root, which must exist; "" is the root
	Caller live.Caller
	// Image, if set, is what a snapshot of the state after says that it came of.
	Image *Image
	// Top gives the attributes of the tree's root directory to Path.
	Top bool
}

// GraftResult tells what was brought in.
type GraftResult struct {
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
	Undo  string `json:"undo"`
	After string `json:"after"` // the snapshot with the image
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
		paths, err := naming.CleanPaths([]string{o.Path})
		if err != nil {
			return GraftResult{}, err
		}
		if len(paths) == 1 {
			prefix = paths[0]
		}
	}
	defer s.gc.puts.Enter()()
	// Most of the tree is sealed while changes go on.
	_, release, err := w.SealPresent(ctx)
	if err != nil {
		return GraftResult{}, err
	}
	release()
	e, err := s.forest.As(o.Caller.Actor).Edit(ctx, w.view)
	if err != nil {
		return GraftResult{}, err
	}
	defer e.End()
	over := &live.Overlay{Base: e.Base(), Source: o.Tree, Prefix: prefix}
	defer s.Hold(over.Base)()
	r := editRecord{WS: w.view, image: o.Image}
	if o.Image != nil && o.Top {
		here, err := over.Base.Resolve(s.src, prefix)
		if err != nil {
			return GraftResult{}, err
		}
		o.Image.Merged = here.Dir.Len() > 0
	}
	seal := s.sealsEdit(ctx, &r)
	if err := seal(over.Base.Clone()); err != nil {
		return GraftResult{}, err
	}
	if err := e.Overlay(ctx, over, live.Graft{Now: time.Now().UnixNano(), Seal: seal, Top: o.Top}); err != nil {
		return GraftResult{}, err
	}
	if err := s.grafted(e, &r); err != nil {
		return GraftResult{}, err
	}
	inv, err := s.commitEdit(w, e, &r, true, CaptureOptions{Message: "before import", Caller: o.Caller}, func() error { return nil })
	e.End()
	if err != nil {
		return GraftResult{}, err
	}
	s.event(Event{Workspace: w.view, Action: "captured", From: r.Pre.Name, Caller: o.Caller})
	if r.Post.Name != "" {
		defer s.event(Event{Workspace: w.view, Action: "captured", From: r.Post.Name, Caller: o.Caller})
	}
	s.tell(inv)
	s.imported(w, over, o.Caller)
	return GraftResult{Files: o.Tree.Inodes - 1, Bytes: o.Tree.Bytes, Undo: r.Pre.Name, After: r.Post.Name}, s.Sync()
}

// imported writes to the log what came with a graft.
func (s *core) imported(w *Workspace, over *live.Overlay, c live.Caller) {
	err := over.Walk(context.Background(), s.src, func(step *live.Step) error {
		p := steps.PathChangeOf(*step)
		s.event(Event{
			Workspace: w.view, Action: p.Action, Path: path.Join(over.Prefix, p.Path), Size: step.Size, Caller: c,
		})
		return nil
	})
	if err != nil {
		s.logger.Warn("writing to the log what an import changed", "err", err)
	}
}

// Importing guards objects that an import puts into the store until its tree
// is grafted: gc waits for done. The objects must be on disk (CAS().Commit)
// before Graft.
func (s *Store) Importing() (done func()) {
	s.gc.imports.Add(1)
	leave := s.gc.puts.Enter()
	return func() {
		leave()
		s.gc.imports.Add(-1)
	}
}

// Abandon tells that objects were put which nothing will refer to: gc is due
// soon.
func (s *Store) Abandon() { s.gc.remove() }

// Begin makes the present state the workspace's base, and forgets what was
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
		r := storedSnapshot{View: view, WS: w.view, Info: Info{Name: "base", Kind: KindImport, Created: s.opt.Now(), UID: c.UID, PID: c.PID}}
		return s.commit(tx, recBegin, &beginRecord{r})
	})
}

type beginRecord struct{ storedSnapshot }

func (r *beginRecord) apply(c *catalogue, tx *live.Tx) error {
	w, ok := c.workspaces[r.WS]
	if !ok {
		return nil
	}
	st, err := tx.Capture(r.WS)
	if err != nil {
		return err
	}
	for _, sn := range slices.Clone(w.snaps) {
		c.remove(sn)
	}
	if o, ok := c.snaps[w.base]; ok {
		c.remove(o)
	}
	w.nextSeq, w.undo, w.head = 1, 0, ""
	w.Snapshots().endInterval(tx)
	w.at = tx.Changed(w.view)
	return c.setOrigin(tx, w, st, r.storedSnapshot)
}

// BeginOutside makes a tree whose contents are still outside the first state of main,
// in a store that was just made: contents at positions from content.Outside on are
// read from there as long as the store is open. The first checkpoint brings all of
// them in; a store that is not closed before cannot be opened again. next is the
// number of the next inode, epoch one that the tree has no part of.
func (s *Store) BeginOutside(st *tree.State, next, epoch uint64, from content.Log, c live.Caller) error {
	s.outside.Outside.Store(&from)
	s.alter(func(tx *live.Tx) {
		tx.SetCounters(next, 0)
		tx.SetEpoch(epoch)
		tx.AddView(live.MainView, st)
	})
	return s.Main().Begin(c)
}
