package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// storedStore is the checkpoint itself.
type storedStore struct {
	Position int64  `json:"position"` // of the journal
	NextIno  uint64 `json:"next_ino"`
	NextView uint32 `json:"next_view"`

	Collected int64 `json:"collected,omitempty"` // bytes of packs after the last gc
	Garbage   bool  `json:"garbage,omitempty"`   // snapshots were removed since

	Lossy bool `json:"lossy,omitempty"` // a repair could not mend everything: objects are missing
}

// lastCheckpoint reads the checkpoint; there is none in a store that was just
// made.
func (s *Store) lastCheckpoint() (at storedStore, found bool, err error) {
	b, err := s.cas.GetMeta(storeKey)
	if isNotFound(err) {
		// The first one follows the making of a store at once.
		n := s.cas.Stats().Objects
		s.nameless = n > firstObjects // see open, which looks into the journal
		return at, false, nil
	}
	if err != nil {
		return at, false, err
	}
	if err := json.Unmarshal(b, &at); err != nil {
		return at, false, fmt.Errorf("the checkpoint: %w", err)
	}
	return at, true, nil
}

// noCatalogue is the error for packs in which nothing says what is what.
func (s *Store) noCatalogue() error {
	return fmt.Errorf("%w: the packs hold %d objects, but the catalogue is missing", cas.ErrDamaged, s.cas.Stats().Objects)
}

// firstObjects is more than the first checkpoint of a store puts.
const firstObjects = 16

// recover loads what the last checkpoint tells of and replays the journal.
func (s *Store) recover(at storedStore, found bool) error {
	first := !found
	if found {
		if err := s.loadCatalogue(); err != nil {
			return err
		}
	}
	s.garbage.base.Store(at.Collected)
	if at.Garbage {
		s.garbage.removed.Add(1)
	}
	s.lossy.Store(at.Lossy)
	s.ckpt.at.Store(at.Position)
	if err := s.forest.Update(true, func(tx *live.Tx) error {
		tx.SetCounters(at.NextIno, at.NextView)
		if first {
			return s.found(tx)
		}
		return s.loadWorkspaces(tx)
	}); err != nil {
		return err
	}
	// What was done to a state that is lost cannot be done to another.
	lost, err := s.forest.Replay(at.Position, len(s.salvaged) > 0, s.replay)
	if err != nil {
		return err
	}
	s.lost = lost
	// What the journal still holds of before the checkpoint may be dropped by
	// the next one.
	s.refreshLimit()
	if first && s.log.End() == 0 && !s.opt.ReadOnly {
		s.created = true
		if err := s.log.Begin(); err != nil {
			return err
		}
		return s.Checkpoint(s.ctx)
	}
	return nil
}

// found makes the first workspace of a new store.
func (s *Store) found(tx *live.Tx) error {
	o := s.opt
	now := time.Now()
	st := tx.NewRoot(unix.S_IFDIR|o.Mode&0o7777, o.UID, o.GID, now.UnixNano())
	w := newWorkspace(s, live.MainView, "main")
	s.cat.workspaces[w.view] = w
	tx.AddView(w.view, st)
	return s.setOrigin(tx, w, st, stored{Info: Info{Name: "origin", Origin: OriginImport, Created: now, UID: o.UID}})
}

// setOrigin keeps the state that a workspace began from.
func (s *Store) setOrigin(tx *live.Tx, w *Workspace, st *tree.State, r stored) error {
	if r.View == 0 {
		view, err := tx.NewView()
		if err != nil {
			return err
		}
		r.View = view
	}
	tx.UseView(r.View)
	r.WS = w.view
	sn, err := fromStored(r)
	if err != nil {
		return err
	}
	sn.Files, sn.Bytes = st.Inodes-1, st.Bytes
	sn.state.Store(st)
	w.origin = sn.View
	s.cat.add(sn)
	s.seal.push(sn)
	return nil
}

