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

// LastCheckpoint reads the record of the last checkpoint. If the store has no checkpoint yet, it returns a
// record in which only NoCheckpoint is set.
func LastCheckpoint(c *cas.Store) (record catalogue.StoreRecord, err error) {
	b, err := c.GetMeta(catalogue.StoreKey)
	if errors.Is(err, cas.ErrNotFound) {
		return catalogue.StoreRecord{NoCheckpoint: true}, nil
	}
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(b, &record); err != nil {
		return record, errs.New(errs.Damaged, "the checkpoint: %w", err)
	}

	return record, nil
}

// A Loader reads the last checkpoint of a store that is not yet shared with other goroutines.
type Loader struct {
	*Parts
	Sealer     *Sealer
	Salvage    bool                          // leave out states that cannot be read
	EmptyState func(tx *live.Tx) *tree.State // returns an empty state for a lost workspace

	LostWorkspaces []string // names of workspaces whose last state was lost
}

// Load reads the catalogue and the states of the workspaces.
func (l *Loader) Load(tx *live.Tx) error {
	if err := l.loadCatalogue(tx); err != nil {
		return err
	}
	return l.loadWorkspaces(tx)
}

// loadCatalogue loads the records of workspaces and snapshots. Snapshots without an id are added to
// the sealer's queue.
func (l *Loader) loadCatalogue(tx *live.Tx) error {
	toSeal, err := l.Catalogue.Load(l.CAS, l.Salvage, func(r catalogue.SnapshotRecord) (*tree.State, error) {
		st, err := r.PartlySealed.Load(l.Source, tx.Epoch())
		if err != nil && l.Salvage {
			l.Logger.Warn("left out a snapshot", "snapshot", r.Name, "err", err)
			return nil, nil
		}
		return st, err
	})
	for _, sn := range toSeal {
		l.Sealer.Push(sn)
	}

	return err
}

// loadWorkspaces loads the states of all workspaces, with their actors and orphans.
func (l *Loader) loadWorkspaces(tx *live.Tx) error {
	for _, w := range l.Catalogue.Workspaces.All() {
		st, err := l.loadState(tx, w)
		stored := err == nil && w.PartlySealed == nil
		if err != nil && l.Salvage {
			st, err = l.readableState(tx, w, err), nil
		}
		if err != nil {
			return fmt.Errorf("workspace %s: %w: %w", w.Name, errs.Damaged, err)
		}

		tx.AddView(w.View, st)
		tx.SetViewEnded(w.View, w.Ended != 0)
		l.loadActors(tx, w)
		if stored {
			tx.ChangedViews().ClearChanged(live.ForCheckpoint, w.View)
		}
		if err := l.loadOrphans(tx, w); err != nil {
			return fmt.Errorf("unlinked files of workspace %s: %w: %w", w.Name, errs.Damaged, err)
		}
	}
	return nil
}

// loadOrphans loads the inodes without a name. A salvage ignores errors.
func (l *Loader) loadOrphans(tx *live.Tx, w *catalogue.Workspace) error {
	orphans := w.TakeOrphans()
	if orphans == nil {
		return nil
	}

	st, err := orphans.Load(l.Source, tx.Epoch())
	if err != nil && !l.Salvage {
		return err
	}
	if err == nil {
		tx.SetOrphans(w.View, st)
	}

	return nil
}

// loadState loads the state of a workspace at the checkpoint. It checks that the root directory of
// main can be read. A salvage checks the root directories of all workspaces. A root directory that
// is only on a remote counts as readable.
func (l *Loader) loadState(tx *live.Tx, w *catalogue.Workspace) (*tree.State, error) {
	if w.PartlySealed != nil {
		return w.PartlySealed.Load(l.Source, tx.Epoch())
	}
	id, err := cas.ParseHash(w.State)
	if err != nil {
		return nil, err
	}

	st, err := tree.Load(l.Source, id)
	if err == nil && (l.Salvage || w.View == live.MainView) {
		_, err = st.Get(l.Source.WithObjects(l.Objects.Local()), live.RootIno)
	}
	if st != nil && errs.KindOf(err) == errs.Unreachable {
		err = nil
	}

	return st, err
}

// readableState returns the state of the newest readable snapshot of a workspace whose last state
// cannot be read. If no snapshot can be read, it tries the snapshots of the workspace's ancestors.
// If these cannot be read either, it returns an empty tree.
func (l *Loader) readableState(tx *live.Tx, w *catalogue.Workspace, cause error) *tree.State {
	l.LostWorkspaces = append(l.LostWorkspaces, w.Name)
	l.Catalogue.TouchWorkspace(w)
	for at := w; at != nil; at = l.Catalogue.Parent(at) {
		for _, sn := range slices.Backward(l.Catalogue.SnapshotsWithBase(at)) {
			st, err := sn.Tree(l.Source)
			if err != nil {
				continue
			}
			if _, err := st.Get(l.Source, live.RootIno); err != nil {
				continue
			}

			l.Logger.Warn("the state of the workspace is damaged; it goes on from a snapshot",
				"workspace", w.Name, "snapshot", sn.Name, "err", cause)

			return st
		}
	}

	l.Logger.Warn("the state of the workspace and all its snapshots are damaged; it goes on empty",
		"workspace", w.Name, "err", cause)

	return l.EmptyState(tx)
}
