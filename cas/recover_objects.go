package cas

import (
	"context"
	"fmt"
)

// recoverObjects reads the object records that the index does not hold. What m
// states to be durable is believed; after that comes what a power cut may have
// torn, which is checked and, if torn, made free.
func (s *Store) recoverObjects(p *pack, m *metaBatch) error {
	f, err := s.packs.use(p)
	if err != nil {
		return err
	}
	defer s.packs.done(p)
	durable := p.end
	switch {
	case p.id < m.durablePack:
		durable = p.size
	case p.id == m.durablePack:
		durable = m.durableOff
	}
	if durable > p.size {
		s.log.Error("pack is shorter than it was; verify tells what is missing", "pack", p.name(),
			"bytes", p.size, "expected", durable)
		p.sealed = true
		durable = p.size
	}
	sc := &scan{r: f, id: p.id, from: p.end, to: durable}
	err = sc.run(context.Background(), func(it *item) error {
		if it.bad != "" {
			s.log.Error("pack is damaged; verify tells more", "pack", p.name(), "offset", it.off, "reason", it.bad)
			p.sealed = true
		}
		return s.adopt(p, it)
	})
	if err != nil {
		return err
	}
	if err := s.recoverTail(p, f, max(durable, p.end)); err != nil {
		return err
	}
	return s.settle(p, f)
}

// recoverTail adopts the good records after an offset. They are written once
// more: if they are there because a failed sync left them in memory only, they
// reach the disk now.
func (s *Store) recoverTail(p *pack, f writerAt, from int64) error {
	r, err := s.packs.use(p)
	if err != nil {
		return err
	}
	defer s.packs.done(p)
	torn := int64(-1) // where torn bytes begin
	sc := &scan{r: r, id: p.id, from: from, to: p.size, bodies: true}
	err = sc.run(context.Background(), func(it *item) error {
		if it.bad != "" {
			if torn < 0 {
				torn = it.off
			}
			return nil
		}
		if !s.o.ReadOnly {
			if torn >= 0 {
				if err := writeFree(f, p.id, torn, it.off-torn); err != nil {
					return err
				}
			}
			if it.raw != nil {
				if _, err := f.WriteAt(it.raw, it.off); err != nil {
					return fmt.Errorf("write pack %s: %w", p.name(), noSpace(err))
				}
			}
		}
		torn = -1
		return s.adopt(p, it)
	})
	if err != nil || torn < 0 {
		return err
	}
	if s.o.ReadOnly {
		return nil
	}
	s.log.Info("cutting a torn end", "pack", p.name(), "offset", torn, "bytes", p.size-torn)
	if err := f.Truncate(torn); err != nil {
		return fmt.Errorf("cut pack %s: %w", p.name(), err)
	}
	return nil
}

type writerAt interface {
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
}

// writeFree turns a range into a free record. The header lies within one sector,
// so a power cut leaves the old header or the new one.
func writeFree(f writerAt, id uint64, off, n int64) error {
	h := header{kind: kindFree, stored: uint32(n / recordAlign)}
	b := make([]byte, headerSize)
	h.encode(b, id, off)
	if _, err := f.WriteAt(b, off); err != nil {
		return fmt.Errorf("mark free space: %w", noSpace(err))
	}
	return nil
}

// adopt enters a record that a scan found; of two records of one object the
// later one.
func (s *Store) adopt(p *pack, it *item) error {
	s.mu.Lock()
	p.end = it.off + it.length
	p.dirty = true
	if it.lost || !it.isObject() {
		s.mu.Unlock()
		return nil
	}
	_, counted := s.inMemory(it.hash)
	old, ok, err := s.locate(it.hash)
	if err != nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: %v", errIndexBroken, err)
	}
	if ok {
		// An interrupted flush may have left a place that no pack's figures
		// include.
		q := s.packs.get(old.pack)
		if counted || q != nil && old.off < q.info.covered {
			s.uncount(old)
		}
	}
	s.enter(it.hash, it.loc(p.id, it.off))
	s.mu.Unlock()
	return s.recovered()
}
