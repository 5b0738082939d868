package cas

import (
	"errors"
	"fmt"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
)

// An appender writes records at the end of the newest pack, one at a time. If the process is killed, only the last
// record of a pack can be incomplete. After a power cut, earlier ones can be, too.
type appender struct {
	mu              sync.Mutex
	pack            *pack // the newest pack, nil until the first write
	bytesSinceCheck int64 // bytes appended since the last check of the free space
	mustCheckSpace  bool  // the next append checks the free space, because the last check failed or there was no check yet
}

// appendObject appends a built record to the newest pack and adds its place to the index.
//
// If movedFrom is not nil, gc moves the object from this place: the index is changed only if the object is
// still there. If damaged is not nil, it is the place of a damaged record, which the new record replaces.
func (s *Store) appendObject(h *header, rec []byte, movedFrom, damaged *loc) error {
	a := &s.packs.tail
	a.mu.Lock()
	defer a.mu.Unlock()

	if err := s.failure.err(); err != nil {
		return err
	}

	if movedFrom == nil {
		if err := s.packs.checkRoom(int64(len(rec))); err != nil {
			return err
		}
	}

	if err := s.packs.rotate(int64(len(rec))); err != nil {
		return err
	}

	p := a.pack
	off := p.end
	h.encode(rec, p.id, off)
	if err := s.packs.writeRecord(p, rec, off); err != nil {
		return err
	}

	l := h.loc(p.id, off)
	s.index.mu.Lock()
	defer s.index.mu.Unlock()

	p.end += int64(len(rec))
	if movedFrom != nil {
		now, ok, err := s.index.findLocked(h.hash)
		if err != nil || !ok || !now.samePlace(*movedFrom) {
			p.hasGarbage = true // the index does not refer to the appended record
			return err
		}

		s.index.markAsGarbage(now)
	}

	if damaged != nil {
		s.index.markAsGarbage(*damaged)
		s.index.unmarkDamaged(h.hash)
		s.index.placesChanged.Store(true)
	}

	s.index.add(h.hash, l)

	return nil
}

// checkRoom returns ErrNoSpace if the disk has too little room for n more bytes. It reads the free
// space of the disk once per appendInterval bytes. The caller holds appender.mu.
func (ps *packSet) checkRoom(n int64) error {
	a := &ps.tail
	a.bytesSinceCheck += n
	if a.bytesSinceCheck < appendInterval && a.pack != nil && !a.mustCheckSpace {
		return nil
	}

	if err := ps.space.checkForObjects(n); err != nil {
		a.mustCheckSpace = true
		return err
	}

	a.bytesSinceCheck, a.mustCheckSpace = 0, false

	return nil
}

// rotate begins a new pack if the current one has no room for n more bytes. A pack without records has room
// for one record of any size. The caller holds appender.mu.
func (ps *packSet) rotate(n int64) error {
	a := &ps.tail
	if a.pack != nil && a.pack.end+n <= max(ps.packSize, packHeaderSize+n) {
		return nil
	}

	p, err := ps.create()
	if err != nil {
		return errs.WrapNoSpace(err)
	}

	ps.markFull(a.pack)
	a.pack = p

	return nil
}

// writeRecord writes a record at the end of a pack. After an error the pack is unchanged.
func (ps *packSet) writeRecord(p *pack, rec []byte, off int64) error {
	f, err := ps.acquireFile(p)
	if err != nil {
		return err
	}
	defer ps.releaseFile(p)

	if _, err := f.WriteAt(rec, off); err != nil {
		err = fmt.Errorf("append to pack %s: %w", p.name(), errs.WrapNoSpace(err))
		if terr := f.Truncate(off); terr != nil {
			// The incomplete record could not be cut off, and a record after it could not be read:
			// all later writes fail.
			return ps.failure.set(errors.Join(err, terr))
		}

		return err
	}

	return nil
}

// sync makes all objects durable that were put before the call. The caller need not hold a lock.
func (ps *packSet) sync() error {
	if err := ps.failure.err(); err != nil {
		return err
	}

	ends := map[*pack]int64{} // ends of the packs with bytes that are not on disk
	packs := ps.all()
	ps.locatorMu.Lock()

	for _, p := range packs {
		if p.syncedEnd < p.end {
			ends[p] = p.end
		}
	}

	ps.locatorMu.Unlock()

	for p, end := range ends {
		if err := ps.syncPack(p, end); err != nil {
			return err
		}
	}

	return nil
}

// syncPack syncs the bytes of a pack before the offset end. If gc has removed the pack, syncPack
// returns nil: the pack's live objects were durable in other packs before the removal.
func (ps *packSet) syncPack(p *pack, end int64) error {
	f, err := ps.acquireFile(p)
	if err != nil {
		if ps.get(p.id) == nil {
			return nil
		}
		return err
	}
	defer ps.releaseFile(p)

	if err := f.Sync(); err != nil {
		if ps.get(p.id) == nil {
			return nil
		}
		return ps.failure.set(fmt.Errorf("sync pack %s: %w", p.name(), errs.WrapNoSpace(err)))
	}

	ps.locatorMu.Lock()
	p.syncedEnd = max(p.syncedEnd, end)
	ps.locatorMu.Unlock()
	ps.releaseFullIfSynced(p)

	return nil
}
