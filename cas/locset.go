package cas

// A locSet is an exact set of places of records. Records begin at multiples of
// 64 bytes, so a place within a pack is a 32-bit number, and the set needs some ten
// bytes for each. A Bloom filter would be smaller, but "seen before" must not be
// wrong even once: what hangs below an object would stay unmarked.
type locSet struct {
	packs map[uint64]map[uint32]struct{}
}

func newLocSet() *locSet { return &locSet{packs: map[uint64]map[uint32]struct{}{}} }

// add reports whether the place was not in the set.
func (s *locSet) add(p place) bool {
	if s.has(p) {
		return false
	}
	if s.packs[p.pack] == nil {
		s.packs[p.pack] = map[uint32]struct{}{}
	}
	s.packs[p.pack][uint32(p.off/recordAlign)] = struct{}{}
	return true
}

func (s *locSet) has(p place) bool {
	_, ok := s.packs[p.pack][uint32(p.off/recordAlign)]
	return ok
}
