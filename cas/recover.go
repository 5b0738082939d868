package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/amberfs/amberfs/cas/vfs"
)

// recover brings the index up to the packs: after a clean end there is nothing
// to do, after a kill the records since the last flush are read, and with an
// empty index all of them. It returns errIndexBroken for an index that cannot
// belong to these packs.
func (s *Store) recover() error {
	infos, err := s.ix.packs()
	if err != nil {
		return fmt.Errorf("%w: %v", errIndexBroken, err)
	}
	if err := s.placePacks(infos); err != nil {
		return err
	}
	if err := s.dropSuperseded(); err != nil {
		return err
	}
	m, c := metaBatch{}, &metaCopy{}
	if len(infos) == 0 {
		if c, err = s.adoptMetaCopy(); err != nil {
			return err
		}
	}
	for _, p := range s.packs.all(roleMeta) {
		if err := s.recoverMeta(p, &m, c, len(infos) > 0); err != nil {
			return err
		}
	}
	if c.durable.after(&m) {
		m = c.durable
	}
	if n := c.differs(); n > 0 {
		s.log.Error("the packs lack metadata that its copy has; verify tells more", "keys", n)
		if s.allMetaSound() { // else a repair may mend what is damaged
			s.meta.incomplete = true
			s.mend("metadata", fmt.Errorf("the packs lack %d keys that the copy has", n))
		}
	}
	for _, p := range s.packs.all(roleObjects) {
		if err := s.recoverObjects(p, &m); err != nil {
			return err
		}
	}
	if s.o.ReadOnly {
		return nil
	}
	if err := s.flush(); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	s.continuePacks()
	if s.meta.incomplete {
		// The index has what the packs lost. If there is no room now, a collection
		// or the next opening tries again.
		s.log.Warn("writing the metadata anew")
		if err := s.compactMeta(true); !errors.Is(err, ErrNoSpace) {
			return err
		}
	}
	return nil
}

// placePacks compares what the index knows of the packs with what is there.
func (s *Store) placePacks(infos map[uint64]packInfo) error {
	for _, p := range append(s.packs.all(roleObjects), s.packs.all(roleMeta)...) {
		i, known := infos[p.id]
		if known && i.state == packDoomed && !s.o.ReadOnly {
			if err := s.packs.remove(p); err != nil {
				return err
			}
			continue
		}
		if !known && p.size <= packHeaderSize && p.sealed && !s.o.ReadOnly {
			// Begun, and interrupted before its header was on disk.
			if err := s.packs.remove(p); err != nil {
				return err
			}
			continue
		}
		p.info = i
		p.garbage = i.state == packSweeping
		p.info.covered = max(i.covered, packHeaderSize)
		if p.info.covered > p.size && known {
			s.log.Error("pack is shorter than it was; verify tells what is missing", "pack", p.name(),
				"bytes", p.size, "expected", p.info.covered)
			p.sealed = true
			if p.role == roleMeta {
				s.meta.incomplete = true
				s.mend(p.name(), fmt.Errorf("the pack is shorter than it was, %d of %d bytes; the index has what it held", p.size, p.info.covered))
			}
		}
		p.end = min(p.info.covered, max(p.size, packHeaderSize))
		p.synced = p.end
		s.meta.seq = max(s.meta.seq, uint64(p.info.seq))
	}
	if s.o.ReadOnly {
		return nil
	}
	b := s.ix.batch(func() error { return s.space.forIndex(0) })
	for id, i := range infos {
		if s.packs.get(id) != nil {
			continue
		}
		if i.state == packDoomed {
			b.delete(packKey(id))
			continue
		}
		s.log.Error("pack is missing; verify tells what was in it", "pack", fmt.Sprintf("%016x", id))
		if i.seq > 0 {
			// What it held is still in force, by its numbers: those to come go on.
			s.meta.seq = max(s.meta.seq, uint64(i.seq))
			s.meta.incomplete = true
			s.meta.missing = append(s.meta.missing, id)
			s.mend(fmt.Sprintf("%016x%s", id, roleMeta.ext()), errors.New("the pack is missing; the index has what it held"))
		}
	}
	if err := b.commit(); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	return nil
}

