package snapshot

import (
	"cmp"
	"context"
	"os"
	"path"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// GraftOptions says what tree to bring in, and where to.
type GraftOptions struct {
	Tree   *tree.State // sealed; its root directory is merged into Path
	Path   string      // a directory relative to the root, which must exist; "" is the root
	Caller actors.Caller
	// Image, if set, is the image that the tree comes from. A snapshot is taken after the graft,
	// which names it.
	Image *Image
	// Top gives the attributes of the tree's root directory to Path.
	Top bool
}

// GraftResult is what was brought in.
type GraftResult struct {
	Files    int64  `json:"files"`
	Bytes    int64  `json:"bytes"`
	Undo     string `json:"undo,omitempty" jsonschema:"the snapshot of the state before"`
	Snapshot string `json:"snapshot,omitempty" jsonschema:"the snapshot with the image"`
}

// Graft merges a tree into the workspace in one step. The state before is
// captured first.
//
// The whole state is sealed before it is put in place. So a graft of any size takes little memory,
// and recovery only has to load the state.
func (w *Workspace) Graft(ctx context.Context, o GraftOptions) (GraftResult, error) {
	s := w.store
	if _, ok := o.Tree.ID(); !ok {
		return GraftResult{}, errs.New(errs.Invalid, "malformed request: the tree is not sealed")
	}
	paths, err := naming.CleanPaths([]string{cmp.Or(o.Path, ".")})
	if err != nil {
		return GraftResult{}, err
	}
	prefix := path.Join(paths...)
	defer s.Hold(o.Tree)()
	// Most of the tree is sealed while changes go on.
	_, release, err := w.SealPresent(ctx)
	if err != nil {
		return GraftResult{}, err
	}
	release()
	e, err := s.forest.As(o.Caller.Actor).Edit(ctx, w.ws.View)
	if err != nil {
		return GraftResult{}, err
	}
	defer e.End()
	over := &graft.Overlay{Base: e.Base(), Source: o.Tree, Prefix: prefix}
	defer s.Hold(over.Base)()
	d := editing{w: w, e: e, r: catalogue.Edit{WS: w.ws.View}, before: CaptureOptions{Message: "before import", Caller: o.Caller}}
	defer d.end()
	if o.Image != nil {
		if err := o.Image.Check(); err != nil {
			return GraftResult{}, err
		}
		d.after = &afterEdit{CaptureOptions: CaptureOptions{Kind: KindImport, Message: "image " + o.Image.Ref, Image: o.Image}}
	}
	if o.Image != nil && o.Top {
		here, err := over.Base.Resolve(s.src, prefix)
		if err != nil {
			return GraftResult{}, err
		}
		o.Image.Merged = here.Dir.Len() > 0
	}
	seal := d.seals(ctx)
	if err := seal(over.Base.Clone()); err != nil {
		return GraftResult{}, err
	}
	if err := e.Overlay(ctx, over, live.Graft{Options: graft.Options{Now: time.Now().UnixNano(), Top: o.Top}, Seal: seal}); err != nil {
		return GraftResult{}, err
	}
	if err := d.made(); err != nil {
		return GraftResult{}, err
	}
	inv, err := d.commit(true, func() error { return nil })
	e.End()
	if err != nil {
		return GraftResult{}, err
	}
	s.event(Event{Workspace: w.ws.View, Action: "captured", From: d.r.Pre.Name}, o.Caller)
	if d.r.Post.Name != "" {
		defer s.event(Event{Workspace: w.ws.View, Action: "captured", From: d.r.Post.Name}, o.Caller)
	}
	s.tell(inv)
	s.imported(w, over, o.Caller)
	return GraftResult{Files: o.Tree.Inodes - 1, Bytes: o.Tree.Bytes, Undo: d.r.Pre.Name, Snapshot: d.r.Post.Name}, s.Sync()
}

// imported writes to the log what came with a graft.
func (s *core) imported(w *Workspace, over *graft.Overlay, c actors.Caller) {
	err := over.Walk(context.Background(), s.src, func(step *graft.Step) error {
		p := graft.PathChangeOf(*step)
		s.event(Event{Workspace: w.ws.View, Action: p.Action, Path: path.Join(over.Prefix, p.Path), Size: step.Size}, c)
		return nil
	})
	if err != nil {
		s.logger.Warn("writing to the log what an import changed", "err", err)
	}
}

// Importing guards objects that an import puts into the store until its tree
// is grafted, or kept by Hold: gc waits for done. The objects must be on disk (CAS().Commit)
// before Graft.
func (s *Store) Importing() (done func()) {
	return s.gc.Import()
}

// Abandon notes that objects were put that nothing will refer to: gc is due
// soon.
func (s *Store) Abandon() { s.gc.Removed(0) }

// Begin makes a sealed tree the workspace's state and its base, and forgets what was
// before: for a store that is filled when it is made.
func (w *Workspace) Begin(st *tree.State, c actors.Caller) error {
	id, _ := st.ID()
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		r, err := w.ws.NewBegin(tx, id, Info{Created: s.opt.Now(), UID: c.UID, PID: c.PID})
		if err != nil {
			return err
		}
		return s.commit(tx, r, c)
	})
}

// owned refuses to read the directory that a store names as its source for any user but the store's
// owner: the owner could have named a directory that only the other user may read.
func (s *core) owned() error {
	uid, _, err := storedir.Owner(s.dir)
	if err == nil && int(uid) != os.Geteuid() {
		err = errs.New(errs.Protected, "the store is not filled yet, and only its owner may read what it is filled from")
	}
	return err
}
