package snapshot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/cas/guard"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// checkpointBytes of journal, or checkpointTime with any change, make a
	// checkpoint due.
	checkpointBytes = 256 << 20
	checkpointTime  = 30 * time.Second

	// shortSearch is how long a search for what is needed of the journal may
	// have taken for what came about meanwhile to be looked at with the lock
	// held. Before that happens anyway there are so many searches.
	shortSearch = 2 * time.Millisecond
	searches    = 10
)

// checkpoints holds what the checkpoint loop needs.
type checkpoints struct {
	mu     sync.Mutex // one checkpoint or gc at a time
	nudge  sync.Once
	signal chan struct{}
	at     atomic.Int64 // journal position of the last
	needed atomic.Int64 // from there on something of the journal is needed
}

func (c *checkpoints) wakes() chan struct{} {
	c.nudge.Do(func() { c.signal = make(chan struct{}, 1) })
	return c.signal
}

// wake asks for a checkpoint soon.
func (c *checkpoints) wake() {
	select {
	case c.wakes() <- struct{}{}:
	default:
	}
}

func (s *Store) checkpointLoop() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		case <-s.ckpt.wakes():
		}
		grown := s.log.End() - s.ckpt.at.Load()
		crowded := s.crowded()
		if grown < checkpointBytes && !crowded && (grown == 0 || time.Since(last) < checkpointTime) {
			continue
		}
		if err := s.Checkpoint(s.ctx); err != nil && s.ctx.Err() == nil {
			s.logger.Warn("checkpoint", "error", err, guard.Stack(err))
			s.pause(5 * time.Second)
		} else if crowded {
			s.shrinkJournal()
		}
		last = time.Now()
	}
}

// A moment is the store as it is at one position of the journal.
type moment struct {
	at         storedStore
	states     map[uint32]*tree.State
	workspaces map[uint32]storedWorkspace
	snaps      map[uint32]*snap
	deleted    []string // keys
	dirty      map[string]struct{}
	grafts     int
	floor      int64 // lowest position of bytes that records after the moment may refer to
}

// Checkpoint seals everything as it is now, commits it with the catalogue,
// and drops the journal that is not needed any more.
func (s *Store) Checkpoint(ctx context.Context) error {
	s.ckpt.mu.Lock()
	defer s.ckpt.mu.Unlock()
	return s.checkpoint(ctx)
}

func (s *Store) checkpoint(ctx context.Context) error {
	start := time.Now()
	var m *moment
	if err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		if err := tx.Uncertain(); err != nil {
			return err // the journal makes it right, from the last checkpoint on
		}
		m, err = s.moment(tx)
		return err
	}); err != nil {
		return err
	}
	if err := s.commit(ctx, m); err != nil {
		s.alter(func(*live.Tx) {
			maps.Copy(s.cat.dirty, m.dirty)
			for _, sn := range m.snaps {
				sn.wanted = false
			}
		})
		return err
	}
	if err := s.finish(m); err != nil {
		return err
	}
	s.stored.Store(s.cas.Stats().Stored)
	s.figures.checkpointed(time.Since(start))
	return nil
}

// finish lets go of what a committed moment has made needless.
func (s *Store) finish(m *moment) error {
	s.ckpt.at.Store(m.at.Position)
	s.alter(func(*live.Tx) {
		s.cat.grafts = s.cat.grafts[m.grafts:]
	})
	return s.dropJournal(min(m.at.Position, m.floor))
}

// moment notes what a checkpoint has to commit. The lock is held.
func (s *Store) moment(tx *live.Tx) (*moment, error) {
	ino, view := tx.Counters()
	m := &moment{
		at: storedStore{
			Position: tx.End(), NextIno: ino, NextView: view,
			Collected: s.garbage.base.Load(), Garbage: s.garbage.any(), Lossy: s.lossy.Load(),
		},
		states:     make(map[uint32]*tree.State),
		workspaces: make(map[uint32]storedWorkspace),
		snaps:      make(map[uint32]*snap),
		dirty:      s.cat.dirty,
		grafts:     len(s.cat.grafts),
		floor:      tx.Unjournaled(),
	}
	s.cat.dirty = make(map[string]struct{})
	for id, w := range s.cat.workspaces {
		st, err := tx.Capture(id)
		if err != nil {
			return nil, err
		}
		m.states[id] = st
		m.workspaces[id] = storedWorkspace{
			View: id, Parent: w.parent, Fork: w.fork, Name: w.name, NextSeq: w.nextSeq, Origin: w.origin, Undo: w.undo, Before: w.before,
			Head: w.head, Policy: w.policy, Inodes: st.Inodes, Bytes: st.Bytes,
		}
	}
	for key := range m.dirty {
		var id uint32
		if _, err := fmt.Sscanf(key, "snap/%x", &id); err == nil {
			if sn, ok := s.cat.snaps[id]; ok {
				m.snaps[id] = sn
				sn.wanted = true
				if sn.lazy {
					sn.lazy = false
					s.seal.push(sn)
				}
			} else {
				m.deleted = append(m.deleted, key)
			}
		} else if _, err := fmt.Sscanf(key, "ws/%x", &id); err == nil {
			if _, ok := s.cat.workspaces[id]; !ok {
				m.deleted = append(m.deleted, key)
			}
		}
	}
	slices.Sort(m.deleted)
	return m, nil
}

