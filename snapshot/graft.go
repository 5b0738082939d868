package snapshot

import (
	"cmp"
	"context"
	"os"
	"path"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
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
	Image *info.Image
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
	c, err := w.change(ctx, change{caller: o.Caller}, func(c *change) error {
		c.overlay = &graft.Overlay{Base: c.now, Source: o.Tree, Prefix: prefix}
		c.graft.Options = graft.Options{Now: time.Now().UnixNano(), Top: o.Top}
		c.message = "before import"
		if o.Image == nil {
			return nil
		}
		if o.Top {
			here, err := c.now.Resolve(s.src, prefix)
			if err != nil {
				return err
			}
			o.Image.Merged = here.Dir.Len() > 0
		}
		c.after = &CaptureOptions{Kind: info.KindImport, Message: "image " + o.Image.Ref, Image: o.Image}
		return o.Image.Check()
	})
	if err != nil {
		return GraftResult{}, err
	}
	return GraftResult{Files: o.Tree.Inodes - 1, Bytes: o.Tree.Bytes, Undo: c.Undo, Snapshot: c.record.Post.Name}, s.Sync()
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
		r, err := w.ws.NewBegin(tx, id, info.Info{Created: s.opt.Now(), UID: c.UID, PID: c.PID})
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
