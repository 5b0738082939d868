package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A recovery brings the index of a store that is being opened up to its packs.
type recovery struct {
	*Store
	durable place // up to which the packs were durable at the last commit
}

// recover brings the index up to the packs: after a clean end there is nothing
// to do, after a kill the records since the last flush are read, and with an
// empty index all of them. It returns index.ErrBroken or index.ErrRead for an index that
// cannot belong to these packs.
func (s *recovery) recover() error {
	infos, err := s.index.storedPacks()
	if err != nil {
		return err
	}
	head, _, err := s.index.db.Get([]byte{keyHead})
	if err != nil {
		return err
	}
	if len(infos) > 0 {
		if err := s.compareHead(head); err != nil {
			return err
		}
	}
	if err := s.placePacks(infos); err != nil {
		return err
	}
	s.durable = durable(s.manifest)
	for _, p := range s.packs.all() {
		if err := s.recoverPack(p); err != nil {
			return err
		}
	}
	if err := s.index.loadMarks(); err != nil {
		return err
	}
	if s.o.ReadOnly {
		return nil
	}
	if err := s.index.flush(); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	s.continuePacks()
	return nil
}

// compareHead compares the collections that the index has seen with those in the manifest. It may have
// seen one more, which was interrupted before it removed anything: that one is counted now.
func (s *recovery) compareHead(head []byte) error {
	n := collections(s.manifest)
	switch {
	case bytes.Equal(head, indexHead(n)):
		return nil
	case !bytes.Equal(head, indexHead(n+1)):
		return fmt.Errorf("%w: it is an older copy or of another version: %q", index.ErrBroken, head)
	case s.o.ReadOnly || s.o.NoCommit:
		return nil
	}
	err := errs.Full(s.manifest.Commit(announced(n + 1)))
	if errors.Is(err, ErrNoSpace) {
		return nil
	}
	return err
}

// placePacks compares what the index knows of the packs with the packs that exist.
func (s *recovery) placePacks(infos map[uint64]packInfo) error {
	for _, p := range s.packs.all() {
		i, known := infos[p.id]
		begun := !known && p.size <= packHeaderSize && p.sealed // and interrupted before its header was on disk
		if begun && !s.o.ReadOnly {
			if err := s.packs.remove(p); err != nil {
				return err
			}
			continue
		}
		p.info = i
		p.garbage = i.state == packSweeping
		p.info.covered = max(i.covered, packHeaderSize)
		if p.info.covered > p.size && known {
			s.short(p, p.info.covered)
		}
		p.end = min(p.info.covered, max(p.size, packHeaderSize))
		p.synced = p.end
	}
	if s.o.ReadOnly {
		return nil
	}
	b := s.index.db.Batch(s.space.forIndex)
	for id, i := range infos {
		switch {
		case s.packs.get(id) != nil:
		case i.objects == 0: // gc was interrupted
			b.Delete(packKey(id))
		default:
			s.log.Error("pack is missing; verify tells what was in it", "pack", packName(id))
		}
	}
	if err := b.Commit(); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	return nil
}

// short takes note of a pack that has lost its end: nothing is appended to it.
func (s *recovery) short(p *pack, want int64) {
	s.log.Error("pack is shorter than it was; verify tells what is missing", "pack", p.name(), "bytes", p.size, "expected", want)
	p.sealed = true
}

