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

// A recovery completes the index when a store is opened: it adds the records of the packs that the index
// does not have.
type recovery struct {
	store        *Store
	committedEnd place // all records before this place were durable at the last commit
}

// recover reads the records of the packs that the index does not cover, and adds them to the index.
// After a Close the index covers all records. After a kill it lacks the records since the last
// flush. An empty index lacks all records. recover returns index.ErrBroken or index.ErrRead for an
// index that does not belong to these packs.
func (s *recovery) recover() error {
	infos, err := s.store.index.storedPackInfos()
	if err != nil {
		return err
	}

	head, _, err := s.store.index.db.Get([]byte{keyHead})
	if err != nil {
		return err
	}

	if len(infos) > 0 {
		if err := s.reconcileCollectionCount(head); err != nil {
			return err
		}
	}

	if err := s.reconcilePacks(infos); err != nil {
		return err
	}

	s.committedEnd = readCommittedEnd(s.store.manifest)
	for _, p := range s.store.packs.all() {
		if err := s.recoverPack(p); err != nil {
			return err
		}
	}

	if err := s.store.index.loadMarks(); err != nil {
		return err
	}
	if s.store.o.ReadOnly {
		return nil
	}
	if err := s.store.index.flush(); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}

	s.chooseTail()

	return nil
}

// reconcileCollectionCount compares the number of collections in the index with the number in the manifest.
// The number in the index may be larger by one, if a kill interrupted countCollection: then
// reconcileCollectionCount increments the number in the manifest.
func (s *recovery) reconcileCollectionCount(head []byte) error {
	n := collectionCount(s.store.manifest)
	switch {
	case bytes.Equal(head, indexHead(n)):
		return nil
	case !bytes.Equal(head, indexHead(n+1)):
		return fmt.Errorf("%w: it is an older copy or of another version: %q", index.ErrBroken, head)
	case s.store.o.ReadOnly || s.store.o.NoCommit:
		return nil
	}

	err := errs.WrapNoSpace(s.store.manifest.Commit(collectionCountOp(n + 1)))
	if errors.Is(err, ErrNoSpace) {
		return nil
	}

	return err
}

// reconcilePacks sets the fields of each pack from its entry in the index. It removes packs whose creation was
// interrupted, and entries of packs that do not exist.
func (s *recovery) reconcilePacks(infos map[uint64]packInfo) error {
	for _, p := range s.store.packs.all() {
		i, known := infos[p.id]
		incomplete := !known && p.size <= packHeaderSize && p.noAppend // packSet.create was interrupted
		if incomplete && !s.store.o.ReadOnly {
			if err := s.store.packs.remove(p); err != nil {
				return err
			}
			continue
		}

		p.info = i
		p.hasGarbage = i.state == packSweeping
		p.info.indexedEnd = max(i.indexedEnd, packHeaderSize)
		if p.info.indexedEnd > p.size && known {
			s.markShort(p, p.info.indexedEnd)
		}

		p.end = min(p.info.indexedEnd, max(p.size, packHeaderSize))
		p.syncedEnd = p.end
	}
	if s.store.o.ReadOnly {
		return nil
	}

	b := s.store.index.db.Batch(s.store.space.checkForIndex)

	for id, i := range infos {
		switch {
		case s.store.packs.get(id) != nil:
		case i.objects == 0: // gc was interrupted after it removed the pack
			b.Delete(packKey(id))
		default:
			s.store.log.Error("pack is missing; verify tells what was in it", "pack", packName(id))
		}
	}

	if err := b.Commit(); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}

	return nil
}

// markShort logs that a pack has lost its end, and sets noAppend.
func (s *recovery) markShort(p *pack, want int64) {
	s.store.log.Error("pack is shorter than it was; verify tells what is missing", "pack", p.name(), "bytes", p.size, "expected", want)
	p.noAppend = true
}

// recoverPack adds the records of a pack that the index does not cover. For records that were durable at
// the last commit it reads the headers only. A power cut may have torn later records: recoverPack
// checks their bytes, and makes torn ranges free records.
func (s *recovery) recoverPack(p *pack) error {
	f, err := s.store.packs.acquireFile(p)
	if err != nil {
		return err
	}
	defer s.store.packs.releaseFile(p)

	durable := p.end // offset before which all records are durable
	switch {
	case p.id < s.committedEnd.pack:
		durable = p.size
	case p.id == s.committedEnd.pack:
		durable = s.committedEnd.off
	}

	if durable > p.size {
		s.markShort(p, durable)
		durable = p.size
	}

	sc := &scan{r: f, id: p.id, start: p.end, end: durable}
	err = sc.run(context.Background(), func(it *item) error {
		if it.damage != "" {
			s.store.log.Error("pack is damaged; verify tells more", "pack", p.name(), "offset", it.off, "reason", it.damage)
			p.noAppend = true
		}
		return s.adopt(p, it)
	})
	if err != nil {
		return err
	}

	err = s.recoverTail(p, f, max(durable, p.end))
	if err != nil || s.store.o.ReadOnly || p.end <= p.syncedEnd {
		return err
	}

	return s.store.packs.syncPack(p, p.end)
}

