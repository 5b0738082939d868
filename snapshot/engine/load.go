package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// LastCheckpoint reads the record of the checkpoint; there is none in a store that was just
// made.
func LastCheckpoint(c *cas.Store) (at catalogue.StoreRecord, err error) {
	b, err := c.GetMeta(catalogue.StoreKey)
	if errors.Is(err, cas.ErrNotFound) {
		return catalogue.StoreRecord{First: true}, nil
	}
	if err != nil {
		return at, err
	}
	if err := json.Unmarshal(b, &at); err != nil {
		return at, errs.New(errs.Damaged, "the checkpoint: %w", err)
	}
	return at, nil
}

// A Loading reads the last checkpoint of a store that is not yet shared with other goroutines.
type Loading struct {
	*Parts
	Sealer  *Sealer
	Salvage bool                          // leave out what cannot be read
	Empty   func(tx *live.Tx) *tree.State // returns the state of a workspace that is lost

	Replaced []string // workspaces that continue from an older state than their last
}

// Load reads the catalogue and the states of the workspaces.
func (l *Loading) Load(tx *live.Tx) error {
	if err := l.loadCatalogue(tx); err != nil {
		return err
	}
	return l.loadWorkspaces(tx)
}

func (l *Loading) loadCatalogue(tx *live.Tx) error {
	if err := catalogue.Scan(l.CAS, catalogue.Workspaces, func(r catalogue.WorkspaceRecord) error {
		l.Catalogue.AddWorkspace(r)
		return nil
	}); err != nil {
		return err
	}
	if l.Catalogue.Workspaces[live.MainView] == nil {
		if !l.Salvage {
			return errs.New(errs.Damaged, "the catalogue has no workspace main")
		}
		l.Catalogue.AddMain() // see readableState
	}
	unsealed := make(map[string]uint32)
	err := catalogue.Scan(l.CAS, catalogue.Snapshots, func(r catalogue.SnapshotRecord) error {
		sn, err := r.Load()
		if err == nil && r.Partly != nil {
			unsealed[catalogue.Key(catalogue.Snapshots, r.View)] = r.View
			var st *tree.State
			if st, err = r.Partly.Load(l.Source, tx.Epoch()); err != nil && l.Salvage {
				l.Logger.Warn("left out a snapshot", "snapshot", r.Name, "err", err)
				return nil
			}
			sn.State.Store(st)
		}
		if err == nil && l.Catalogue.Add(sn) {
			l.Sealer.Push(sn)
		}
		return err
	})
	l.Catalogue.Link()
	l.Catalogue.Dirty = unsealed
	return err
}

func (l *Loading) loadWorkspaces(tx *live.Tx) error {
	for _, w := range l.Catalogue.Workspaces {
		st, err := l.loadState(tx, w)
		stored := err == nil && w.Partly == nil
		if err != nil && l.Salvage {
			st, err = l.readableState(tx, w, err), nil
		}
		if err != nil {
			return fmt.Errorf("workspace %s: %w: %w", w.Name, errs.Damaged, err)
		}
		tx.AddView(w.View, st)
		l.loadActors(tx, w)
		if stored {
			tx.Changes().Unchanged(live.ForCheckpoint, w.View)
		}
		if err := l.loadOrphans(tx, w); err != nil {
			return fmt.Errorf("unlinked files of workspace %s: %w: %w", w.Name, errs.Damaged, err)
		}
	}
	return nil
}

// loadOrphans loads the inodes without a name. A salvage does without those that are lost.
func (l *Loading) loadOrphans(tx *live.Tx, w *catalogue.Workspace) error {
	if w.Orphans == nil {
		return nil
	}
	st, err := w.Orphans.Load(l.Source, tx.Epoch())
	w.Orphans = nil
	if err == nil {
		tx.AddOrphans(w.View, st)
	}
	if l.Salvage {
		return nil
	}
	return err
}

// loadState loads the state of a workspace at the checkpoint. Without the root of
// main there is nothing to mount; a salvage looks at all. A root that is on a remote is
// not waited for.
func (l *Loading) loadState(tx *live.Tx, w *catalogue.Workspace) (*tree.State, error) {
	if w.Partly != nil {
		return w.Partly.Load(l.Source, tx.Epoch())
	}
	id, err := cas.ParseHash(w.State)
	if err != nil {
		return nil, err
	}
	st, err := tree.Load(l.Source, id)
	if err == nil && (l.Salvage || w.View == live.MainView) {
		_, err = st.Get(l.Source.With(l.Objects.Near()), live.RootIno)
	}
	if st != nil && errs.Of(err) == errs.Away {
		err = nil
	}
	return st, err
}

// readableState returns the newest state of a workspace that can be read when its last one
// cannot. A fork falls back to its parent, and at last to an empty tree.
func (l *Loading) readableState(tx *live.Tx, w *catalogue.Workspace, cause error) *tree.State {
	l.Replaced = append(l.Replaced, w.Name)
	w.Changes++
	for at := w; at != nil; at = l.Catalogue.Parent(at) {
		for _, sn := range slices.Backward(l.Catalogue.WithOrigin(at)) {
			st, err := sn.Tree(l.Source)
			if err == nil {
				_, err = st.Get(l.Source, live.RootIno)
			}
			if err == nil {
				l.Logger.Warn("the state of the workspace is damaged; it goes on from a snapshot",
					"workspace", w.Name, "snapshot", sn.Name, "err", cause)
				return st
			}
		}
	}
	l.Logger.Warn("the state of the workspace and all its snapshots are damaged; it goes on empty",
		"workspace", w.Name, "err", cause)
	return l.Empty(tx)
}
