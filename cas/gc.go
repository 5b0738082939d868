package cas

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/internal/guard"
)

// A gcState contains the locks of collections and the running collection.
type gcState struct {
	collectionLock *semaphore.Weighted // one Collection at a time, from BeginCollection to Close
	runLock        *semaphore.Weighted // one sweep or verification at a time
	waiters        atomic.Int32        // number of callers that wait for collectionLock or runLock
	gate           sync.RWMutex        // held shared by each Put and Has, exclusively by gc in dropDeadRecords
	keepSet        *keepSet            // guarded by gate; nil when there is no Collection
}

// acquire takes collectionLock or runLock. It fails when ctx ends.
func (g *gcState) acquire(ctx context.Context, lock *semaphore.Weighted) error {
	g.waiters.Add(1)
	defer g.waiters.Add(-1)
	return lock.Acquire(ctx, 1)
}

// A keepSet has the records that the running collection must not remove.
type keepSet struct {
	packEnds  map[uint64]int64    // ends of the packs when the collection began; later records are new
	packInfos map[uint64]packInfo // numbers of objects and bytes in the packs when the collection began

	mu     sync.Mutex
	places placeSet // places of the records that a Marker has named, or that a Put or Has has found
}

// keepMarked keeps a record that Marker.Mark or Marker.MarkLeaf names. It reports whether this is the first such
// call for the record.
func (c *keepSet) keepMarked(l loc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.places.setMarked(l.place())
}

