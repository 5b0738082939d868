package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// firstObjects is more than the first checkpoint of a store puts.
const firstObjects = 16

// An opening is what Open does with a store that no other process has yet: it loads the last
// checkpoint, and replays the journal.
type opening struct{ *Store }

// lastCheckpoint reads the checkpoint; there is none in a store that was just
// made.
func (s opening) lastCheckpoint() (at catalogue.StoreRecord, err error) {
	b, err := s.cas.GetMeta(catalogue.StoreKey)
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

// recover loads the state of the last checkpoint and replays the journal.
func (s opening) recover(at catalogue.StoreRecord) error {
	s.gc.Base.Store(at.Collected)
	if at.Garbage {
		s.gc.Removed()
	}
	s.salvage.incomplete.Store(at.Incomplete)
	s.ckpt.at.Store(at.Position)
	s.ckpt.records.Store(at.Records)
	if err := s.forest.Update(true, func(tx *live.Tx) error {
		tx.SetCounters(at.NextIno, at.NextView)
		if at.First {
			return s.makeMain(tx)
		}
		if err := s.cat.loadCatalogue(tx); err != nil {
			return err
		}
		return s.loadWorkspaces(tx)
	}); err != nil {
		return err
	}
	var err error
	if s.salvage.left, err = s.forest.Replay(at.Position, len(s.salvage.replaced) > 0, s.cat.replay); err != nil {
		return err
	}
	s.cat.refreshLimit()
	if at.First && s.log.End() == 0 && !s.opt.ReadOnly {
		return s.firstCheckpoint()
	}
	return nil
}

// firstCheckpoint makes a new store one that can be missed when parts of it get
// lost.
func (s opening) firstCheckpoint() error {
	s.created = true
	if err := s.log.Begin(); err != nil {
		return err
	}
	return s.Checkpoint(s.loops.Context)
}

// makeMain makes the first workspace of a new store.
func (s opening) makeMain(tx *live.Tx) error {
	now := s.opt.Now()
	st := s.emptyTree(tx, now)
	w := s.cat.newMain()
	s.cat.workspaces[w.rec.View] = w
	base := storedSnapshot{Info: Info{Name: "base", Kind: KindImport, Created: now, UID: s.opt.UID}}
	if start := s.start; start != nil {
		var err error
		if st, err = s.beginWith(tx, start, w); err != nil {
			return err
		}
		base.Kind, base.Parent = KindPull, start.Info.Name
		w.rec.Head = base.Parent
	}
	tx.AddView(w.rec.View, st)
	return s.cat.setOrigin(tx, w, st, base)
}

func (s opening) emptyTree(tx *live.Tx, now time.Time) *tree.State {
	return tx.NewRoot(unix.S_IFDIR|s.opt.Mode&0o7777, s.opt.UID, s.opt.GID, now.UnixNano())
}

// setOrigin keeps the state that a workspace began from.
func (c *entries) setOrigin(tx *live.Tx, w *Workspace, st *tree.State, r storedSnapshot) error {
	if r.View == 0 {
		view, err := tx.NewView()
		if err != nil {
			return err
		}
		r.View = view
	}
	r.WS = w.rec.View
	r.Files, r.Bytes = st.Inodes-1, st.Bytes
	w.rec.Base = r.View
	return c.keepState(tx, r, st, actors.Changes{})
}

// keepState makes a frozen state a snapshot of the catalogue.
func (c *entries) keepState(tx *live.Tx, r storedSnapshot, st *tree.State, changes actors.Changes) error {
	tx.UseView(r.View)
	sn, err := r.Load()
	if err != nil {
		return err
	}
	sn.State.Store(st)
	sn.Changes = changes
	c.add(sn)
	return nil
}

func (c *entries) loadCatalogue(tx *live.Tx) error {
	if err := catalogue.Scan(c.cas, catalogue.Workspaces, func(r catalogue.WorkspaceRecord) error {
		c.workspaces[r.View] = c.newWorkspace(r)
		return nil
	}); err != nil {
		return err
	}
	if c.workspaces[live.MainView] == nil {
		if !c.opt.Salvage {
			return errs.New(errs.Damaged, "the catalogue has no workspace main")
		}
		c.workspaces[live.MainView] = c.newMain() // see readableState
	}
	unsealed := make(map[string]uint32)
	err := catalogue.Scan(c.cas, catalogue.Snapshots, func(r storedSnapshot) error {
		sn, err := r.Load()
		if err == nil && r.Partly != nil {
			unsealed[catalogue.Key(catalogue.Snapshots, r.View)] = r.View
			var st *tree.State
			if st, err = r.Partly.Load(c.src, tx.Epoch()); err != nil && c.opt.Salvage {
				c.logger.Warn("left out a snapshot", "snapshot", r.Name, "err", err)
				return nil
			}
			sn.State.Store(st)
		}
		if err == nil {
			c.add(sn)
		}
		return err
	})
	c.link()
	c.dirty = unsealed
	return err
}

func (s opening) loadWorkspaces(tx *live.Tx) error {
	for _, w := range s.cat.workspaces {
		st, err := s.loadState(tx, w)
		if err != nil && s.opt.Salvage {
			st, err = s.readableState(tx, w, err), nil
		}
		if err != nil {
			return fmt.Errorf("workspace %s: %w: %w", w.rec.Name, errs.Damaged, err)
		}
		tx.AddView(w.rec.View, st)
		w.Snapshots().rejoin(tx)
	}
	return nil
}

// loadState loads the state of a workspace at the checkpoint. Without the root of
// main there is nothing to mount; a salvage looks at all. A root that is on a remote is
// not waited for.
func (s opening) loadState(tx *live.Tx, w *Workspace) (*tree.State, error) {
	if w.rec.Partly != nil {
		return w.rec.Partly.Load(s.src, tx.Epoch())
	}
	id, err := cas.ParseHash(w.rec.State)
	if err != nil {
		return nil, err
	}
	st, err := tree.Load(s.src, id)
	if err == nil && (s.opt.Salvage || w.rec.View == live.MainView) {
		_, err = st.Get(s.src.With(s.objects.Near()), live.RootIno)
	}
	if st != nil && errs.Of(err) == errs.Away {
		err = nil
	}
	return st, err
}
