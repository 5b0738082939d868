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
// Errors: ErrNoSpace, ErrReadOnly, ErrClosed, or an error of the disk.
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
// made in any case.
func (s *Store) put(k Kind, b []byte, apart bool) (h Hash, n int64, err error) {
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
	err = s.enlist(k, h, b, func() error {
		if rec == nil {
			build()
		}
		_, err := s.appendObject(hdr, *rec, nil)
		return err
	})
	if rec != nil {
		s.codec.release(rec)
	}
	return h, n, err
}

// enlist has an object written unless it is there. Of several that would write the
// same object one does, and the others wait for it.
func (s *Store) enlist(k Kind, h Hash, b []byte, write func() error) (err error) {
	if k != KindData && k != KindTree {
		return fmt.Errorf("put object: unknown kind %d", k)
	}
	if len(b) > MaxObject {
		return fmt.Errorf("put object: %d bytes are more than the %d allowed", len(b), MaxObject)
	}
	if err := s.begin(true); err != nil {
		return err
	}
	defer s.life.done()
	s.gc.gate.RLock()
	defer s.gc.gate.RUnlock()
	_, err, _ = s.puts.Do(string(h[:]), func() (any, error) {
		return nil, guard.Do(func() (err error) { // others wait for this call
			if !s.present(h) {
				err = write()
			}
			return err
		})
	})
	if err == nil {
		err = s.index.flushFull()
	}
	if err != nil {
		return fmt.Errorf("put object %s: %w", h, err)
	}
	return nil
}

// present reports whether an object need not be stored, and keeps it from a
// collection. The gate is held.
func (s *Store) present(h Hash) bool {
	l, ok, err := s.index.find(h)
	if err != nil {
		// It is in doubt, not in the way: storing it again costs some space.
		s.log.Error("index lookup failed, object is stored again", "object", h, "err", err, guard.Stack(err))
		return false
	}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	if !ok {
		return false
	}
	if s.usable(h, l) {
		s.touch(l)
		return true
	}
	s.index.uncount(l)
	delete(s.index.bad, h)
	return false
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

// touch keeps an object from a collection that is under way. The gate is held.
func (s *Store) touch(l loc) {
	if s.gc.current != nil {
		s.gc.current.touch(l)
	}
}

// Has reports whether Get would find the object. An object known to be damaged is
// not there, so that it gets stored again.
func (s *Store) Has(h Hash) (bool, error) {
	if err := s.begin(false); err != nil {
		return false, err
	}
	defer s.life.done()
	s.gc.gate.RLock()
	defer s.gc.gate.RUnlock()
	l, ok, err := s.index.find(h)
	if err != nil {
		return false, fmt.Errorf("look for object %s: %w", h, err)
	}
	if !ok {
		return false, nil
	}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	if !s.usable(h, l) {
		return false, nil
	}
	s.touch(l)
	return true, nil
}
