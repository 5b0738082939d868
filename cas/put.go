package cas

import (
	"fmt"
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/guard"
)

// Put stores b, of at most MaxObject bytes, and returns its hash. It stores each object once, also if
// several Puts of the object run at once. When Put returns, the object can be read and is in a pack;
// Commit makes it durable. Put keeps no reference to b.
//
// Errors: ErrNoSpace, errs.ReadOnly, errs.Closed, or an error of the disk.
func (s *Store) Put(k Kind, b []byte) (Hash, error) {
	h, _, err := s.put(k, b, false)
	return h, err
}

// A CountingStore is a Store that counts the bytes of the records that its Puts write.
type CountingStore struct {
	*Store
	Bytes *atomic.Int64
	// HideExisting hides from the caller which objects the store has already: a Put of such an object
	// takes as long, and counts as many bytes, as the Put of a new one.
	HideExisting bool
}

// Put stores an object, as Store.Put does, and adds the bytes of the record to Bytes.
func (s CountingStore) Put(k Kind, b []byte) (Hash, error) {
	h, n, err := s.put(k, b, s.HideExisting)
	s.Bytes.Add(n)
	return h, err
}

// put does the work of Put, and returns the number of bytes of the record that it built, or 0 if the store
// had the object. With alwaysBuild it builds the record in any case. If several goroutines put one object at
// once, one goroutine writes the object and the others wait.
func (s *Store) put(k Kind, b []byte, alwaysBuild bool) (h Hash, n int64, err error) {
	if k != KindData && k != KindTree {
		return h, 0, fmt.Errorf("put object: unknown kind %d", k)
	}
	if len(b) > MaxObject {
		return h, 0, fmt.Errorf("put object: %d bytes are more than the %d allowed", len(b), MaxObject)
	}
	if err := s.beginCall(true); err != nil {
		return h, 0, err
	}
	defer s.lifeMu.RUnlock()

	h = Sum(b)
	var hdr *header
	var rec *[]byte
	build := func() {
		hdr, rec = s.codec.buildRecord(k, h, b)
		n = int64(len(*rec))
	}
	if alwaysBuild {
		build()
	}

	s.gc.gate.RLock()
	defer s.gc.gate.RUnlock()

	_, err, _ = s.puts.Do(string(h[:]), func() (any, error) {
		return nil, guard.Do(func() error {
			usable, damaged, err := s.findUsable(h)
			if err != nil {
				// Store the object again: a second copy costs only space.
				s.log.Error("index lookup failed, object is stored again", "object", h, "err", err, guard.Stack(err))
			}
			if usable {
				return nil
			}
			if rec == nil {
				build()
			}

			return s.appendObject(hdr, *rec, nil, damaged)
		})
	})
	if rec != nil {
		s.codec.releaseBuffer(rec)
	}
	if err != nil {
		return h, n, fmt.Errorf("put object %s: %w", h, err)
	}
	if err := s.index.flushIfDue(); err != nil {
		return h, n, fmt.Errorf("put object %s: %w", h, err)
	}

	return h, n, nil
}

// findUsable reports whether an object is stored and has no damage mark. If it is, and a collection is
// running, findUsable makes the collection keep the object. If the object is stored but damaged,
// findUsable returns the place of the damaged copy. The caller holds gcState.gate.
func (s *Store) findUsable(h Hash) (usable bool, damaged *loc, err error) {
	l, ok, err := s.index.find(h)
	if err != nil || !ok {
		return false, nil, err
	}

	s.index.mu.Lock()
	defer s.index.mu.Unlock()

	if s.isUsable(h, l) {
		if s.gc.keepSet != nil {
			s.gc.keepSet.keepFound(l)
		}
		return true, nil, nil
	}

	return false, &l, nil
}

// isUsable reports whether the object at a place need not be stored again: it has no mark at this
// place, and its record is before the end of its pack. (A pack that was damaged may have lost its
// last records.) The caller holds locator.mu.
func (s *Store) isUsable(h Hash, l loc) bool {
	if b, ok := s.index.damageMarks[h]; ok && b.samePlace(l) {
		return false
	}
	p := s.packs.get(l.pack)
	return p != nil && l.off+l.size() <= p.end
}

// Has reports whether the store has the object. For an object that was found damaged it reports false,
// so that the caller puts it again.
func (s *Store) Has(h Hash) (bool, error) {
	if err := s.beginCall(false); err != nil {
		return false, err
	}
	defer s.lifeMu.RUnlock()

	s.gc.gate.RLock()
	defer s.gc.gate.RUnlock()

	usable, _, err := s.findUsable(h)
	if err != nil {
		return false, fmt.Errorf("look for object %s: %w", h, err)
	}

	return usable, nil
}