// commit seals a moment and makes it durable.
func (s *Store) commit(ctx context.Context, m *moment) error {
	for _, sn := range sortedSnaps(m.snaps) {
		if err := s.waitSeal(ctx, sn); err != nil {
			return err
		}
	}
	defer s.puts.enter()()
	var ops []cas.MetaOp
	add := func(key string, value any) error {
		op, err := s.cat.op(key, value)
		ops = append(ops, op)
		return err
	}
	if err := s.sealPresent(ctx, m); err != nil {
		return err
	}
	for id, r := range m.workspaces {
		if err := add(wsKey(id), r); err != nil {
			return err
		}
	}
	var records []stored
	s.look(func(*live.Tx) {
		for _, sn := range m.snaps {
			records = append(records, sn.stored())
		}
	})
	for _, r := range records {
		if err := add(snapKey(r.View), r); err != nil {
			return err
		}
	}
	for _, key := range m.deleted {
		ops = append(ops, cas.MetaOp{Key: key, Delete: true})
	}
	m.at.Lossy = s.lossy.Load() // a seal may have found out
	if err := add(storeKey, m.at); err != nil {
		return err
	}
	// A position of the journal is only of use when the journal up to it is
	// on disk.
	if err := s.log.Sync(); err != nil {
		return err
	}
	return s.cas.Commit(ops...)
}

// sealPresent seals the workspaces of a moment.
func (s *Store) sealPresent(ctx context.Context, m *moment) error {
	s.seal.one.Lock()
	defer s.seal.one.Unlock()
	for id, st := range m.states {
		r := m.workspaces[id]
		h, _, err := s.sealState(ctx, st)
		if err != nil {
			return fmt.Errorf("workspace %s: %w", r.Name, err)
		}
		r.State = h.String()
		m.workspaces[id] = r
	}
	return nil
}

func sortedSnaps(m map[uint32]*snap) []*snap {
	out := slices.Collect(maps.Values(m))
	slices.SortFunc(out, func(a, b *snap) int { return int(a.View) - int(b.View) })
	return out
}

// dropJournal drops the journal before a checkpoint, as far as nothing that
// is not sealed lies there.
func (s *Store) dropJournal(position int64) error {
	needed := s.forest.Needed()
	for range searches {
		start := time.Now()
		states, err := s.freeze()
		if err != nil {
			return err
		}
		for _, st := range states {
			needed.Frozen(st)
		}
		if time.Since(start) < shortSearch {
			break
		}
	}
	s.alter(func(tx *live.Tx) { position = min(position, needed.Lowest(tx, s.unsealed())) })
	s.ckpt.needed.Store(position)
	return s.log.DropBefore(position)
}

// unsealed returns the states of snapshots that have no id yet, and those that
// somebody reads. The lock is held.
func (s *Store) unsealed() []*tree.State {
	states := s.heldStates()
	for _, sn := range s.cat.snaps {
		if !sn.Sealed {
			states = append(states, sn.state.Load())
		}
	}
	return states
}

// freeze returns these, and the present states of all workspaces.
func (s *Store) freeze() (states []*tree.State, err error) {
	err = s.forest.Update(true, func(tx *live.Tx) error {
		states = s.unsealed()
		for id := range s.cat.workspaces {
			st, err := tx.Capture(id)
			if err != nil {
				return err
			}
			states = append(states, st)
		}
		return nil
	})
	return states, err
}

// shrinkJournal gives back what the journal occupies without need.
func (s *Store) shrinkJournal() {
	if err := s.log.Shrink(s.ckpt.needed.Load()); err != nil {
		s.logger.Warn("the journal keeps its size", "error", err)
	}
}
