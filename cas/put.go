package cas

import (
	"fmt"
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/guard"
)

// Put stores b and returns its hash. An object that is there already is not
// stored again, also when several Puts of it run at once. On return the object
// can be read and is in a pack file, though not synced; Commit does that.
// Objects are at most MaxObject bytes. Put keeps no reference to b.
//
// Errors: ErrNoSpace, errs.ReadOnly, errs.Closed, or an error of the disk.
func (s *Store) Put(k Kind, b []byte) (Hash, error) {
	h, _, err := s.put(k, b, false)
	return h, err
}

// Counting is the same store for a caller that counts the bytes of the records of its
// Puts.
type Counting struct {
	*Store
	Bytes *atomic.Int64
	// Apart hides which objects are there already: a Put does the same work and counts
	// the same bytes for them.
	Apart bool
}

// Put is Store.Put.
func (s Counting) Put(k Kind, b []byte) (Hash, error) {
	h, n, err := s.put(k, b, s.Apart)
	s.Bytes.Add(n)
	return h, err
}

// put returns how many bytes the record has, too: 0 if none was made. With apart one is
// made in any case. Of several Puts of one object one writes, and the others wait for it.
func (s *Store) put(k Kind, b []byte, apart bool) (h Hash, n int64, err error) {
	if k != KindData && k != KindTree {
		return h, 0, fmt.Errorf("put object: unknown kind %d", k)
	}
	if len(b) > MaxObject {
		return h, 0, fmt.Errorf("put object: %d bytes are more than the %d allowed", len(b), MaxObject)
	}
	if err := s.begin(true); err != nil {
		return h, 0, err
	}
	defer s.life.RUnlock()
	h = Sum(b)
	var hdr *header
	var rec *[]byte
	build := func() {
		hdr, rec = s.codec.build(k, h, b)
		n = int64(len(*rec))
	}
	if apart {
		build()
	}
	s.gc.gate.RLock()
	defer s.gc.gate.RUnlock()
	_, err, _ = s.puts.Do(string(h[:]), func() (any, error) {
		return nil, guard.Do(func() error {
			here, instead, err := s.has(h)
			if err != nil {
				// It cannot be checked, so it is stored again, which costs some space.
				s.log.Error("index lookup failed, object is stored again", "object", h, "err", err, guard.Stack(err))
			}
			if here {
				return nil
			}
			if rec == nil {
				build()
			}
			err = s.appendObject(hdr, *rec, nil, instead)
			return err
		})
	})
	if rec != nil {
		s.codec.release(rec)
	}
	if err == nil {
		err = s.index.flushFull()
	}
	if err != nil {
		return h, n, fmt.Errorf("put object %s: %w", h, err)
	}
	return h, n, nil
}

// has reports whether Get would find an object, and keeps it from a collection; or where it
// is that cannot be used. The gate is held.
func (s *Store) has(h Hash) (here bool, unusable *loc, err error) {
	l, ok, err := s.index.find(h)
	if err != nil || !ok {
		return false, nil, err
	}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	if s.usable(h, l) {
		if s.gc.current != nil {
			s.gc.current.touch(l)
		}
		return true, nil, nil
	}
	return false, &l, nil
}

// usable reports whether an object that is there need not be stored again: it was
// not found damaged and its pack reaches that far. index.mu is held.
func (s *Store) usable(h Hash, l loc) bool {
	if b, ok := s.index.bad[h]; ok && b.same(l) {
		return false
	}
	p := s.packs.get(l.pack)
	return p != nil && l.off+l.size() <= p.end
}

// Has reports whether Get would find the object. An object known to be damaged is
// not there, so that it gets stored again.
func (s *Store) Has(h Hash) (bool, error) {
	if err := s.begin(false); err != nil {
		return false, err
	}
	defer s.life.RUnlock()
	s.gc.gate.RLock()
	defer s.gc.gate.RUnlock()
	here, _, err := s.has(h)
	if err != nil {
		return false, fmt.Errorf("look for object %s: %w", h, err)
	}
	return here, nil
}
