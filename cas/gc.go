package cas

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// A collector is a collection under way.
type collector struct {
	limits  map[uint64]int64 // ends of the packs at the beginning; what lies behind is new
	objects map[uint64]int64 // objects in them then

	mu      sync.Mutex
	marked  *locSet // named by mark
	touched *locSet // found by a Put or Has; apart, for mark must still descend there
}

// keep adds an object that mark names and tells whether it is the first time.
func (c *collector) keep(l loc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marked.add(l.place())
}

func (c *collector) touch(l loc) {
	if l.off >= c.limits[l.pack] {
		return // it is new
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched.add(l.place())
}

func (c *collector) kept(p place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marked.has(p) || c.touched.has(p)
}

// count is the number of objects kept in a pack.
func (c *collector) count(id uint64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	marked, touched := c.marked.packs[id], c.touched.packs[id]
	if marked == nil {
		marked = &slotSet{}
	}
	n := int64(marked.n)
	if touched != nil {
		for _, v := range touched.slots {
			if v != 0 && !marked.has(v) {
				n++
			}
		}
	}
	return n
}

// A Recording is a collection that is being prepared: what Put, PutHashed and Has
// find or add stays from the moment that Record begins until Close. There is one at
// a time.
type Recording struct {
	s *Store
	c *collector
}

// Record begins a collection. It waits for another one to end, then begins to
// record, calls settle, which may be nil and may wait for long, and at last waits
// for a verification. Only then other verifications have to wait for Close.
//
// Errors: that of settle, the context's, ErrReadOnly or ErrClosed.
func (s *Store) Record(ctx context.Context, settle func(ctx context.Context) error) (*Recording, error) {
	if err := s.begin(true); err != nil {
		return nil, err
	}
	r := &Recording{s: s}
	err := s.recording.lock(ctx)
	if err != nil {
		s.life.done()
		return nil, fmt.Errorf("gc: %w", err)
	}
	r.c = s.startRecording()
	ready := false
	defer func() { // also if settle panics
		if !ready {
			r.stop()
		}
	}()
	if settle != nil {
		err = settle(ctx)
	}
	if err == nil {
		err = s.gcMu.lock(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("gc: %w", err)
	}
	ready = true
	return r, nil
}

// Close ends the collection.
func (r *Recording) Close() {
	r.s.gcMu.unlock()
	r.stop()
}

func (r *Recording) stop() {
	r.s.gate.Lock()
	r.s.gc = nil
	r.s.gate.Unlock()
	r.s.recording.unlock()
	r.s.life.done()
}

// Collect removes every object that is neither kept nor new. It is called once.
//
// mark names all that must stay, by calling keep, which tells whether the object is
// named for the first time, so that mark need not descend twice. keep of an object
// that is not in the store returns true; unless lossy is set, nothing is removed
// then, for the index may be wrong and not the caller. Then whatever else was there
// when the recording began goes: its space is punched out of the packs; packs that
// are mostly dead are emptied and removed.
//
// A hash that somebody got from Put before the recording began must be reachable
// for mark. mark may call the store, but not Record and Verify.
//
// Collect works with a full disk. Interrupted at any point, also by a kill, it loses
// nothing that was kept, and the next one goes on. progress may be nil; it gets
// bytes of packs.
//
// Errors: that of mark, the context's, ErrNoSpace if even the reserve is gone, or an
// error of the disk.
func (r *Recording) Collect(ctx context.Context, lossy bool, mark func(keep func(Hash) (first bool)) error,
	progress func(done, total int64)) (GCResult, error) {
	res, err := r.s.collect(ctx, r.c, lossy, mark, progress)
	if err != nil {
		return res, fmt.Errorf("gc: %w", err)
	}
	return res, nil
}

func (s *Store) collect(ctx context.Context, c *collector, lossy bool, mark func(keep func(Hash) (first bool)) error,
	progress func(done, total int64)) (GCResult, error) {
	var res GCResult
	defer s.space.drain()()
	if err := s.failure(); err != nil {
		return res, err
	}
	// What a damaged index does not know would be taken for garbage.
	if err := s.ix.check(); err != nil {
		return res, err
	}
	var kerr error
	err := mark(func(h Hash) bool {
		l, ok, err := s.find(h)
		if err == nil && !ok && !lossy {
			err = ErrNotFound
		}
		if err != nil && kerr == nil {
			kerr = fmt.Errorf("look for object %s: %w", h, err)
		}
		return err == nil && (!ok || c.keep(l))
	})
	if err == nil {
		err = kerr
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return res, err
	}
	// From here on, what the index does not hold yet is new.
	if err := s.flush(); err != nil {
		return res, err
	}
	if err := s.sweep(ctx, c, &res, progress); err != nil {
		return res, err
	}
	for id := range c.limits {
		res.Kept += c.count(id)
	}
	if err := s.compactMeta(false); err != nil {
		return res, err
	}
	return res, s.flush()
}

// startRecording notes where the packs end. It waits for Puts that are under
// way: one that found its object before could otherwise return afterwards.
func (s *Store) startRecording() *collector {
	c := &collector{limits: map[uint64]int64{}, objects: map[uint64]int64{}, marked: newLocSet(), touched: newLocSet()}
	s.gate.Lock()
	defer s.gate.Unlock()
	packs := s.packs.all(roleObjects)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range packs {
		c.limits[p.id] = p.end
		c.objects[p.id] = p.info.objects
	}
	s.gc = c
	return c
}

func (s *Store) sweep(ctx context.Context, c *collector, res *GCResult, progress func(done, total int64)) error {
	// The newest first: if it is to be emptied, that must happen before the
	// living records of others are moved into it.
	packs := s.packs.all(roleObjects)
	slices.Reverse(packs)
	var done, total int64
	for _, p := range packs {
		total += c.limits[p.id]
	}
	announced := false
	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		limit, old := c.limits[p.id]
		s.mu.Lock()
		clean := !p.garbage && !p.sweeping && !p.info.loose() && c.count(p.id) == c.objects[p.id]
		s.mu.Unlock()
		if old && !clean {
			if !announced {
				if err := s.announce(); err != nil {
					return err
				}
				announced = true
			}
			if err := s.sweepPack(ctx, c, p, limit, res); err != nil {
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

// announce counts this collection in the metadata packs and in the index. An
// index that missed it, like one put back from a copy, has places that are no
// more; Open sees that by the record that it does not cover.
func (s *Store) announce() error {
	e, _, err := s.metaNow(keyGC)
	if err != nil {
		return err
	}
	n := uint64(0)
	if len(e.value) == 8 {
		n = binary.LittleEndian.Uint64(e.value)
	}
	if err := s.commit([]MetaOp{{Key: keyGC, Value: binary.LittleEndian.AppendUint64(nil, n+1)}}); err != nil {
		return err
	}
	return s.flush()
}

// A turn is a lock that can be waited for with a context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) unlock() { <-t }
