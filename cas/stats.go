package cas

import "fmt"

// Headroom is the number of bytes of disk that must stay free for commits, the index,
// recovery and gc. Others who write to the same disk should leave it alone.
const Headroom = headroom

// Stats returns the store's figures. They are kept in memory and cost next to
// nothing. After Close they are those of the end.
func (s *Store) Stats() Stats {
	packs := s.packs.all()
	st := Stats{Packs: len(packs), IndexBytes: s.index.db.bytes()}
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
	defer s.life.done()
	fresh := s.index.unwritten()
	for h, l := range fresh {
		fn(h, l.size())
	}
	err := s.index.db.objects(func(h Hash, l loc) {
		if _, ok := fresh[h]; !ok {
			fn(h, l.size())
		}
	})
	if err != nil {
		return fmt.Errorf("read the sizes of objects: %w", err)
	}
	return nil
}
