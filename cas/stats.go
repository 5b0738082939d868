package cas

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
