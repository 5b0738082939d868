package cas

import (
	"context"
	"fmt"
	"slices"
)

const (
	metaSlack     = 1 << 20   // bytes of superseded metadata that are not worth rewriting
	metaBatchSize = 256 << 10 // bytes of values in one record of a rewriting
)

// compactMeta writes the metadata that is in force into a new pack and removes
// the older ones, if most of them is superseded, or at once with force, or if only
// the index has some of it. It does nothing if there is no room. The last
// record of the new pack says that the older packs do not count any more; before
// it is durable they do, and the copies are only repetitions.
func (s *Store) compactMeta(force bool) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	force = force || s.meta.incomplete
	old := s.packs.all(roleMeta)
	total := int64(0)
	s.mu.Lock()
	for _, p := range old {
		total += p.end
	}
	s.mu.Unlock()
	live := int64(0)
	err := s.scanMeta("", func(key string, e metaEntry) error {
		live += int64(len(key) + len(e.value))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if !force && total < 2*live+metaSlack {
		return nil
	}
	if err := s.space.forIndex(2 * live); err != nil {
		if force {
			s.log.Warn("the metadata is not written anew", "err", err)
		}
		return nil // not worth failing for: it is all there
	}
	if !force && !s.allMetaSound() {
		s.log.Warn("damaged metadata is kept for a repair")
		return nil
	}
	if err := s.rewriteMeta(); err != nil {
		return fmt.Errorf("rewrite metadata: %w", err)
	}
	if err := s.flush(); err != nil {
		return err
	}
	for _, p := range old {
		if err := s.removePack(p); err != nil {
			return err
		}
	}
	return s.forgetMissing()
}

// forgetMissing ends what was incomplete: what the missing packs held is in others.
func (s *Store) forgetMissing() error {
	if len(s.meta.missing) > 0 {
		s.flushMu.Lock()
		defer s.flushMu.Unlock()
		b := s.ix.batch(func() error { return s.space.forIndex(0) })
		for _, id := range s.meta.missing {
			b.delete(packKey(id))
		}
		if err := b.commit(); err != nil {
			return err
		}
	}
	s.meta.incomplete, s.meta.missing = false, nil
	return nil
}

// allMetaSound tells whether every metadata record can be read.
func (s *Store) allMetaSound() bool {
	return !slices.ContainsFunc(s.packs.all(roleMeta), func(p *pack) bool { return !s.soundMeta(p) })
}

// soundMeta tells whether every record of a metadata pack can be read.
func (s *Store) soundMeta(p *pack) bool {
	f, err := s.packs.use(p)
	if err != nil {
		return false
	}
	defer s.packs.done(p)
	s.mu.Lock()
	end := p.end
	s.mu.Unlock()
	sound := true
	sc := &scan{r: f, id: p.id, from: packHeaderSize, to: end, bodies: true}
	err = sc.run(context.Background(), func(it *item) error {
		sound = sound && it.bad == ""
		return nil
	})
	return err == nil && sound
}

// rewriteMeta fills a new metadata pack, which commits go to from now on.
func (s *Store) rewriteMeta() error {
	p, err := s.packs.create(roleMeta)
	if err != nil {
		return noSpace(err)
	}
	// Also if writing stops half-way: records in packs of lower number would be
	// read before the copies in this one.
	s.meta.pack = p
	m := s.durable()
	size := 0
	write := func() error {
		err := s.appendMeta(kindMeta, s.meta.seq, m)
		m = s.durable()
		size = 0
		return err
	}
	err = s.scanMeta("", func(key string, e metaEntry) error {
		m.entries = append(m.entries, metaItem{key, e})
		if size += len(key) + len(e.value); size < metaBatchSize {
			return nil
		}
		return write()
	})
	if err == nil && len(m.entries) > 0 {
		err = write()
	}
	if err != nil {
		return err
	}
	return s.appendMeta(kindBase, s.meta.seq, s.durable())
}
