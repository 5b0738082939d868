package cas

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

const punchBlockSize = 4096 // bytes; holes are made of whole blocks

// sweepPack removes the dead records of a pack before the offset end. It may be interrupted at any
// point, because of its order: it deletes the dead records from the index, then makes them free
// records, then frees their space.
func (s *sweeper) sweepPack(ctx context.Context, p *pack, end int64) error {
	f, err := s.store.packs.acquireFile(p)
	if err != nil {
		return err
	}
	defer s.store.packs.releaseFile(p)

	before, err := s.store.fs.Stat(p.path)
	if err != nil {
		return err
	}

	w := &sweepPlan{p: p, f: f, end: end, wipe: s.wipe, movedTo: map[uint32]place{}}
	s.store.index.mu.Lock()
	p.hasGarbage, p.sweeping = false, true
	s.store.index.mu.Unlock()
	if err := s.listRecords(ctx, w); err != nil {
		return err
	}
	if err := s.dropDeadRecords(w); err != nil {
		return err
	}

	w.findDeadRuns() // sets wasteBytes, which tryEmptyPack needs
	s.res.RemovedObjects += w.deadCount

	removed, err := s.tryEmptyPack(ctx, w)
	if err != nil {
		return err
	}

	if removed {
		s.res.FreedBytes += max(before.Allocated-w.movedBytes, 0)
		return nil
	}

	if err := s.freeDeadRecords(w); err != nil {
		return err
	}

	s.store.index.mu.Lock()
	p.sweeping, p.dirty = false, true
	s.store.index.mu.Unlock()
	after, err := s.store.fs.Stat(p.path)
	if err != nil {
		return err
	}

	s.res.FreedBytes += max(before.Allocated-after.Allocated, 0)

	return nil
}

// listRecords lists the records of the pack. Ranges without a readable header are not listed.
func (s *sweeper) listRecords(ctx context.Context, w *sweepPlan) error {
	sc := &scan{r: w.f, id: w.p.id, start: packHeaderSize, end: w.end}
	return sc.run(ctx, func(it *item) error {
		s.yield()
		r := sweepRecord{hash: it.hash, off: it.off, length: it.length, plainLen: int64(it.plainLen), free: it.kind == kindFree}

		if it.damage != "" {
			w.damaged = true
			if it.headerBad {
				return nil
			}
		}

		w.records = append(w.records, r)
		return nil
	})
}

// dropDeadRecords decides which records are dead, and deletes them from the index, durably. No Put runs while
// it holds gcState.gate; later Puts do not find the dead objects.
func (s *sweeper) dropDeadRecords(w *sweepPlan) error {
	s.store.gc.gate.Lock()
	defer s.store.gc.gate.Unlock()

	s.store.index.writeMu.Lock()
	defer s.store.index.writeMu.Unlock()

	info, err := s.store.index.storedPackInfo(w.p.id)
	if err != nil {
		return err
	}

	b := s.store.index.db.Batch(s.store.space.checkForIndex)
	defer b.Discard()

	// excess is the part of the counts of the pack's entry for which the index has no object in this pack. An
	// interrupted dropDeadRecords can leave such a part, which is subtracted from the entry below. excess
	// begins as all counts of the entry; then each object that the index has in this pack is subtracted from
	// excess.
	excess := s.keepSet.packInfos[w.p.id]
	var removed []loc

	for i := range w.records {
		r := &w.records[i]
		if r.free {
			continue
		}

		if s.keepSet.isKept(place{w.p.id, r.off}) { // kept objects are in the index, with a place in this pack
			excess.subtract(packInfo{objects: 1, plainBytes: r.plainLen, storedBytes: r.length})
			w.liveBytes += r.length
			continue
		}

		l, ok, err := s.store.index.findStored(r.hash)
		if err != nil {
			return err
		}

		r.dead = true
		w.deadCount++
		if ok && l.pack == w.p.id && l.off == r.off { // otherwise the record is a second copy, and the index does not refer to it
			excess.remove(l)
			b.Delete(objectKey(r.hash))
			info.remove(l)
			removed = append(removed, l)
		}
	}

	if w.damaged { // damaged ranges are not listed; excess may be their objects, so the entry is not corrected
		excess = packInfo{}
	}
	if w.deadCount == 0 && excess.objects == 0 {
		return nil
	}

	info.subtract(excess)
	info.state = packSweeping
	b.Put(packKey(w.p.id), info.encode())
	if err := b.Commit(); err != nil {
		return err
	}

	s.store.index.mu.Lock()
	defer s.store.index.mu.Unlock()

	for _, l := range removed {
		w.p.info.remove(l)
	}

	w.p.info.subtract(excess)

	for h := range s.store.index.damageMarks {
		if l := s.store.index.damageMarks[h]; l.pack == w.p.id && !s.keepSet.isKept(l.place()) && l.off < w.end {
			s.store.index.unmarkDamaged(h)
		}
	}

	return nil
}