// dropSuperseded removes the metadata packs that a rewriting left behind when it
// was interrupted.
func (s *Store) dropSuperseded() error {
	packs := s.packs.all(roleMeta)
	if len(packs) < 2 {
		return nil
	}
	base := -1
	for i, p := range packs {
		f, err := s.packs.use(p)
		if err != nil {
			return err
		}
		sc := &scan{r: f, id: p.id, from: packHeaderSize, to: p.size, bodies: true}
		err = sc.run(context.Background(), func(it *item) error {
			if it.bad == "" && it.kind == kindBase {
				base = i
			}
			return nil
		})
		s.packs.done(p)
		if err != nil {
			return err
		}
	}
	for i := range base {
		if s.o.ReadOnly {
			s.packs.forget(packs[i])
			continue
		}
		if err := s.removePack(packs[i]); err != nil && !errors.Is(err, ErrNoSpace) {
			return err
		}
	}
	return nil
}

// recoverMeta reads the metadata records that the index does not hold. m takes
// the newest statement on what is durable; c is the copy, if that was adopted.
func (s *Store) recoverMeta(p *pack, m *metaBatch, c *metaCopy, indexed bool) error {
	f, err := s.packs.use(p)
	if err != nil {
		return err
	}
	defer s.packs.done(p)
	end, from := p.end, p.end // from is where the batch begins
	var parts batchParts
	sc := &scan{r: f, id: p.id, from: p.end, to: p.size, bodies: true}
	err = sc.run(context.Background(), func(it *item) error {
		if it.bad != "" || it.kind != kindMeta && it.kind != kindBase && it.kind != kindPart {
			return nil
		}
		b, err := s.decodeMeta(it)
		if err == nil && it.kind == kindPart {
			if parts.add(it.seq, b); len(parts.list) == 1 {
				from = it.off
			}
			return nil
		}
		if len(parts.list) == 0 {
			from = it.off
		}
		if err == nil {
			err = parts.join(it.seq, b)
		}
		if err != nil {
			s.log.Error("metadata record is damaged", "pack", p.name(), "offset", it.off, "reason", err)
			return nil
		}
		for _, e := range b.entries {
			if e.key != keyGC || !indexed {
				continue
			}
			// A rewriting of the metadata repeats what the index has.
			have, ok, err := s.ix.meta(keyGC, false)
			if err != nil {
				return fmt.Errorf("%w: %v", errIndexBroken, err)
			}
			if !ok || have.seq < e.seq {
				return fmt.Errorf("%w: it is from before a gc", errIndexUnfit)
			}
		}
		if from > end {
			s.log.Error("metadata records are damaged; verify tells more", "pack", p.name(), "offset", end)
			p.sealed = true
		}
		end = it.off + it.length
		if b.durablePack >= m.durablePack {
			*m = metaBatch{durablePack: b.durablePack, durableOff: b.durableOff}
		}
		return s.adoptMeta(p, it, b, c, end)
	})
	if err != nil {
		return err
	}
	if end < p.size {
		if err := s.metaEnd(p, f, end); err != nil {
			return err
		}
	}
	return s.settle(p, f)
}

// metaEnd decides what becomes of bytes behind the last good metadata record.
func (s *Store) metaEnd(p *pack, f vfs.File, end int64) error {
	at, err := afterParts(f, p.id, end, p.size)
	torn := at == p.size // the record that makes them count never came
	if err == nil && !torn {
		torn, err = tornEnd(f, p.id, at, p.size)
	}
	if err != nil {
		s.log.Error("metadata cannot be read", "pack", p.name(), "offset", end, "err", err)
	}
	if !torn {
		// There was a commit. A repair may mend it, and has to find it.
		s.log.Error("metadata records are damaged; verify tells more", "pack", p.name(), "offset", end)
		s.mu.Lock()
		defer s.mu.Unlock()
		p.end, p.sealed, p.dirty = p.size, true, true
		return nil
	}
	if p.sealed || s.o.ReadOnly {
		return nil
	}
	s.log.Info("cutting an unfinished commit", "pack", p.name(), "offset", end)
	if err := f.Truncate(end); err != nil {
		return fmt.Errorf("cut pack %s: %w", p.name(), err)
	}
	return nil
}

