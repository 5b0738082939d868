package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// firstObjects is more than the first checkpoint of a store puts.
const firstObjects = 16

// An opening is what Open does with a store that is not yet shared with other goroutines: it loads the last
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
		tx.SetRequests(at.Requests)
		tx.SetStale(at.Stale)
		if at.First {
			return s.firstTree(tx)
		}
		if err := s.loadCatalogue(tx); err != nil {
			return err
		}
		return s.loadWorkspaces(tx)
	}); err != nil {
		return err
	}
	var err error
	if s.salvage.left, err = s.forest.Replay(at.Position, len(s.salvage.replaced) > 0, s.replay); err != nil {
		return err
	}
	if !s.opt.Takeover {
		s.forest.Disinherit()
	}
	entries{s.Store}.refreshLimit()
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

// firstTree makes the first workspace of a new store.
func (s opening) firstTree(tx *live.Tx) error {
	now := s.opt.Now()
	st := s.emptyTree(tx, now)
	w := entries{s.Store}.makeMain()
	base := storedSnapshot{Info: Info{Name: "base", Kind: KindImport, Created: now, UID: s.opt.UID}}
	var err error
	if start := s.start; start != nil {
		if st, err = s.beginWith(tx, start, w); err != nil {
			return err
		}
		base.Kind, base.Parent = KindPull, start.Info.Name
		w.ws.Head = base.Parent
	}
	tx.AddView(w.ws.View, st)
	if base.View, err = tx.NewView(); err != nil {
		return err
	}
	t := &trees{Tx: tx, s: s.Store}
	return t.follow(s.cat.SetBase(t, w.ws, st, base))
}

func (s opening) emptyTree(tx *live.Tx, now time.Time) *tree.State {
	return tx.NewRoot(unix.S_IFDIR|s.opt.Mode&0o7777, s.opt.UID, s.opt.GID, now.UnixNano())
}

func (s opening) loadCatalogue(tx *live.Tx) error {
	if err := catalogue.Scan(s.cas, catalogue.Workspaces, func(r catalogue.WorkspaceRecord) error {
		entries{s.Store}.connect(s.cat.AddWorkspace(r))
		return nil
	}); err != nil {
		return err
	}
	if s.workspaces[live.MainView] == nil {
		if !s.opt.Salvage {
			return errs.New(errs.Damaged, "the catalogue has no workspace main")
		}
		entries{s.Store}.makeMain() // see readableState
	}
	unsealed := make(map[string]uint32)
	err := catalogue.Scan(s.cas, catalogue.Snapshots, func(r storedSnapshot) error {
		sn, err := r.Load()
		if err == nil && r.Partly != nil {
			unsealed[catalogue.Key(catalogue.Snapshots, r.View)] = r.View
			var st *tree.State
			if st, err = r.Partly.Load(s.src, tx.Epoch()); err != nil && s.opt.Salvage {
				s.logger.Warn("left out a snapshot", "snapshot", r.Name, "err", err)
				return nil
			}
			sn.State.Store(st)
		}
		if err == nil && s.cat.Add(sn) {
			s.seal.Push(sn)
		}
		return err
	})
	s.cat.Link()
	s.cat.Dirty = unsealed
	return err
}

func (s opening) loadWorkspaces(tx *live.Tx) error {
	for _, w := range s.cat.Workspaces {
		st, err := s.loadState(tx, w)
		if err != nil && s.opt.Salvage {
			st, err = s.readableState(tx, w, err), nil
		}
		if err != nil {
			return fmt.Errorf("workspace %s: %w: %w", w.Name, errs.Damaged, err)
		}
		tx.AddView(w.View, st)
		s.rejoin(tx, w)
		if err := s.loadOrphans(tx, w); err != nil {
			return fmt.Errorf("unlinked files of workspace %s: %w: %w", w.Name, errs.Damaged, err)
		}
	}
	return nil
}

// loadOrphans loads the inodes without a name. A salvage does without those that are lost.
func (s opening) loadOrphans(tx *live.Tx, w *catalogue.Workspace) error {
	if w.Orphans == nil {
		return nil
	}
	st, err := w.Orphans.Load(s.src, tx.Epoch())
	w.Orphans = nil
	if err == nil {
		tx.AddOrphans(w.View, st)
	}
	if s.opt.Salvage {
		return nil
	}
	return err
}

// loadState loads the state of a workspace at the checkpoint. Without the root of
// main there is nothing to mount; a salvage looks at all. A root that is on a remote is
// not waited for.
func (s opening) loadState(tx *live.Tx, w *catalogue.Workspace) (*tree.State, error) {
	if w.Partly != nil {
		return w.Partly.Load(s.src, tx.Epoch())
	}
	id, err := cas.ParseHash(w.State)
	if err != nil {
		return nil, err
	}
	st, err := tree.Load(s.src, id)
	if err == nil && (s.opt.Salvage || w.View == live.MainView) {
		_, err = st.Get(s.src.With(s.objects.Near()), live.RootIno)
	}
	if st != nil && errs.Of(err) == errs.Away {
		err = nil
	}
	return st, err
}
