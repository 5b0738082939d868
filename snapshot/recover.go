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
}

// recover loads the last checkpoint and replays the journal.
func (s *Store) recover() error {
	var at storedStore
	b, err := s.cas.GetMeta(storeKey)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &at); err != nil {
			return fmt.Errorf("the checkpoint: %w", err)
		}
		if err := s.loadCatalogue(); err != nil {
			return err
		}
	case !isNotFound(err):
		return err
	}
	first := err != nil
	s.garbage.base.Store(at.Collected)
	if at.Garbage {
		s.garbage.removed.Add(1)
	}
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
	if err := s.forest.Replay(at.Position, s.replay); err != nil {
		return err
	}
	// What the journal still holds of before the checkpoint may be dropped by
	// the next one.
	s.refreshLimit()
	if first && s.log.End() == 0 {
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
		if err != nil && s.opt.Salvage {
			st, err = s.salvageState(w, err)
		}
		if err != nil {
			return fmt.Errorf("workspace %s: %w", w.name, err)
		}
		tx.AddView(w.view, st)
	}
	return nil
}

// salvageState is the newest state of a workspace that can still be read, when
// its last one cannot.
func (s *Store) salvageState(w *Workspace, cause error) (*tree.State, error) {
	candidates := slices.Clone(w.snaps)
	if o, ok := s.cat.snaps[w.origin]; ok {
		candidates = slices.Insert(candidates, 0, o)
	}
	for _, sn := range slices.Backward(candidates) {
		if st, err := s.stateOf(sn); err == nil {
			s.logger.Warn("the state of the workspace is damaged; it goes on from a snapshot",
				"workspace", w.name, "snapshot", sn.Name, "error", cause)
			s.cat.touchWS(w.view)
			return st, nil
		}
	}
	return nil, cause
}