// keepFound keeps a record that a Put or Has found.
func (c *keepSet) keepFound(l loc) {
	if l.off >= c.packEnds[l.pack] {
		return // new records are kept anyway
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places.setFound(l.place())
}

// keepSlots keeps records that an earlier collection marked.
func (c *keepSet) keepSlots(pack uint64, slots []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.places[pack] == nil {
		c.places[pack] = make(map[uint32]placeBits, len(slots)/2)
	}
	for _, slot := range slots {
		c.places.setMarked(place{pack, int64(slot) * recordAlign})
	}
}

// isKept reports whether a Marker, a Put or a Has kept the record at a place. It returns false for new
// records, which are not in the set.
func (c *keepSet) isKept(p place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.places.has(p)
}

// countKept returns the number of records kept in a pack.
func (c *keepSet) countKept(id uint64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.places.count(id)
}

// A placeSet is an exact set of places of records: pack id → slot/8 → bits of eight slots. Each
// placeBits entry takes some 15 bytes of memory. A Bloom filter would be smaller. But after a false
// positive, the mark function would not visit the objects that an object refers to, and they would be removed.
type placeSet map[uint64]map[uint32]placeBits

// A placeBits has two bits for each of eight slots.
type placeBits struct {
	marked uint8 // named by a Marker
	found  uint8 // found by a Put or Has; the mark function must still visit the objects below the object
}

// setMarked sets the marked bit of a place. It reports whether the bit was not set before.
func (s placeSet) setMarked(p place) bool {
	e, bit := s[p.pack][p.slot()/8], uint8(1)<<(p.slot()%8)
	if e.marked&bit != 0 {
		return false
	}

	e.marked |= bit
	s.set(p, e)

	return true
}

// setFound sets the found bit of a place.
func (s placeSet) setFound(p place) {
	e := s[p.pack][p.slot()/8]
	e.found |= 1 << (p.slot() % 8)
	s.set(p, e)
}

func (s placeSet) set(p place, e placeBits) {
	if s[p.pack] == nil {
		s[p.pack] = map[uint32]placeBits{}
	}
	s[p.pack][p.slot()/8] = e
}

func (s placeSet) has(p place) bool {
	e := s[p.pack][p.slot()/8]
	return (e.marked|e.found)>>(p.slot()%8)&1 != 0
}

// count returns the number of places in a pack.
func (s placeSet) count(pack uint64) (n int64) {
	for _, e := range s[pack] {
		n += int64(bits.OnesCount8(e.marked | e.found))
	}
	return n
}

// slot returns the offset in the pack in units of recordAlign. All records begin at whole units.
func (p place) slot() uint32 { return uint32(p.off / recordAlign) }

// A Collection is a gc that has begun: from BeginCollection until Close, all objects that a Put or Has
// finds or adds are kept. There is one Collection at a time.
type Collection struct {
	// Wipe makes Collect overwrite the removed objects on the disk before it frees their space.
	Wipe bool
	// Yield, which may be nil, is called after each small piece of Collect's work, without a lock
	// held. It may take long. It is not called while another collection or a verification waits for
	// this collection.
	Yield func()

	s       *Store
	keepSet *keepSet
}

// BeginCollection waits for the end of another collection, and then begins a collection: from then on the
// objects that a Put or Has finds or adds are kept. It calls prepare, which may be nil and may take long. Last,
// it waits for the end of a verification. A verification may begin while prepare runs. A verification that
// begins after BeginCollection has returned waits for Close.
//
// Errors: the error of prepare or of the context, errs.ReadOnly or errs.Closed.
func (s *Store) BeginCollection(ctx context.Context, prepare func(ctx context.Context) error) (*Collection, error) {
	if err := s.beginCall(true); err != nil {
		return nil, err
	}

	r := &Collection{s: s}

	if err := s.gc.acquire(ctx, s.gc.collectionLock); err != nil {
		s.lifeMu.RUnlock()
		return nil, fmt.Errorf("gc: %w", err)
	}

	if s.index.placesChanged.Load() {
		if err := s.index.dropGenerations(); err != nil {
			s.gc.collectionLock.Release(1)
			s.lifeMu.RUnlock()
			return nil, fmt.Errorf("gc: %w", err)
		}
		s.index.placesChanged.Store(false)
	}

	r.keepSet = s.startKeepSet()

	if prepare != nil {
		if err := guard.Do(func() error { return prepare(ctx) }); err != nil {
			r.stop()
			return nil, fmt.Errorf("gc: %w", err)
		}
	}

	if err := s.gc.acquire(ctx, s.gc.runLock); err != nil {
		r.stop()
		return nil, fmt.Errorf("gc: %w", err)
	}

	return r, nil
}

// Close ends the collection. The caller calls it once.
func (r *Collection) Close() {
	r.s.gc.runLock.Release(1)
	r.stop()
}

// stop ends the collection: objects that a Put or Has finds are not kept any more. It releases the locks of the
// collection, except gcState.runLock.
func (r *Collection) stop() {
	r.s.gc.gate.Lock()
	r.s.gc.keepSet = nil
	r.s.gc.gate.Unlock()
	r.s.gc.collectionLock.Release(1)
	r.s.lifeMu.RUnlock()
}

// Collect removes every object that is neither kept nor new. The caller calls it once.
//
// The function mark passes all objects that must stay to a Marker. It may call the store, but not
// BeginCollection and Verify. It must also pass each object whose hash a caller got from Put before the
// collection began, and still uses. With allowMissing, mark may pass objects that the store does not have.
//
// The bytes of the removed objects are overwritten, and their space is punched out of the packs. Packs
// with few live objects are emptied and removed.
//
// Collect works with a full disk. If it is interrupted at any point, also by a kill, no kept object
// is lost, and the next collection removes the remaining dead objects. progress may be nil; it is
// called with numbers of bytes of packs.
//
// Errors: the error of mark or of the context, ErrNoSpace if even the reserve is used up, or an
// error of the disk.
func (r *Collection) Collect(ctx context.Context, allowMissing bool, mark func(*Marker) error,
	progress func(done, total int64)) (GCResult, error) {
	s := &sweeper{Collection: r, store: r.s, keepSet: r.keepSet, wipe: r.Wipe}
	if err := s.collect(ctx, allowMissing, mark, progress); err != nil {
		return s.res, fmt.Errorf("gc: %w", err)
	}
	return s.res, nil
}

// A sweeper removes the objects that are not in a keepSet.
type sweeper struct {
	*Collection
	store   *Store
	keepSet *keepSet
	wipe    bool // see Collection.Wipe
	res     GCResult

	marker            *Marker
	collectionCounted bool // countCollection was called
}

func (s *sweeper) yield() {
	if s.Yield != nil && s.store.gc.waiters.Load() == 0 {
		s.Yield()
	}
}

// objects returns the number of objects that the store had when the collection began.
func (s *sweeper) objects() (n int64) {
	for _, i := range s.keepSet.packInfos {
		n += i.objects
	}
	return n
}

func (s *sweeper) collect(ctx context.Context, allowMissing bool, mark func(*Marker) error,
	progress func(done, total int64)) error {
	defer s.store.space.beginGC()()

	if err := s.store.failure.err(); err != nil {
		return err
	}

	if allowMissing {
		// A damaged index may lack objects that are in use, and the collection would remove these.
		// Without allowMissing, Mark fails for such an object. With allowMissing it does not, so the
		// index is checked here.
		if err := s.store.index.db.Check(); err != nil {
			return err
		}
	}

	marker := &Marker{sweeper: s, allowMissing: allowMissing}
	s.marker = marker
	if err := mark(s.marker); err != nil {
		return err
	}

	marker.keepLeaves()
	if marker.err != nil {
		return marker.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	// sweep looks objects up in the database. After this flush, the database lacks only new
	// objects, which sweep keeps.
	if err := s.store.index.flush(); err != nil {
		return err
	}
	if err := s.sweep(ctx, progress); err != nil {
		return err
	}
	if err := s.store.index.flush(); err != nil {
		return err
	}

	// An error here does not make Collect fail: without the generations, only the next collection takes longer.
	if err := marker.saveGenerations(s.collectionCounted); err != nil {
		s.store.log.Warn("cannot save what gc has marked", "err", err)
	}
	if s.collectionCounted || marker.changed {
		s.store.index.compact()
	}

	return nil
}

// startKeepSet sets gcState.keepSet to a set with the present ends of the packs. It takes gcState.gate to wait
// for running Puts. Such a Put may have found its object before the set existed. Then only mark can keep the
// object, and mark can find a reference to it only after the Put has returned.
func (s *Store) startKeepSet() *keepSet {
	c := &keepSet{packEnds: map[uint64]int64{}, packInfos: map[uint64]packInfo{}, places: placeSet{}}
	s.gc.gate.Lock()
	defer s.gc.gate.Unlock()

	packs := s.packs.all()
	s.index.mu.Lock()
	defer s.index.mu.Unlock()

	for _, p := range packs {
		c.packEnds[p.id] = p.end
		c.packInfos[p.id] = p.info
	}

	s.gc.keepSet = c

	return c
}

// sweep removes the dead objects of all packs that have any.
func (s *sweeper) sweep(ctx context.Context, progress func(done, total int64)) error {
	// The newest pack is swept first: it can only be emptied before live records of other packs are
	// moved into it.
	packs := s.store.packs.all()
	slices.Reverse(packs)
	var done, total int64
	for _, p := range packs {
		total += s.keepSet.packEnds[p.id]
	}

	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return err
		}

		end, old := s.keepSet.packEnds[p.id]
		s.store.index.mu.Lock()
		clean := !p.hasGarbage && !p.sweeping && s.keepSet.countKept(p.id) == s.keepSet.packInfos[p.id].objects
		s.store.index.mu.Unlock()

		if old && !clean {
			if !s.collectionCounted {
				if err := s.countCollection(); err != nil {
					return err
				}
				s.collectionCounted = true
			}

			if err := s.sweepPack(ctx, p, end); err != nil {
				return fmt.Errorf("sweep pack %s: %w", p.name(), err)
			}
		}

		done += end
		if progress != nil {
			progress(done, total)
		}
	}

	return nil
}

// countCollection increments the number of collections in the index, then in the manifest. An older
// copy of the index, for example from a backup, has places of removed objects; Open detects it by
// its smaller number. The index comes first, so that a kill between the two writes does not make
// a good index look old.
func (s *sweeper) countCollection() error {
	n := collectionCount(s.store.manifest) + 1
	s.store.index.writeMu.Lock() // so that no flush overwrites the new number before the manifest has it, too
	defer s.store.index.writeMu.Unlock()

	b := s.store.index.db.Batch(s.store.space.checkForIndex)
	b.Put([]byte{keyHead}, indexHead(n))
	if err := b.Commit(); err != nil {
		return err
	}

	return s.store.commit([]MetaOp{collectionCountOp(n)})
}

// collectionCountOp returns the change of the manifest that sets the number of collections.
func collectionCountOp(n uint64) MetaOp {
	return MetaOp{Key: keyCollections, Value: binary.LittleEndian.AppendUint64(nil, n)}
}
