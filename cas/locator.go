package cas

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
)

// A locator finds the place of each object. Places that were added after the last flush are in memory,
// all others are in the database.
type locator struct {
	packs           *packSet
	space           *space
	log             *slog.Logger
	readOnly        bool
	collectionCount func() uint64 // the number of collections in the manifest

	db *index.DB

	writeMu       sync.Mutex  // held while the database is written
	placesChanged atomic.Bool // since the last collection began, a Put or a recovery has changed the place of an object

	mu             sync.Mutex    // guards the fields below, and most fields of all packs
	newPlaces      overlay       // places that are not in the database yet
	flushingPlaces overlay       // places that a flush is writing to the database
	damageMarks    map[Hash]loc  // damaged objects, see marks.go
	unsavedMarks   map[Hash]bool // objects whose mark in the database is outdated
}

// An overlay contains places that are not in the database yet.
type overlay struct {
	objects map[Hash]loc
	bytes   int64 // bytes of packs that the objects occupy
}

func newOverlay() overlay { return overlay{objects: map[Hash]loc{}} }

func newLocator() *locator {
	return &locator{newPlaces: newOverlay(), damageMarks: map[Hash]loc{}, unsavedMarks: map[Hash]bool{}}
}

// reset drops the places in memory.
func (x *locator) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.newPlaces, x.flushingPlaces = newOverlay(), overlay{}
}

// findInMemory looks an object up in the overlays. The caller holds locator.mu.
func (x *locator) findInMemory(h Hash) (loc, bool) {
	l, ok := x.newPlaces.objects[h]
	if !ok {
		l, ok = x.flushingPlaces.objects[h]
	}
	return l, ok
}

// findLocked looks an object up in memory and in the database. The caller holds locator.mu.
func (x *locator) findLocked(h Hash) (loc, bool, error) {
	if l, ok := x.findInMemory(h); ok {
		return l, true, nil
	}
	return x.findStored(h)
}

// find looks an object up in memory and in the database. It does not hold locator.mu while it reads
// the database.
func (x *locator) find(h Hash) (loc, bool, error) {
	x.mu.Lock()
	l, ok := x.findInMemory(h)
	x.mu.Unlock()
	if ok {
		return l, true, nil
	}

	return x.findStored(h)
}

// unwrittenPlaces returns a copy of the places that are not in the database yet.
func (x *locator) unwrittenPlaces() map[Hash]loc {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := map[Hash]loc{}
	maps.Copy(all, x.flushingPlaces.objects)
	maps.Copy(all, x.newPlaces.objects)
	return all
}

// add adds the place of an object. The caller holds locator.mu.
func (x *locator) add(hash Hash, l loc) {
	x.newPlaces.objects[hash] = l
	x.newPlaces.bytes += l.size()
	if p := x.packs.get(l.pack); p != nil {
		p.info.add(l)
		p.dirty = true
	}
}

// markAsGarbage subtracts a moved or replaced object from the counts of its old pack, and records that the
// pack contains garbage. The caller holds locator.mu.
func (x *locator) markAsGarbage(l loc) {
	if p := x.packs.get(l.pack); p != nil {
		p.info.remove(l)
		p.dirty, p.hasGarbage = true, true
	}
}

// isFlushDue reports whether newPlaces has reached the size at which it is flushed.
func (x *locator) isFlushDue() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.newPlaces.objects) >= flushObjects || x.newPlaces.bytes >= flushBytes
}

// flushIfDue flushes if isFlushDue returns true. It ignores ErrNoSpace while fewer than maxUnflushed places
// are in memory.
func (x *locator) flushIfDue() error {
	if !x.isFlushDue() {
		return nil
	}
	x.writeMu.Lock()
	defer x.writeMu.Unlock()

	if !x.isFlushDue() {
		return nil // another goroutine has flushed
	}

	err := x.flushLocked()
	if errors.Is(err, ErrNoSpace) && len(x.unwrittenPlaces()) < maxUnflushed {
		return nil
	}

	return err
}

// flush syncs the packs, then writes newPlaces and the changed marks to the database.
func (x *locator) flush() error {
	x.writeMu.Lock()
	defer x.writeMu.Unlock()
	return x.flushLocked()
}

// flushLocked does the work of flush. The caller holds locator.writeMu.
func (x *locator) flushLocked() error {
	if x.readOnly {
		return nil
	}
	if err := x.saveMarksLocked(); err != nil {
		return fmt.Errorf("write index: %w", errs.WrapNoSpace(err))
	}

	places, infos, dirty := x.beginFlush()
	if len(places.objects) == 0 && len(infos) == 0 {
		x.endFlush(overlay{}, nil)
		return nil
	}

	x.space.refillReserve()
	err := guard.Do(func() error { // also after a panic the overlay must be put back
		if err := x.packs.sync(); err != nil {
			return err
		}
		return x.writeBatch(places, infos)
	})
	if err != nil {
		x.endFlush(places, dirty)
		return fmt.Errorf("write index: %w", errs.WrapNoSpace(err))
	}

	x.endFlush(overlay{}, nil)
	x.compactLocked(false)

	return nil
}

