package cas

// Headroom is the number of bytes of disk that must stay free for the index, for
// recovery and for gc. Others who write to the same disk should leave it alone:
// the index maps files into memory, where a full disk is fatal.
func (s *Store) Headroom() int64 { return s.space.headroom() }

// Stats returns the store's figures. They are kept in memory and cost next to
// nothing. After Close they are those of the end.
func (s *Store) Stats() Stats {
	packs := s.packs.all()
	st := Stats{Packs: len(packs), IndexBytes: s.space.indexSize()}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	for _, p := range packs {
		st.Objects += p.info.objects
		st.Bytes += p.info.plain
		st.Stored += p.info.stored
	}
	return st
}