// tryEmptyPack moves the live records to the newest pack and removes the pack, if worthMoving returns true. It
// reports whether it has removed the pack.
func (s *sweeper) tryEmptyPack(ctx context.Context, w *sweepPlan) (removed bool, err error) {
	if w.damaged || !w.worthMoving(s.store.o.PackSize) || !s.stopAppends(w) {
		return false, nil
	}

	if w.liveBytes > 0 {
		if err := s.moveLiveRecords(ctx, w); err != nil {
			if errors.Is(err, ErrNoSpace) || errors.Is(err, ErrDamaged) {
				s.marker.remembers = false // some records may have been moved, and the generations lack their new places
				return false, nil          // the caller punches holes, which needs no space
			}
			return false, err
		}
	}

	if err := s.wipePack(w); err != nil {
		return false, err
	}

	s.marker.moveSlots(w.p.id, w.movedTo)

	return true, s.removePack(w.p)
}

// wipePack overwrites the records of a pack that is about to be removed, if Collection.Wipe is set.
func (s *sweeper) wipePack(w *sweepPlan) error {
	if !w.wipe {
		return nil
	}

	for i := range w.records {
		w.records[i].dead = true
	}
	if err := s.freeDeadRecords(w); !errors.Is(err, ErrNoSpace) { // ErrNoSpace: a filesystem that copies on write needs space to overwrite
		return err
	}

	return nil
}

// stopAppends makes the appender begin another pack. It returns false if records were appended to the
// pack after the collection began: then only a later collection can empty the pack.
func (s *sweeper) stopAppends(w *sweepPlan) bool {
	s.store.packs.tail.mu.Lock()
	defer s.store.packs.tail.mu.Unlock()

	if s.store.packs.tail.pack == w.p {
		s.store.packs.markFull(w.p)
		s.store.packs.tail.pack = nil
	}

	s.store.index.mu.Lock()
	defer s.store.index.mu.Unlock()

	if w.p.end > w.end {
		w.p.hasGarbage = true
		return false
	}

	return true
}

