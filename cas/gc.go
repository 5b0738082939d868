package cas

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/internal/guard"
)

// A collection is what the Store has for those under way.
type collection struct {
	recording *semaphore.Weighted // one collection at a time, from when it begins to record
	running   *semaphore.Weighted // one collection or verification at a time
	gate      sync.RWMutex        // held shared by each Put and Has, alone by gc when it decides
	current   *collector          // guarded by gate; nil when no collection is recording
}

// A collector is a collection under way.
type collector struct {
	limits map[uint64]int64    // ends of the packs at the beginning; what lies behind is new
	infos  map[uint64]packInfo // their figures then

	mu   sync.Mutex
	keep locSet // named by mark, or found by a Put or Has
}

// mark adds an object that mark names and reports whether it is the first time.
func (c *collector) mark(l loc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keep.add(l.place())
}

func (c *collector) touch(l loc) {
	if l.off >= c.limits[l.pack] {
		return // it is new
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep.touch(l.place())
}

func (c *collector) kept(p place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keep.has(p)
}

// count is the number of objects kept in a pack.
func (c *collector) count(id uint64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keep.count(id)
}

// A locSet is an exact set of places of records. Records begin at multiples of 64 bytes,
// so a place within a pack is a 32-bit number. Eight of these that follow each other share
// an entry of some 15 bytes. A Bloom filter would be smaller, but "seen before" must not be
// wrong even once: what hangs below an object would stay unmarked.
type locSet map[uint64]map[uint32]eight

// An eight has a bit for each of eight places.
type eight struct {
	marked  uint8
	touched uint8 // only touched, mark still descends there
}

// add reports whether the place was not added before.
func (s locSet) add(p place) bool {
	e, bit := s[p.pack][p.number()/8], uint8(1)<<(p.number()%8)
	if e.marked&bit != 0 {
		return false
	}
	e.marked |= bit
	s.set(p, e)
	return true
}

func (s locSet) touch(p place) {
	e := s[p.pack][p.number()/8]
	e.touched |= 1 << (p.number() % 8)
	s.set(p, e)
}

func (s locSet) set(p place, e eight) {
	if s[p.pack] == nil {
		s[p.pack] = map[uint32]eight{}
	}
	s[p.pack][p.number()/8] = e
}

func (s locSet) has(p place) bool {
	e := s[p.pack][p.number()/8]
	return (e.marked|e.touched)>>(p.number()%8)&1 != 0
}

// count is the number of places in a pack.
func (s locSet) count(pack uint64) (n int64) {
	for _, e := range s[pack] {
		n += int64(bits.OnesCount8(e.marked | e.touched))
	}
	return n
}

func (p place) number() uint32 { return uint32(p.off / recordAlign) }

// A Recording is a collection that is being prepared: what Put and Has
// find or add stays from the moment that Record begins until Close. There is one at
// a time.
type Recording struct {
	s *Store
	c *collector
}

// Record begins a collection. It waits for another one to end, then begins to
// record, calls before, which may be nil and may wait for long, and at last waits
// for a verification. Only then other verifications have to wait for Close.
//
// Errors: that of before, the context's, errs.ReadOnly or errs.Closed.
func (s *Store) Record(ctx context.Context, before func(ctx context.Context) error) (*Recording, error) {
	if err := s.begin(true); err != nil {
		return nil, err
	}
	r := &Recording{s: s}
	err := s.gc.recording.Acquire(ctx, 1)
	if err != nil {
		s.life.RUnlock()
		return nil, fmt.Errorf("gc: %w", err)
	}
	r.c = s.startRecording()
	if before != nil {
		err = guard.Do(func() error { return before(ctx) })
	}
	if err == nil {
		err = s.gc.running.Acquire(ctx, 1)
	}
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("gc: %w", err)
	}
	return r, nil
}

// Close ends the collection.
func (r *Recording) Close() {
	r.s.gc.running.Release(1)
	r.stop()
}

func (r *Recording) stop() {
	r.s.gc.gate.Lock()
	r.s.gc.current = nil
	r.s.gc.gate.Unlock()
	r.s.gc.recording.Release(1)
	r.s.life.RUnlock()
}

