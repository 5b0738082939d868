package cas

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/amberfs/amberfs/internal/vfs"
)

const punchBlock = 4096 // bytes; holes are made of whole blocks

// sweepPack removes the dead records below limit. The order makes it safe to be
// interrupted anywhere: first the dead leave the index, then they become free records,
// then their space goes.
func (s *sweeper) sweepPack(ctx context.Context, p *pack, limit int64) error {
	f, err := s.packs.use(p)
	if err != nil {
		return err
	}
	defer s.packs.done(p)
	before, err := s.fs.Stat(p.path)
	if err != nil {
		return err
	}
	w := &sweepPlan{p: p, f: f, limit: limit}
	s.index.mu.Lock()
	p.garbage, p.sweeping = false, true
	s.index.mu.Unlock()
	if err := s.survey(ctx, w); err != nil {
		return err
	}
	if err := s.decide(w); err != nil {
		return err
	}
	w.runs()
	s.res.Removed += w.dead
	removed, err := s.empty(ctx, w)
	if err != nil {
		return err
	}
	if removed {
		s.res.FreedBytes += max(before.Allocated-w.moved, 0)
		return nil
	}
	if err := s.free(w); err != nil {
		return err
	}
	s.index.mu.Lock()
	p.sweeping, p.dirty = false, true
	s.index.mu.Unlock()
	after, err := s.fs.Stat(p.path)
	if err != nil {
		return err
	}
	s.res.FreedBytes += max(before.Allocated-after.Allocated, 0)
	return nil
}

// survey lists the records.
func (s *sweeper) survey(ctx context.Context, w *sweepPlan) error {
	sc := &scan{r: w.f, id: w.p.id, from: packHeaderSize, to: w.limit}
	return sc.run(ctx, func(it *item) error {
		r := swept{hash: it.hash, off: it.off, length: it.length, plain: int64(it.plain), free: it.kind == kindFree}
		if it.bad != "" {
			w.damaged = true
			if it.lost {
				return nil
			}
		}
		w.records = append(w.records, r)
		return nil
	})
}

// decide separates the dead from the living, and takes the dead out of the index,
// durably. No Put runs meanwhile; those that come later do not find the dead any more.
func (s *sweeper) decide(w *sweepPlan) error {
	s.gc.gate.Lock()
	defer s.gc.gate.Unlock()
	s.index.writing.Lock()
	defer s.index.writing.Unlock()
	info, err := s.index.storedPack(w.p.id)
	if err != nil {
		return err
	}
	b := s.index.db.Batch(s.space.forIndex)
	defer b.Discard()
	// What the figures have beyond the objects that the index has here: a kill within an
	// earlier decide leaves that.
	excess := s.c.infos[w.p.id]
	var gone []loc
	for i := range w.records {
		r := &w.records[i]
		if r.free {
			continue
		}
		if s.c.kept(place{w.p.id, r.off}) { // the index has it here
			excess.subtract(packInfo{objects: 1, plain: r.plain, stored: r.length})
			w.live += r.length
			continue
		}
		l, ok, err := s.index.stored(r.hash)
		if err != nil {
			return err
		}
		here := ok && l.pack == w.p.id && l.off == r.off // else it is a second copy
		if here {
			excess.remove(l)
		}
		r.dead = true
		w.dead++
		if here {
			b.Delete(objectKey(r.hash))
			info.remove(l)
			gone = append(gone, l)
		}
	}
	if w.damaged { // there may be objects that were not seen
		excess = packInfo{}
	}
	if w.dead == 0 && excess.objects == 0 {
		return nil
	}
	info.subtract(excess)
	info.state = packSweeping
	b.Put(packKey(w.p.id), info.encode())
	if err := b.Commit(); err != nil {
		return err
	}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	for _, l := range gone {
		w.p.info.remove(l)
	}
	w.p.info.subtract(excess)
	for h := range s.index.bad {
		if l := s.index.bad[h]; l.pack == w.p.id && !s.c.kept(l.place()) && l.off < w.limit {
			s.index.unmark(h)
		}
	}
	return nil
}

// empty removes the pack if that is worth it, after moving what lives in it to
// the newest pack.
func (s *sweeper) empty(ctx context.Context, w *sweepPlan) (removed bool, err error) {
	if w.damaged || !w.worthMoving(s.o.PackSize) || !s.retire(w) {
		return false, nil
	}
	if w.live > 0 {
		if err := s.move(ctx, w); err != nil {
			if errors.Is(err, ErrNoSpace) || errors.Is(err, ErrDamaged) {
				return false, nil // punching needs no space
			}
			return false, err
		}
	}
	return true, s.removePack(w.p)
}