// compact merges all tables of the index.
func (x *locator) compact() {
	x.writeMu.Lock()
	defer x.writeMu.Unlock()
	x.compactLocked(true)
}

// compactLocked merges the levels of the index that exceed their sizes, or all levels. It needs disk
// space for a second copy of the index. Without this space it does not compact, and look-ups take
// longer. The caller holds locator.writeMu.
func (x *locator) compactLocked(all bool) {
	err := x.db.Compact(all, func(bytes int64) error { return x.space.checkFree(bytes, headroom) })
	if err != nil {
		x.log.Warn("cannot merge the tables of the index", "err", err)
	}
}

// beginFlush moves newPlaces to flushingPlaces. It returns:
//   - these places,
//   - by pack id, the new entries of the packs whose entries in the database are outdated,
//   - these packs.
//
// The places and the entries are read at one instant. So for every record before the indexedEnd of a returned
// entry, the place is in the returned overlay or in the database.
func (x *locator) beginFlush() (overlay, map[uint64]packInfo, []*pack) {
	packs := x.packs.all()
	x.mu.Lock()
	defer x.mu.Unlock()

	places := x.newPlaces
	x.flushingPlaces, x.newPlaces = places, newOverlay()

	infos := map[uint64]packInfo{}
	var dirty []*pack

	for _, p := range packs {
		if !p.dirty {
			continue
		}
		p.dirty = false
		p.info.indexedEnd = max(p.info.indexedEnd, p.end)
		p.info.state = packNormal
		if p.hasGarbage || p.sweeping {
			p.info.state = packSweeping
		}

		infos[p.id] = p.info
		dirty = append(dirty, p)
	}

	return places, infos, dirty
}

// endFlush ends a flush. After a failed flush, unwritten has the places that were not written, and dirty the
// packs whose entries were not written. The next flush writes them, with the newer places.
func (x *locator) endFlush(unwritten overlay, dirty []*pack) {
	x.mu.Lock()
	defer x.mu.Unlock()

	x.flushingPlaces = overlay{}
	for _, p := range dirty {
		p.dirty = true
	}
	if unwritten.objects == nil {
		return
	}

	maps.Copy(unwritten.objects, x.newPlaces.objects)
	unwritten.bytes += x.newPlaces.bytes
	x.newPlaces = unwritten
}

// writeBatch writes places and entries of packs to the database.
func (x *locator) writeBatch(places overlay, infos map[uint64]packInfo) error {
	b := x.db.Batch(x.space.checkForIndex)
	b.Put([]byte{keyHead}, indexHead(x.collectionCount()))
	if x.placesChanged.Load() {
		b.Delete([]byte{keyGenerations}) // deleted first: the batch makes their places outdated, and a kill may lose the rest of the batch
	}
	for h, l := range places.objects {
		b.Put(objectKey(h), encodeLoc(l))
	}
	// The entries of packs come last: a batch may be cut into several transactions, and an entry
	// promises that the database has all records before the offset indexedEnd.
	for id, i := range infos {
		b.Put(packKey(id), i.encode())
	}

	return b.Commit()
}

// Headroom is the number of bytes of disk that Put leaves free for commits, the index, recovery and
// gc. The owner of the disk should leave them free too.
const Headroom = headroom

// Stats returns the numbers of objects and bytes. It reads only memory. After Close it returns the
// last numbers.
func (s *Store) Stats() Stats {
	packs := s.packs.all()
	st := Stats{Packs: len(packs)}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()

	for _, p := range packs {
		st.Objects += p.info.objects
		st.PlainBytes += p.info.plainBytes
		st.StoredBytes += p.info.storedBytes
	}

	return st
}

// EachObjectSize calls fn with every object and the number of bytes of packs that it occupies. It reads the
// whole index.
func (s *Store) EachObjectSize(fn func(h Hash, bytes int64)) error {
	if err := s.beginCall(false); err != nil {
		return err
	}
	defer s.lifeMu.RUnlock()

	unwritten := s.index.unwrittenPlaces()
	for h, l := range unwritten {
		fn(h, l.size())
	}

	err := s.index.eachStoredObject(func(h Hash, l loc) {
		if _, ok := unwritten[h]; !ok {
			fn(h, l.size())
		}
	})
	if err != nil {
		return fmt.Errorf("read the sizes of objects: %w", err)
	}

	return nil
}