// moveLiveRecords copies the live records to the newest pack and changes their places in the index.
func (s *sweeper) moveLiveRecords(ctx context.Context, w *sweepPlan) error {
	if err := s.store.space.checkForIndex(w.liveBytes); err != nil {
		return err
	}

	var buf []byte

	for _, r := range w.records {
		if r.dead || r.free {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if int64(cap(buf)) < r.length {
			buf = make([]byte, r.length)
		}

		buf = buf[:r.length]
		if err := readExactly(w.f, buf, r.off); err != nil {
			return err
		}

		// A damaged record is not copied, and the error keeps the pack from being removed.
		h, err := decodeHeader(buf, w.p.id, r.off)
		if err != nil || crc32.Checksum(buf[headerSize:], crcTable) != h.crc {
			return fmt.Errorf("object %s: %w", r.hash, ErrDamaged)
		}

		from := h.loc(w.p.id, r.off)
		if err = s.store.appendObject(&h, buf, &from, nil); err != nil {
			return err
		}

		w.movedBytes += h.size()
		now, ok, err := s.store.index.find(r.hash)
		if err != nil {
			return err
		}
		if ok && s.marker.remembers {
			w.movedTo[from.place().slot()] = now.place()
		}

		s.yield()
	}

	return s.store.index.flush()
}

// freeDeadRecords makes each run of dead records a free record, and punches holes into their blocks.
func (s *sweeper) freeDeadRecords(w *sweepPlan) error {
	runs := w.findDeadRuns()
	for _, r := range runs {
		if err := writeFreeRecord(w.f, w.p.id, r.start, r.end-r.start); err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return nil
	}

	// The headers of the free records must be on disk before the holes: a dead record's header before a
	// hole would look like damage.
	if err := w.f.Sync(); err != nil {
		return s.store.failure.set(fmt.Errorf("sync pack %s: %w", w.p.name(), err))
	}

	if w.wipe { // a hole frees blocks without overwriting their bytes
		for _, r := range runs {
			if err := vfs.Overwrite(w.f, min(r.start+headerSize, r.end), r.end); err != nil {
				return errs.WrapNoSpace(err)
			}
		}
		if err := w.f.Sync(); err != nil {
			return s.store.failure.set(fmt.Errorf("sync pack %s: %w", w.p.name(), err))
		}
	}

	for _, r := range runs {
		if err := r.erase(w.f); err != nil {
			return err
		}
	}

	return nil
}

// erase frees the whole blocks of a run by punching a hole, and overwrites the bytes before and after
// the hole. If the filesystem does not support holes, it overwrites the whole run, whose space is freed
// when the pack is emptied.
func (r deadRun) erase(f vfs.File) error {
	if r.holeEnd > r.holeStart {
		err := f.Punch(r.holeStart, r.holeEnd-r.holeStart)
		if errors.Is(err, vfs.ErrNotSupported) {
			r.holeEnd = r.holeStart
		} else if err != nil {
			return fmt.Errorf("punch hole: %w", err)
		}
	}

	from := min(r.start+headerSize, r.end)
	if err := vfs.Overwrite(f, from, min(r.holeStart, r.end)); err != nil {
		return errs.WrapNoSpace(err)
	}

	return errs.WrapNoSpace(vfs.Overwrite(f, max(r.holeEnd, from), r.end))
}

// removePack deletes a pack in which the index has no object, and its entry in the index.
func (s *sweeper) removePack(p *pack) error {
	s.store.index.writeMu.Lock()
	defer s.store.index.writeMu.Unlock()

	if err := s.store.packs.remove(p); err != nil {
		return err
	}

	b := s.store.index.db.Batch(s.store.space.checkForIndex)
	b.Delete(packKey(p.id))

	return b.Commit()
}

// A sweepRecord is a record of the pack that is swept.
type sweepRecord struct {
	hash     Hash
	off      int64
	length   int64
	plainLen int64 // bytes before compression
	dead     bool  // removed by this sweep
	free     bool  // free space already
}

// A sweepPlan lists the records of a pack, and counts the dead ones.
type sweepPlan struct {
	p          *pack
	f          vfs.File
	end        int64 // records from this offset on are new
	records    []sweepRecord
	liveBytes  int64            // bytes of live records
	movedBytes int64            // bytes of live records that were moved to another pack
	deadCount  int64            // number of dead records
	wasteBytes int64            // bytes of dead and free records that no hole can free
	movedTo    map[uint32]place // by old slot: the new place of a live record that was moved
	damaged    bool             // the pack has damaged bytes, which a sweep does not change
	wipe       bool             // free space is overwritten before it is freed
}

// A deadRun is a range [start, end) of neighbouring dead and free records, and the range [holeStart,
// holeEnd) of the whole blocks in it, which a hole can free. At least one record is dead, except in a
// collection that wipes all free space: there all records of a run may be free.
type deadRun struct {
	start, end         int64
	holeStart, holeEnd int64
}

// findDeadRuns returns the runs of neighbouring dead and free records, and sets wasteBytes.
func (w *sweepPlan) findDeadRuns() (list []deadRun) {
	w.wasteBytes = 0
	for i := 0; i < len(w.records); {
		r, hasDead := deadRun{start: w.records[i].off, end: w.records[i].off}, false
		for ; i < len(w.records) && (w.records[i].dead || w.records[i].free) && w.records[i].off == r.end; i++ {
			hasDead = hasDead || w.records[i].dead
			r.end += w.records[i].length
		}

		if r.start == r.end {
			i++ // a live record
			continue
		}

		r.holeStart = (r.start + headerSize + punchBlockSize - 1) / punchBlockSize * punchBlockSize
		r.holeEnd = max(r.end/punchBlockSize*punchBlockSize, r.holeStart)
		w.wasteBytes += r.end - r.start - (r.holeEnd - r.holeStart)
		if hasDead || w.wipe {
			list = append(list, r)
		}
	}

	return list
}

// worthMoving reports whether the live records should be moved to another pack: because they are few,
// or because many of the dead bytes lie in pieces that are too small for holes.
func (w *sweepPlan) worthMoving(packSize int64) bool {
	return w.liveBytes <= w.end/4 || w.wasteBytes >= packSize/128 && w.wasteBytes >= w.liveBytes/12
}
