package cas

import (
	"fmt"

	"github.com/amberfs/amberfs/cas/guard"
)

// flushObjects and flushBytes bound what is only in packs and memory: after a
// kill, Open reads that much again.
const (
	flushObjects = 16 << 10
	flushBytes   = 64 << 20
	maxUnflushed = 1 << 20 // entries; with a full disk the index cannot take them
)

// An inflight is a Put at work; others of the same object wait for it.
type inflight struct {
	done chan struct{}
	err  error
}

// Put stores b and returns its hash. An object that is there already is not
// stored again, also when several Puts of it run at once. On return the object
// can be read and is in a pack file, though not synced; Commit does that.
// Objects are at most MaxObject bytes. Put keeps no reference to b.
//
// Errors: ErrNoSpace, ErrReadOnly, ErrClosed, or an error of the disk.
func (s *Store) Put(k Kind, b []byte) (Hash, error) {
	h := Sum(b)
	_, err := s.putSum(k, h, b, small)
	return h, err
}

// Quick is the same store for whoever waits: what it Puts is compressed less,
// until a GC that rewrites its pack does better.
type Quick struct{ *Store }

// Put is Store.Put.
func (s Quick) Put(k Kind, b []byte) (Hash, error) {
	h := Sum(b)
	_, err := s.putSum(k, h, b, quick)
	return h, err
}

// PutHashed is Put for a caller that has computed h = Sum(b) already. It tells
// whether the object was new.
func (s *Store) PutHashed(k Kind, h Hash, b []byte) (added bool, err error) {
	return s.putSum(k, h, b, small)
}

func (s *Store) putSum(k Kind, h Hash, b []byte, e effort) (added bool, err error) {
	if k != KindData && k != KindTree {
		return false, fmt.Errorf("put object: unknown kind %d", k)
	}
	if len(b) > MaxObject {
		return false, fmt.Errorf("put object: %d bytes are more than the %d allowed", len(b), MaxObject)
	}
	if err := s.begin(true); err != nil {
		return false, err
	}
	defer s.life.done()
	added, err = s.put(k, h, b, e)
	if err != nil {
		return false, fmt.Errorf("put object %s: %w", h, err)
	}
	return added, nil
}

func (s *Store) put(k Kind, h Hash, b []byte, e effort) (added bool, err error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	call, err := s.claim(h)
	if err != nil || call == nil {
		return false, err
	}
	call.err = guard.Do(func() error { // others wait for this call
		hdr, bp := s.codec.build(k, h, b, 0, e)
		_, err := s.appendObject(hdr, *bp, nil)
		s.codec.release(bp)
		return err
	})
	s.mu.Lock()
	delete(s.inflight, h)
	full := s.overfull()
	s.mu.Unlock()
	close(call.done)
	if call.err != nil {
		return false, call.err
	}
	if full {
		if err := s.flushFull(); err != nil {
			return true, err
		}
	}
	return true, nil
}

// claim decides who stores an object. A nil call means that it is there, or was
// being stored and is there now. The gate is held.
func (s *Store) claim(h Hash) (*inflight, error) {
	s.mu.Lock()
	var unusable *loc
	for {
		if l, ok := s.inMemory(h); ok {
			if s.usable(h, l) {
				s.touch(l)
				s.mu.Unlock()
				return nil, nil
			}
			unusable = &l
		}
		other := s.inflight[h]
		if other == nil {
			break
		}
		s.mu.Unlock()
		<-other.done
		if other.err != nil {
			return nil, other.err
		}
		s.mu.Lock()
	}
	call := &inflight{done: make(chan struct{})}
	s.inflight[h] = call
	if unusable != nil {
		s.uncount(*unusable)
		delete(s.bad, h)
		s.mu.Unlock()
		return call, nil
	}
	s.mu.Unlock()

	// The index is read without the lock: nobody else can add this object now.
	var l loc
	var ok bool
	err := guard.Do(func() (err error) {
		l, ok, err = s.ix.object(h)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// It is in doubt, not in the way: storing it again costs some space.
		s.log.Error("index lookup failed, object is stored again", "hash", h, "err", err, guard.Stack(err))
		ok = false
	}
	if ok && s.isDropped(l) {
		ok = false
	}
	if ok && s.usable(h, l) {
		s.touch(l)
		delete(s.inflight, h)
		close(call.done)
		return nil, nil
	}
	if ok {
		s.uncount(l)
		delete(s.bad, h)
	}
	return call, nil
}

// inMemory looks an object up among those that the index does not hold yet.
// s.mu is held.
func (s *Store) inMemory(h Hash) (loc, bool) {
	if l, ok := s.fresh.objects[h]; ok {
		return l, true
	}
	if s.flushing != nil {
		if l, ok := s.flushing.objects[h]; ok {
			return l, true
		}
	}
	return loc{}, false
}

// locate finds an object wherever it is known. s.mu is held.
func (s *Store) locate(h Hash) (loc, bool, error) {
	if l, ok := s.inMemory(h); ok {
		return l, true, nil
	}
	l, ok, err := s.ix.object(h)
	if ok && s.isDropped(l) {
		ok = false
	}
	return l, ok, err
}

// isDropped tells whether gc is about to take what lies there away. s.mu is held.
func (s *Store) isDropped(l loc) bool {
	_, gone := s.dropped[l.place()]
	return gone
}

// usable tells whether an object that is there need not be stored again: it was
// not found damaged and its pack reaches that far. s.mu is held.
func (s *Store) usable(h Hash, l loc) bool {
	if b, ok := s.bad[h]; ok && b.same(l) {
		return false
	}
	p := s.packs.get(l.pack)
	return p != nil && l.off+l.size() <= p.end
}

// touch keeps an object from a collection that is under way. The gate is held.
func (s *Store) touch(l loc) {
	if s.gc != nil {
		s.gc.touch(l)
	}
}

// Has tells whether Get would find the object. An object known to be damaged is
// not there, so that it gets stored again.
func (s *Store) Has(h Hash) (bool, error) {
	if err := s.begin(false); err != nil {
		return false, err
	}
	defer s.life.done()
	s.gate.RLock()
	defer s.gate.RUnlock()
	l, ok, err := s.find(h)
	if err != nil {
		return false, fmt.Errorf("look for object %s: %w", h, err)
	}
	if !ok {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.usable(h, l) {
		return false, nil
	}
	s.touch(l)
	return true, nil
}

// find is locate for callers that do not hold s.mu; it does not hold it either
// while it reads the index.
func (s *Store) find(h Hash) (loc, bool, error) {
	s.mu.Lock()
	l, ok := s.inMemory(h)
	s.mu.Unlock()
	if ok {
		return l, true, nil
	}
	l, ok, err := s.ix.object(h)
	if err != nil || !ok {
		return loc{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return l, !s.isDropped(l), nil
}
