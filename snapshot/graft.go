package snapshot

import (
	"cmp"
	"context"
	"path"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// GraftOptions are the arguments of Graft.
type GraftOptions struct {
	Tree      *tree.State // sealed; its root directory is merged into Path
	Path      string      // a directory relative to the root, which must exist; "" is the root
	GivenPath string      // the path that the user gave; if it does not exist, Path is a directory above it
	Caller    actors.Caller
	// Image, if not nil, is the container image that the tree was read from. Graft then also makes a
	// snapshot of the state after, with the image in its description.
	Image *info.Image
	// CopyRootAttrs copies the attributes of the tree's root directory to Path.
	CopyRootAttrs bool
}

// GraftResult has the counts of the grafted tree and the names of the snapshots before and after.
type GraftResult struct {
	Files    int64  `json:"files"`
	Bytes    int64  `json:"bytes"`
	Undo     string `json:"undo,omitempty" jsonschema:"the snapshot of the state before"`
	Snapshot string `json:"snapshot,omitempty" jsonschema:"the snapshot with the image"`
}

// Graft merges a tree into the workspace in one step, and makes a snapshot of the state before.
//
// The new state is sealed before it becomes the present one. So a graft of any size needs little memory, and
// recovery only loads the sealed state.
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

	// Seal most of the workspace now, because the change blocks writers while it seals the rest.
	_, release, err := w.SealPresent(ctx)
	if err != nil {
		return GraftResult{}, err
	}

	release()

	c, err := w.change(ctx, change{name: "import", caller: o.Caller, sourceName: o.GivenPath}, func(c *change) error {
		c.overlay = &graft.Overlay{Base: c.present, Source: o.Tree, Prefix: prefix}
		c.graft.Options = graft.Options{Now: time.Now().UnixNano(), CopyRootAttrs: o.CopyRootAttrs}
		c.message = "before import"
		if o.Image == nil {
			return nil
		}

		if o.CopyRootAttrs {
			dir, err := c.present.Resolve(s.src, prefix)
			if err != nil {
				return err
			}
			o.Image.Merged = dir.Dir.Len() > 0
		}

		c.snapshotAfter = &CaptureOptions{Kind: info.KindImport, Message: "image " + o.Image.Ref, Image: o.Image}

		return o.Image.Check()
	})
	if err != nil {
		return GraftResult{}, err
	}

	return GraftResult{Files: o.Tree.Inodes - 1, Bytes: o.Tree.Bytes, Undo: c.Undo, Snapshot: c.record.Post.Name}, s.Sync()
}

// BeginImport protects the objects that an import puts into the store. gc waits until the caller has called done. The
// caller calls done after Graft or Hold of the imported tree. The caller must commit the objects (CAS().Commit) before
// Graft.
func (s *Store) BeginImport() (done func()) {
	return s.gc.ProtectImport()
}

// CollectSoon makes gc run soon, because the caller has put objects that will not be referenced.
func (s *Store) CollectSoon() { s.gc.CountRemoval(0) }

// SetFirstState makes a sealed tree the present state and the base of the workspace, without a snapshot of the
// state before. It is used to fill a new store.
func (w *Workspace) SetFirstState(st *tree.State, c actors.Caller) error {
	id, _ := st.ID()
	s := w.store
	return s.commitNewRecord(c, func(tx *live.Tx) (catalogue.Record, error) {
		return w.ws.NewBeginFromTree(tx, id, info.Info{Created: s.opt.Now(), Process: info.Process{UID: c.UID, PID: c.PID}})
	})
}
