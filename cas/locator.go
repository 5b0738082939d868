package cas

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
)

// A locator knows where each object lies: what was put lately from memory, the rest from
// the index.
type locator struct {
	packs       *packSet
	space       *space
	log         *slog.Logger
	readOnly    bool
	collections func() uint64 // by the manifest

	db *index.DB

	writing sync.Mutex // held while the database is written

	mu       sync.Mutex    // guards what follows, and the figures of all packs
	fresh    overlay       // not in the database yet
	flushing overlay       // being written to it, or empty
	bad      map[Hash]loc  // marks, see marks.go
	unsaved  map[Hash]bool // objects whose mark was changed since it was written
}

// An overlay is what the database does not hold yet.
type overlay struct {
	objects map[Hash]loc
	bytes   int64 // of packs that they occupy
}

func newOverlay() overlay { return overlay{objects: map[Hash]loc{}} }

func newLocator() *locator {
	return &locator{fresh: newOverlay(), bad: map[Hash]loc{}, unsaved: map[Hash]bool{}}
}

// reset forgets what is in memory.
func (x *locator) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh, x.flushing = newOverlay(), overlay{}
}

// inMemory looks an object up among those that the database does not hold yet. mu is
// held.
func (x *locator) inMemory(h Hash) (loc, bool) {
	l, ok := x.fresh.objects[h]
	if !ok {
		l, ok = x.flushing.objects[h]
	}
	return l, ok
}

// locate finds an object wherever it is known. mu is held.
func (x *locator) locate(h Hash) (loc, bool, error) {
	if l, ok := x.inMemory(h); ok {
		return l, true, nil
	}
	return x.stored(h)
}

// find is locate for callers that do not hold mu; it does not hold it either while it
// reads the database.
func (x *locator) find(h Hash) (loc, bool, error) {
	x.mu.Lock()
	l, ok := x.inMemory(h)
	x.mu.Unlock()
	if ok {
		return l, true, nil
	}
	return x.stored(h)
}

// unwritten is a copy of what the database does not hold yet.
func (x *locator) unwritten() map[Hash]loc {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := map[Hash]loc{}
	maps.Copy(all, x.flushing.objects)
	maps.Copy(all, x.fresh.objects)
	return all
}

// enter makes an object known. mu is held.
func (x *locator) enter(hash Hash, l loc) {
	x.fresh.objects[hash] = l
	x.fresh.bytes += l.size()
	if p := x.packs.get(l.pack); p != nil {
		p.info.add(l)
		p.dirty = true
	}
}

// uncount takes an object that moves or vanishes out of its pack's figures.
// mu is held.
func (x *locator) uncount(l loc) {
	if p := x.packs.get(l.pack); p != nil {
		p.info.remove(l)
		p.dirty, p.garbage = true, true
	}
}

// overfull reports whether the overlay is so large that it should be written to the database.
func (x *locator) overfull() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.fresh.objects) >= flushObjects || x.fresh.bytes >= flushBytes
}

// flushFull flushes if that is due. If the disk is too full for the database, that is not an error
// while the overlay in memory is below its limit.
func (x *locator) flushFull() error {
	if !x.overfull() {
		return nil
	}
	x.writing.Lock()
	defer x.writing.Unlock()
	if !x.overfull() {
		return nil // another goroutine did it
	}
	err := x.flushLocked()
	if errors.Is(err, ErrNoSpace) && len(x.unwritten()) < maxUnflushed {
		return nil
	}
	return err
}

// flush writes what the database does not hold yet, after making the packs that it
// refers to durable.
func (x *locator) flush() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.flushLocked()
}

func (x *locator) flushLocked() error {
	if x.readOnly {
		return nil
	}
	if err := x.saveMarksLocked(); err != nil {
		return fmt.Errorf("write index: %w", errs.Full(err))
	}
	over, infos, dirty := x.beginFlush()
	if len(over.objects) == 0 && len(infos) == 0 {
		x.endFlush(overlay{}, nil)
		return nil
	}
	x.space.refill()
	err := guard.Do(func() error { // after a panic, too, the overlay must stay
		if err := x.packs.sync(); err != nil {
			return err
		}
		return x.write(over, infos)
	})
	if err != nil {
		x.endFlush(over, dirty)
		return fmt.Errorf("write index: %w", errs.Full(err))
	}
	x.endFlush(overlay{}, nil)
	x.mergeLocked(false)
	return nil
}

// merge compacts the index to few tables.
func (x *locator) merge() {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mergeLocked(true)
}

// mergeLocked needs room for the index once more. Without it, lookups take longer.
func (x *locator) mergeLocked(all bool) {
	err := x.db.Flush(all, func(bytes int64) error { return x.space.check(bytes, headroom) })
	if err != nil {
		x.log.Warn("cannot merge the tables of the index", "err", err)
	}
}

// beginFlush takes the fresh overlay, and the pack figures as of that instant:
// every record before a pack's end is in the overlay or in the database.
func (x *locator) beginFlush() (overlay, map[uint64]packInfo, []*pack) {
	packs := x.packs.all()
	x.mu.Lock()
	defer x.mu.Unlock()
	over := x.fresh
	x.flushing, x.fresh = over, newOverlay()
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

// endFlush drops the overlay that was written to the database or, if that failed, merges it into
// the fresh one.
func (x *locator) endFlush(back overlay, dirty []*pack) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flushing = overlay{}
	for _, p := range dirty {
		p.dirty = true
	}
	if back.objects == nil {
		return
	}
	maps.Copy(back.objects, x.fresh.objects)
	back.bytes += x.fresh.bytes
	x.fresh = back
}

func (x *locator) write(over overlay, infos map[uint64]packInfo) error {
	b := x.db.Batch(x.space.forIndex)
	b.Put([]byte{keyHead}, indexHead(x.collections()))
	for h, l := range over.objects {
		b.Put(objectKey(h), encodeLoc(l))
	}
	// Last, so that a batch cut into several transactions claims to cover a
	// pack only once it does.
	for id, i := range infos {
		b.Put(packKey(id), i.encode())
	}
	return b.Commit()
}

// Headroom is the number of bytes of disk that must stay free for commits, the index,
// recovery and gc. Other programs should not use it.
const Headroom = headroom

// Stats returns the store's figures. They are kept in memory and cost next to
// nothing. After Close they are those of the end.
func (s *Store) Stats() Stats {
	packs := s.packs.all()
	st := Stats{Packs: len(packs)}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	for _, p := range packs {
		st.Objects += p.info.objects
		st.Bytes += p.info.plain
		st.Stored += p.info.stored
	}
	return st
}

// Sizes calls fn with every object and the bytes of packs that it
// occupies. It reads the whole index.
func (s *Store) Sizes(fn func(h Hash, bytes int64)) error {
	if err := s.begin(false); err != nil {
		return err
	}
	defer s.life.RUnlock()
	fresh := s.index.unwritten()
	for h, l := range fresh {
		fn(h, l.size())
	}
	err := s.index.storedObjects(func(h Hash, l loc) {
		if _, ok := fresh[h]; !ok {
			fn(h, l.size())
		}
	})
	if err != nil {
		return fmt.Errorf("read the sizes of objects: %w", err)
	}
	return nil
}
