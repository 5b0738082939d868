package cas

import (
	"errors"
	"fmt"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
)

// An appender writes records at the end of the newest pack of objects. One
// write at a time: what is on disk before the end is whole, except after a
// power cut.
type appender struct {
	mu              sync.Mutex
	pack            *pack // nil until there is something to write
	bytesSinceCheck int64 // of the free space
	mustCheckSpace  bool  // the last check found too little
}

// appendObject writes a built record and enters it into the fresh overlay, so
// that it can be found from now on. With only set, it does nothing unless the
// object is still at that place (gc moves objects). The record at instead, if there is one, cannot
// be used.
func (s *Store) appendObject(h *header, rec []byte, only, instead *loc) error {
	a := &s.packs.tail
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := s.failed.err(); err != nil {
		return err
	}
	if only == nil {
		if err := s.packs.room(int64(len(rec))); err != nil {
			return err
		}
	}
	if err := s.packs.rotate(int64(len(rec))); err != nil {
		return err
	}
	p := a.pack
	off := p.end
	h.encode(rec, p.id, off)
	if err := s.packs.write(p, rec, off); err != nil {
		return err
	}
	l := h.loc(p.id, off)
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	p.end += int64(len(rec))
	if only != nil {
		now, ok, err := s.index.locate(h.hash)
		if err != nil || !ok || !now.same(*only) {
			p.garbage = true // the record stays behind unused
			return err
		}
		s.index.uncount(now)
	}
	if instead != nil {
		s.index.uncount(*instead)
		s.index.unmark(h.hash)
	}
	s.index.enter(h.hash, l)
	return nil
}

// room checks the free space once per appendInterval bytes. The appender is locked.
func (ps *packSet) room(n int64) error {
	a := &ps.tail
	a.bytesSinceCheck += n
	if a.bytesSinceCheck < appendInterval && a.pack != nil && !a.mustCheckSpace {
		return nil
	}
	if err := ps.space.forObjects(n); err != nil {
		a.mustCheckSpace = true
		return err
	}
	a.bytesSinceCheck, a.mustCheckSpace = 0, false
	return nil
}

// rotate begins a new pack if the current one has no room for n bytes more. The appender is
// locked.
func (ps *packSet) rotate(n int64) error {
	a := &ps.tail
	if a.pack != nil && a.pack.end+n <= max(ps.packSize, packHeaderSize+n) {
		return nil
	}
	p, err := ps.create()
	if err != nil {
		return errs.Full(err)
	}
	ps.leave(a.pack)
	a.pack = p
	return nil
}

// write writes a record at the end of a pack. If that fails, the pack is
// as it was.
func (ps *packSet) write(p *pack, rec []byte, off int64) error {
	f, err := ps.use(p)
	if err != nil {
		return err
	}
	defer ps.done(p)
	if _, err := f.WriteAt(rec, off); err != nil {
		err = fmt.Errorf("append to pack %s: %w", p.name(), errs.Full(err))
		if terr := f.Truncate(off); terr != nil {
			// Half a record would stay in the middle of the pack.
			return ps.failed.set(errors.Join(err, terr))
		}
		return err
	}
	return nil
}

// sync makes every object durable that was put before the call. It needs
// no lock.
func (ps *packSet) sync() error {
	if err := ps.failed.err(); err != nil {
		return err
	}
	ends := map[*pack]int64{}
	packs := ps.all()
	ps.figures.Lock()
	for _, p := range packs {
		if p.synced < p.end {
			ends[p] = p.end
		}
	}
	ps.figures.Unlock()
	for p, end := range ends {
		if err := ps.syncPack(p, end); err != nil {
			return err
		}
	}
	return nil
}

func (ps *packSet) syncPack(p *pack, end int64) error {
	f, err := ps.use(p)
	if err == nil {
		defer ps.done(p)
		if err = f.Sync(); err != nil {
			err = fmt.Errorf("sync pack %s: %w", p.name(), errs.Full(err))
		}
	}
	switch {
	case err != nil && ps.get(p.id) == nil:
		return nil // gc has removed it since, after its live objects were durable elsewhere
	case err != nil && f != nil:
		return ps.failed.set(err)
	case err != nil:
		return err
	}
	ps.figures.Lock()
	p.synced = max(p.synced, end)
	ps.figures.Unlock()
	ps.letGo(p)
	return nil
}