// tornEnd tells whether the end of a pack, of one commit, is what a kill or a power
// cut left of it: it ends too early, or sectors of it never reached the disk. Else
// all of it was written once. It is not torn if it cannot be read.
func tornEnd(r io.ReaderAt, id uint64, off, size int64) (bool, error) {
	if size-off < headerSize || size%recordAlign != 0 {
		return true, nil
	}
	b := make([]byte, min(size-off, headerSize+maxStoredLen))
	if err := readExactly(r, b, off); err != nil {
		return false, err
	}
	if h, err := decodeHeader(b[:headerSize], id, off); err == nil && off+h.size() > size {
		return true, nil
	}
	// A record has no sector of zeros: its padding is less than any part of one
	// that lies in it.
	const sector = 512
	for at := off; len(b) > 0; {
		n := min(sector-at%sector, int64(len(b)))
		if !slices.ContainsFunc(b[:n], func(c byte) bool { return c != 0 }) {
			return true, nil
		}
		at, b = at+n, b[n:]
	}
	return false, nil
}

func (s *Store) decodeMeta(it *item) (*metaBatch, error) {
	b, err := s.codec.expand(it.flags, it.plain, it.body(), nil)
	if err != nil {
		return nil, err
	}
	if Sum(b) != it.hash {
		return nil, errHash
	}
	return decodeMetaBatch(b)
}

func (s *Store) adoptMeta(p *pack, it *item, b *metaBatch, c *metaCopy, end int64) error {
	for _, e := range b.entries {
		if c.knows(e) {
			continue
		}
		s.mu.Lock()
		now, ok := s.fresh.metas[e.key]
		s.mu.Unlock()
		if !ok {
			var err error
			if now, ok, err = s.ix.meta(e.key, false); err != nil {
				return fmt.Errorf("%w: %v", errIndexBroken, err)
			}
		}
		if ok && now.seq > e.seq {
			continue
		}
		s.mu.Lock()
		s.fresh.metas[e.key] = e.metaEntry
		s.mu.Unlock()
	}
	s.meta.seq = max(s.meta.seq, it.seq)
	s.mu.Lock()
	p.end = end
	p.info.seq = max(p.info.seq, int64(it.seq))
	p.dirty = true
	s.fresh.bytes += it.length
	s.mu.Unlock()
	return s.recovered()
}

// recovered flushes now and then, so that recovering needs little memory.
func (s *Store) recovered() error {
	s.mu.Lock()
	full := s.overfull() && !s.o.ReadOnly
	s.mu.Unlock()
	if !full {
		return nil
	}
	return s.flushFull()
}

// settle ends the recovery of a pack: what it holds is durable from here on.
func (s *Store) settle(p *pack, f interface{ Sync() error }) error {
	s.mu.Lock()
	end, sync := p.end, p.end > p.synced
	s.mu.Unlock()
	if !sync || s.o.ReadOnly {
		return nil
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync pack %s: %w", p.name(), noSpace(err))
	}
	s.mu.Lock()
	p.synced = max(p.synced, end)
	s.mu.Unlock()
	return nil
}

// continuePacks chooses the packs that are appended to.
func (s *Store) continuePacks() {
	usable := func(p *pack) bool { return !p.sealed && p.end%recordAlign == 0 && p.end < s.o.PackSize }
	if l := s.packs.all(roleObjects); len(l) > 0 && usable(l[len(l)-1]) {
		s.append.pack = l[len(l)-1]
	}
	if l := s.packs.all(roleMeta); len(l) > 0 && usable(l[len(l)-1]) {
		s.meta.pack = l[len(l)-1]
	}
}

// rebuild makes a new index from the packs.
func (s *Store) rebuild() error {
	if s.ix != nil {
		if err := s.ix.close(); err != nil {
			s.log.Warn("close index", "err", err)
		}
		s.ix = nil
	}
	if err := removeIndex(s.o.indexDir); err != nil {
		return err
	}
	for _, p := range append(s.packs.all(roleObjects), s.packs.all(roleMeta)...) {
		p.info, p.dirty = packInfo{}, false
		p.end, p.synced = 0, 0
	}
	s.fresh, s.meta = newOverlay(), metaLog{}
	var err error
	if s.ix, err = openIndex(s.o.indexDir, s.space.budget, s.log); err != nil {
		return err
	}
	return s.recover()
}