// loadCatalogue reads the workspaces and snapshots of the checkpoint.
func (s *Store) loadCatalogue() error {
	err := s.cas.ScanMeta("ws/", func(key string, value []byte) error {
		var r storedWorkspace
		if err := json.Unmarshal(value, &r); err != nil {
			return fmt.Errorf("catalogue record %s: %w", key, err)
		}
		w := newWorkspace(s, r.View, r.Name)
		w.parent, w.fork, w.nextSeq, w.origin, w.undo, w.head, w.policy = r.Parent, r.Fork, r.NextSeq, r.Origin, r.Undo, r.Head, r.Policy
		w.before = r.Before
		h, err := cas.ParseHash(r.State)
		if err != nil {
			return fmt.Errorf("catalogue record %s: %w", key, err)
		}
		w.sealed = h
		s.cat.workspaces[r.View] = w
		return nil
	})
	if err != nil {
		return err
	}
	if s.cat.workspaces[live.MainView] == nil {
		if !s.opt.Salvage {
			return fmt.Errorf("%w: the catalogue has no workspace main", cas.ErrDamaged)
		}
		s.cat.workspaces[live.MainView] = newWorkspace(s, live.MainView, "main") // see salvageState
	}
	err = s.cas.ScanMeta("snap/", func(key string, value []byte) error {
		var r stored
		if err := json.Unmarshal(value, &r); err != nil {
			return fmt.Errorf("catalogue record %s: %w", key, err)
		}
		sn, err := fromStored(r)
		if err != nil {
			return fmt.Errorf("catalogue record %s: %w", key, err)
		}
		s.cat.add(sn)
		return nil
	})
	for _, w := range s.cat.workspaces {
		if p, ok := s.cat.workspaces[w.parent]; ok && w.fork {
			p.forks[w.name] = w
		}
		slices.SortFunc(w.snaps, func(a, b *snap) int { return int(int64(a.Seq) - int64(b.Seq)) })
	}
	clear(s.cat.dirty)
	return err
}

func (s *Store) loadWorkspaces(tx *live.Tx) error {
	for _, w := range s.cat.workspaces {
		st, err := tree.Load(s.src, w.sealed)
		if err == nil && (s.opt.Salvage || w.view == live.MainView) {
			// Without the root of main there is nothing to mount.
			_, err = st.Get(s.src, live.RootIno)
		}
		if err != nil && s.opt.Salvage {
			st, err = s.salvageState(tx, w, err), nil
		}
		if err != nil {
			return fmt.Errorf("workspace %s: %w: %w", w.name, live.ErrDamaged, err)
		}
		tx.AddView(w.view, st)
	}
	return nil
}

// headless reports whether the state of some workspace is lost.
func (s *Store) headless() bool {
	lost := false
	err := s.cas.ScanMeta("ws/", func(_ string, value []byte) error {
		var r storedWorkspace
		if err := json.Unmarshal(value, &r); err != nil {
			return err
		}
		h, err := cas.ParseHash(r.State)
		if err != nil {
			return err
		}
		st, err := tree.Load(s.src, h)
		lost = lost || err != nil || !s.complete(st)
		return nil
	})
	return lost || err != nil
}

// salvageState is the newest state of a workspace that can still be read, when
// its last one cannot; a fork falls back on what it came from, and at last
// there is an empty tree.
func (s *Store) salvageState(tx *live.Tx, w *Workspace, cause error) *tree.State {
	s.salvaged = append(s.salvaged, w.name)
	s.cat.touchWS(w.view)
	for at, ok := w, true; ok; at, ok = s.cat.workspaces[at.parent], at.fork && s.cat.workspaces[at.parent] != nil {
		candidates := slices.Clone(at.snaps)
		if o, ok := s.cat.snaps[at.origin]; ok {
			candidates = slices.Insert(candidates, 0, o)
		}
		for _, sn := range slices.Backward(candidates) {
			if st, err := s.stateOf(sn); err == nil && s.complete(st) {
				s.logger.Warn("the state of the workspace is damaged; it goes on from a snapshot",
					"workspace", w.name, "snapshot", sn.Name, "error", cause)
				return st
			}
		}
	}
	s.logger.Warn("the state of the workspace and all its snapshots are damaged; it goes on empty",
		"workspace", w.name, "error", cause)
	return tx.NewRoot(unix.S_IFDIR|s.opt.Mode&0o7777, s.opt.UID, s.opt.GID, time.Now().UnixNano())
}

// complete reports whether a state has at least a root directory.
func (s *Store) complete(st *tree.State) bool {
	_, err := st.Get(s.src, live.RootIno)
	return err == nil
}