// recoverPack reads the records that the index does not have. Those that were durable at the last
// commit are trusted. Later ones may have been torn by a power cut: they are checked, and torn
// bytes are made free records.
func (s *recovery) recoverPack(p *pack) error {
	f, err := s.packs.use(p)
	if err != nil {
		return err
	}
	defer s.packs.done(p)
	durable := p.end
	switch {
	case p.id < s.durable.pack:
		durable = p.size
	case p.id == s.durable.pack:
		durable = s.durable.off
	}
	if durable > p.size {
		s.short(p, durable)
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
	err = s.recoverTail(p, f, max(durable, p.end))
	if err != nil || s.o.ReadOnly || p.end <= p.synced {
		return err
	}
	return s.packs.syncPack(p, p.end) // what it holds is durable from here on
}

// recoverTail adopts the good records after an offset. They are written once
// more: if they are there because a failed sync left them in memory only, they
// reach the disk now.
func (s *recovery) recoverTail(p *pack, f vfs.File, from int64) error {
	torn := int64(-1) // where torn bytes begin
	sc := &scan{r: f, id: p.id, from: from, to: p.size, bodies: true}
	err := sc.run(context.Background(), func(it *item) error {
		if it.bad != "" {
			if torn < 0 {
				torn = it.off
			}
			return nil
		}
		if err := s.rewriteTail(p, f, it, torn); err != nil {
			return err
		}
		torn = -1
		return s.adopt(p, it)
	})
	if err != nil || torn < 0 || s.o.ReadOnly {
		return err
	}
	s.log.Info("cutting a torn end", "pack", p.name(), "offset", torn, "bytes", p.size-torn)
	err = f.Truncate(torn)
	if err == nil {
		err = f.Sync() // a later commit says that all before it is whole
	}
	if err != nil {
		return fmt.Errorf("cut pack %s: %w", p.name(), err)
	}
	return nil
}

// rewriteTail writes a record of the tail again, and makes torn bytes before it free.
func (s *recovery) rewriteTail(p *pack, f vfs.File, it *item, torn int64) error {
	if s.o.ReadOnly {
		return nil
	}
	if torn >= 0 {
		if err := writeFree(f, p.id, torn, it.off-torn); err != nil {
			return err
		}
	}
	if it.raw == nil {
		return nil
	}
	if _, err := f.WriteAt(it.raw, it.off); err != nil {
		return fmt.Errorf("write pack %s: %w", p.name(), errs.Full(err))
	}
	return nil
}

// writeFree turns a range into a free record. The header lies within one sector,
// so a power cut leaves the old header or the new one.
func writeFree(f vfs.File, id uint64, off, n int64) error {
	h := header{kind: kindFree, stored: uint32(n / recordAlign)}
	b := make([]byte, headerSize)
	h.encode(b, id, off)
	if _, err := f.WriteAt(b, off); err != nil {
		return fmt.Errorf("mark free space: %w", errs.Full(err))
	}
	return nil
}

// adopt enters a record that a scan found; of two records of one object the
// later one. It flushes now and then, so that recovering needs little memory.
func (s *recovery) adopt(p *pack, it *item) error {
	if err := s.adoptRecord(p, it); err != nil || s.o.ReadOnly {
		return err
	}
	return s.index.flushFull()
}

func (s *recovery) adoptRecord(p *pack, it *item) error {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	p.end = it.off + it.length
	p.dirty = true
	if it.lost || !it.isObject() {
		return nil
	}
	_, counted := s.index.inMemory(it.hash)
	old, ok, err := s.index.locate(it.hash)
	if err != nil {
		return err
	}
	if ok {
		// An interrupted flush may have left a place that no pack's figures
		// include.
		q := s.packs.get(old.pack)
		if counted || q != nil && old.off < q.info.covered {
			s.index.uncount(old)
		}
	}
	s.index.enter(it.hash, it.loc(p.id, it.off))
	return nil
}

// continuePacks chooses the pack that is appended to.
func (s *recovery) continuePacks() {
	packs := s.packs.all()
	if len(packs) == 0 {
		return
	}
	if p := packs[len(packs)-1]; !p.sealed && p.end%recordAlign == 0 && p.end < s.o.PackSize {
		s.packs.tail.pack = p
		p.users++ // the appender
	}
}

// rebuild makes a new index from the packs.
func (s *recovery) rebuild() error {
	if s.index.db != nil {
		if err := s.index.db.Close(); err != nil {
			s.log.Warn("close index", "err", err)
		}
		s.index.db = nil
	}
	dir := s.indexDir()
	for _, p := range s.packs.all() {
		p.info, p.dirty = packInfo{}, false
		p.end, p.synced = 0, 0
	}
	s.index.reset()
	var err error
	if s.index.db, err = index.Create(dir, s.log, s.o.Takeover); err != nil {
		return err
	}
	return s.recover()
}