// retire makes sure that nothing is appended to the pack any more. It refuses a
// pack that has got new records meanwhile: the next gc can have it.
func (s *sweeper) retire(w *sweepPlan) bool {
	s.packs.tail.mu.Lock()
	defer s.packs.tail.mu.Unlock()
	if s.packs.tail.pack == w.p {
		s.packs.leave(w.p)
		s.packs.tail.pack = nil
	}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	if w.p.end > w.limit {
		w.p.garbage = true
		return false
	}
	return true
}

// move copies the living records to the newest pack and enters them into the index.
func (s *sweeper) move(ctx context.Context, w *sweepPlan) error {
	if err := s.space.forIndex(w.live); err != nil {
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
		h, err := decodeHeader(buf, w.p.id, r.off)
		if err != nil || crc32.Checksum(buf[headerSize:], crcTable) != h.crc {
			return fmt.Errorf("object %s: %w", r.hash, ErrDamaged)
		}
		from := h.loc(w.p.id, r.off)
		if err = s.appendObject(&h, buf, &from, nil); err != nil {
			return err
		}
		w.moved += h.size()
	}
	return s.index.flush()
}

// free turns runs of dead records into free ones and gives their blocks back.
func (s *sweeper) free(w *sweepPlan) error {
	runs := w.runs()
	for _, r := range runs {
		if err := writeFree(w.f, w.p.id, r.from, r.to-r.from); err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return nil
	}
	// A hole with an old header before it would look like damage.
	if err := w.f.Sync(); err != nil {
		return s.failed.set(fmt.Errorf("sync pack %s: %w", w.p.name(), err))
	}
	for _, r := range runs {
		if r.holeTo == r.holeFrom {
			continue
		}
		err := w.f.Punch(r.holeFrom, r.holeTo-r.holeFrom)
		if errors.Is(err, vfs.ErrNotSupported) {
			return nil // the space comes back when the pack is mostly dead
		}
		if err != nil {
			return fmt.Errorf("punch hole: %w", err)
		}
	}
	return nil
}

// removePack deletes a pack of which the index names no object any more.
func (s *sweeper) removePack(p *pack) error {
	s.index.writing.Lock()
	defer s.index.writing.Unlock()
	if err := s.packs.remove(p); err != nil {
		return err
	}
	b := s.index.db.Batch(s.space.forIndex)
	b.Delete(packKey(p.id))
	return b.Commit()
}

// A swept record is what gc knows of one during the sweep of its pack.
type swept struct {
	hash   Hash
	off    int64
	length int64
	plain  int64 // bytes before compression
	dead   bool  // goes now
	free   bool  // went earlier
}

// A sweepPlan is the content of a pack, sorted into what stays and what goes.
type sweepPlan struct {
	p       *pack
	f       vfs.File
	limit   int64
	records []swept
	live    int64 // bytes of records that stay
	moved   int64 // bytes that they take elsewhere
	dead    int64 // number of records that go
	waste   int64 // bytes between the living that no hole can give back
	damaged bool  // holds bytes that no one understands: they stay as they are
}

// A run is a range of dead and free records, at least one of them dead, and the
// whole blocks within, which a hole can give back.
type run struct {
	from, to         int64
	holeFrom, holeTo int64
}

// runs joins the dead and free records, and adds up what is lost between holes.
func (w *sweepPlan) runs() (list []run) {
	w.waste = 0
	for i := 0; i < len(w.records); {
		r, fresh := run{from: w.records[i].off, to: w.records[i].off}, false
		for ; i < len(w.records) && (w.records[i].dead || w.records[i].free) && w.records[i].off == r.to; i++ {
			fresh = fresh || w.records[i].dead
			r.to += w.records[i].length
		}
		if r.from == r.to {
			i++
			continue
		}
		r.holeFrom = (r.from + headerSize + punchBlock - 1) / punchBlock * punchBlock
		r.holeTo = max(r.to/punchBlock*punchBlock, r.holeFrom)
		w.waste += r.to - r.from - (r.holeTo - r.holeFrom)
		if fresh {
			list = append(list, r)
		}
	}
	return list
}

// worthMoving reports whether the living should move to another pack: there are
// few of them, or what lies between is in pieces too small for holes.
func (w *sweepPlan) worthMoving(packSize int64) bool {
	return w.live <= w.limit/4 || w.waste >= packSize/128 && w.waste >= w.live/12
}
