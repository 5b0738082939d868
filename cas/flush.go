package cas

import (
	"errors"
	"fmt"
	"maps"

	"github.com/amberfs/amberfs/cas/guard"
)

const measureEvery = 16 // flushes between two looks at the size of the index

// overfull tells whether the fresh overlay should go to the index. s.mu is held.
func (s *Store) overfull() bool {
	return s.fresh.len() >= flushObjects || s.fresh.bytes >= flushBytes
}

// flushFull flushes if that is (still) due. A disk too full for the index is no
// error as long as memory holds what the index cannot.
func (s *Store) flushFull() error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	s.mu.Lock()
	due, n := s.overfull(), s.fresh.len()
	s.mu.Unlock()
	if !due {
		return nil
	}
	err := s.flushLocked()
	if errors.Is(err, ErrNoSpace) && n < maxUnflushed {
		return nil
	}
	return err
}

// flush writes what the index does not hold yet, after making the packs that it
// refers to durable.
func (s *Store) flush() error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	return s.flushLocked()
}

func (s *Store) flushLocked() error {
	if s.o.ReadOnly {
		return nil
	}
	over, infos, dirty := s.beginFlush()
	if over.len() == 0 && len(infos) == 0 {
		s.endFlush(nil, nil)
		return nil
	}
	err := guard.Do(func() error { // what the index has not taken must not be forgotten
		if err := s.syncObjects(); err != nil {
			return err
		}
		return s.writeIndex(over, infos)
	})
	if err != nil {
		s.endFlush(over, dirty)
		return fmt.Errorf("write index: %w", noSpace(err))
	}
	s.endFlush(nil, nil)
	if s.flushes++; s.flushes%measureEvery == 0 {
		s.space.measured(s.ix.bytes())
	}
	return nil
}

// beginFlush takes the fresh overlay, and the pack figures as of that instant:
// every record before a pack's end is in the overlay or in the index.
func (s *Store) beginFlush() (*overlay, map[uint64]packInfo, []*pack) {
	packs := append(s.packs.all(roleObjects), s.packs.all(roleMeta)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	over := s.fresh
	s.flushing, s.fresh = over, newOverlay()
	infos := map[uint64]packInfo{}
	var dirty []*pack
	for _, p := range packs {
		if !p.dirty {
			continue
		}
		p.dirty = false
		p.info.covered = max(p.info.covered, p.end)
		p.info.state = packNormal
		if p.garbage || p.sweeping {
			p.info.state = packSweeping
		}
		infos[p.id] = p.info
		dirty = append(dirty, p)
	}
	return over, infos, dirty
}

// endFlush forgets the overlay that the index now holds, or takes back one that
// it does not.
func (s *Store) endFlush(back *overlay, dirty []*pack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushing = nil
	for _, p := range dirty {
		p.dirty = true
	}
	if back == nil {
		return
	}
	newer := s.fresh
	s.fresh = back
	maps.Copy(s.fresh.objects, newer.objects)
	maps.Copy(s.fresh.metas, newer.metas)
	s.fresh.bytes += newer.bytes
}

func (s *Store) writeIndex(over *overlay, infos map[uint64]packInfo) error {
	b := s.ix.batch(func() error { return s.space.forIndex(0) })
	for h, l := range over.objects {
		b.set(objectKey(h), encodeLoc(l))
	}
	for key, e := range over.metas {
		old, had, err := s.ix.meta(key, false)
		if err != nil {
			b.txn.Discard()
			return err
		}
		b.setMeta(key, e, old, had)
	}
	// Last, so that a batch cut into several transactions claims to cover a
	// pack only once it does.
	for id, i := range infos {
		b.set(packKey(id), i.encode())
	}
	return b.commit()
}
