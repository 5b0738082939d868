package cas

// Headroom is the number of bytes of disk that must stay free for the index, for
// recovery and for gc. Others who write to the same disk should leave it alone:
// the index maps files into memory, where a full disk is fatal.
func (s *Store) Headroom() int64 { return s.space.headroom() }

// Stats returns the store's figures. They cost a listing of the packs and of the
// metadata keys. What cannot be found out, as after Close, is zero.
func (s *Store) Stats() Stats {
	var st Stats
	if err := s.begin(false); err != nil {
		return st
	}
	defer s.life.done()
	infos, err := s.fs.ReadDir(s.packDir)
	if err != nil {
		s.log.Warn("cannot list packs", "err", err)
	}
	for _, i := range infos {
		if _, _, ok := parsePackName(i.Name); ok {
			st.Packs++
			st.PackBytes += i.Allocated
		}
	}
	packs := s.packs.all(roleObjects)
	s.mu.Lock()
	for _, p := range packs {
		st.Objects += p.info.objects
		st.Bytes += p.info.plain
		st.Stored += p.info.stored
	}
	s.mu.Unlock()
	st.IndexBytes = s.ix.bytes()
	err = s.scanMeta("", func(key string, _ metaEntry) error {
		if key[0] != 0 {
			st.Metas++
		}
		return nil
	})
	if err != nil {
		s.log.Warn("cannot count metadata", "err", err)
	}
	return st
}