// recoverTail adopts the intact records from an offset on, and cuts off a torn end. It writes the records a
// second time: after a failed sync they may be only in the kernel's page cache, and a sync would not write
// them again.
func (s *recovery) recoverTail(p *pack, f vfs.File, from int64) error {
	tornOff := int64(-1) // offset of the torn range before the item, -1 if there is none
	sc := &scan{r: f, id: p.id, start: from, end: p.size, readBodies: true}
	err := sc.run(context.Background(), func(it *item) error {
		if it.damage != "" {
			if tornOff < 0 {
				tornOff = it.off
			}
			return nil
		}

		if err := s.rewriteRecord(p, f, it, tornOff); err != nil {
			return err
		}

		tornOff = -1
		return s.adopt(p, it)
	})
	if err != nil || tornOff < 0 || s.store.o.ReadOnly {
		return err
	}

	s.store.log.Info("cutting a torn end", "pack", p.name(), "offset", tornOff, "bytes", p.size-tornOff)
	if err := f.Truncate(tornOff); err != nil {
		return fmt.Errorf("cut pack %s: %w", p.name(), err)
	}
	if err := f.Sync(); err != nil { // durable now, because the next commit records in the manifest that they are
		return fmt.Errorf("cut pack %s: %w", p.name(), err)
	}

	return nil
}

// rewriteRecord writes a record of the tail a second time, and makes the torn range before it a free record.
func (s *recovery) rewriteRecord(p *pack, f vfs.File, it *item, tornOff int64) error {
	if s.store.o.ReadOnly {
		return nil
	}

	if tornOff >= 0 {
		if err := writeFreeRecord(f, p.id, tornOff, it.off-tornOff); err != nil {
			return err
		}
	}
	if it.raw == nil {
		return nil // a free record is not written again
	}
	if _, err := f.WriteAt(it.raw, it.off); err != nil {
		return fmt.Errorf("write pack %s: %w", p.name(), errs.WrapNoSpace(err))
	}

	return nil
}

// writeFreeRecord turns a range into a free record. The header lies within one sector, so a power cut leaves
// the old header or the new one.
func writeFreeRecord(f vfs.File, id uint64, off, n int64) error {
	h := header{kind: kindFree, storedLen: uint32(n / recordAlign)}
	b := make([]byte, headerSize)
	h.encode(b, id, off)
	if _, err := f.WriteAt(b, off); err != nil {
		return fmt.Errorf("mark free space: %w", errs.WrapNoSpace(err))
	}

	return nil
}

// adopt adds a record that a scan found to the index. If the index has an earlier record of the object,
// the later one replaces it. adopt flushes the index when this is due, so that recovery needs little
// memory.
func (s *recovery) adopt(p *pack, it *item) error {
	if err := s.adoptRecord(p, it); err != nil || s.store.o.ReadOnly {
		return err
	}
	return s.store.index.flushIfDue()
}

func (s *recovery) adoptRecord(p *pack, it *item) error {
	s.store.index.mu.Lock()
	defer s.store.index.mu.Unlock()

	p.end = it.off + it.length
	p.dirty = true
	if it.headerBad || !it.isObject() {
		return nil
	}

	_, counted := s.store.index.findInMemory(it.hash)
	old, ok, err := s.store.index.findLocked(it.hash)
	if err != nil {
		return err
	}

	if ok {
		// Subtract the old record from the counts of its pack only if it was counted there: an
		// interrupted flush may have written the old place, but not the entry of its pack.
		q := s.store.packs.get(old.pack)
		if old.pack != p.id || old.off != it.off {
			s.store.index.placesChanged.Store(true)
		}
		if counted || q != nil && old.off < q.info.indexedEnd {
			s.store.index.markAsGarbage(old)
		}
	}

	s.store.index.add(it.hash, it.loc(p.id, it.off))

	return nil
}

// chooseTail makes the newest pack the appender's, if records can be appended to it.
func (s *recovery) chooseTail() {
	packs := s.store.packs.all()
	if len(packs) == 0 {
		return
	}

	if p := packs[len(packs)-1]; !p.noAppend && p.end%recordAlign == 0 && p.end < s.store.o.PackSize {
		s.store.packs.tail.pack = p
		p.users++ // the appender is a user
	}
}

// rebuild creates an empty index and adds all records of the packs.
func (s *recovery) rebuild() error {
	if s.store.index.db != nil {
		if err := s.store.index.db.Close(); err != nil {
			s.store.log.Warn("close index", "err", err)
		}
		s.store.index.db = nil
	}

	dir := s.store.indexDir()

	for _, p := range s.store.packs.all() {
		p.info, p.dirty = packInfo{}, false
		p.end, p.syncedEnd = 0, 0
	}

	s.store.index.reset()
	var err error
	if s.store.index.db, err = index.Create(dir, s.store.log, s.store.o.Takeover); err != nil {
		return err
	}

	return s.recover()
}