// Collect removes every object that is neither kept nor new. It is called once.
//
// mark names all that must stay to a Keeper; incomplete says that objects may be missing. Then
// whatever else was there when the recording began goes: its space is punched out of the packs; packs that
// are mostly dead are emptied and removed.
//
// A hash that a caller got from Put before the recording began must be reachable
// for mark. mark may call the store, but not Record and Verify.
//
// Collect works with a full disk. Interrupted at any point, also by a kill, it loses
// nothing that was kept, and the next one goes on. progress may be nil; it gets
// bytes of packs.
//
// Errors: that of mark, the context's, ErrNoSpace if even the reserve is gone, or an
// error of the disk.
func (r *Recording) Collect(ctx context.Context, incomplete bool, mark func(*Keeper) error,
	progress func(done, total int64)) (GCResult, error) {
	s := &sweeper{Store: r.s, c: r.c}
	if err := s.collect(ctx, incomplete, mark, progress); err != nil {
		return s.res, fmt.Errorf("gc: %w", err)
	}
	return s.res, nil
}

// A sweeper removes the objects that a collector did not keep.
type sweeper struct {
	*Store
	c   *collector
	res GCResult
}

func (s *sweeper) collect(ctx context.Context, incomplete bool, mark func(*Keeper) error,
	progress func(done, total int64)) error {
	defer s.space.drain()()
	if err := s.failed.err(); err != nil {
		return err
	}
	if incomplete { // objects that a damaged index lacks would be taken for garbage
		if err := s.index.db.Check(); err != nil {
			return err
		}
	}
	keeper := &Keeper{s: s, incomplete: incomplete}
	err := mark(keeper)
	if err == nil {
		keeper.keepLeaves()
		err = keeper.err
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	// From here on, what the index does not hold yet is new.
	if err := s.index.flush(); err != nil {
		return err
	}
	if err := s.sweep(ctx, progress); err != nil {
		return err
	}
	if err := s.index.flush(); err != nil {
		return err
	}
	s.index.merge()
	return nil
}

// startRecording notes where the packs end. It waits for Puts that are under
// way: one that found its object before could otherwise return afterwards.
func (s *Store) startRecording() *collector {
	c := &collector{limits: map[uint64]int64{}, infos: map[uint64]packInfo{}, keep: locSet{}}
	s.gc.gate.Lock()
	defer s.gc.gate.Unlock()
	packs := s.packs.all()
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	for _, p := range packs {
		c.limits[p.id] = p.end
		c.infos[p.id] = p.info
	}
	s.gc.current = c
	return c
}

func (s *sweeper) sweep(ctx context.Context, progress func(done, total int64)) error {
	// The newest first: if it is to be emptied, that must happen before the
	// living records of others are moved into it.
	packs := s.packs.all()
	slices.Reverse(packs)
	var done, total int64
	for _, p := range packs {
		total += s.c.limits[p.id]
	}
	announced := false
	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		limit, old := s.c.limits[p.id]
		s.index.mu.Lock()
		clean := !p.garbage && !p.sweeping && s.c.count(p.id) == s.c.infos[p.id].objects
		s.index.mu.Unlock()
		if old && !clean {
			if !announced {
				if err := s.announce(); err != nil {
					return err
				}
				announced = true
			}
			if err := s.sweepPack(ctx, p, limit); err != nil {
				return fmt.Errorf("sweep pack %s: %w", p.name(), err)
			}
		}
		done += limit
		if progress != nil {
			progress(done, total)
		}
	}
	return nil
}

// announce counts this collection in the index, then in the manifest. An older copy of the index,
// for example from a backup, has places of removed objects. Open detects it by the count. The index
// is never behind the manifest, so that a kill between the two makes no index look older.
func (s *sweeper) announce() error {
	n := collections(s.manifest) + 1
	s.index.writing.Lock() // a flush would write the count of the manifest
	defer s.index.writing.Unlock()
	b := s.index.db.Batch(s.space.forIndex)
	b.Put([]byte{keyHead}, indexHead(n))
	if err := b.Commit(); err != nil {
		return err
	}
	return s.commit([]MetaOp{announced(n)})
}

// announced counts n collections in the manifest.
func announced(n uint64) MetaOp {
	return MetaOp{Key: keyCollections, Value: binary.LittleEndian.AppendUint64(nil, n)}
}
