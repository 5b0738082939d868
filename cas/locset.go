package cas

// A locSet is an exact set of places of records. Records begin at multiples of
// 64 bytes, so a place within a pack is a 32-bit number, and the set needs six to
// eleven bytes for each. A Bloom filter would be smaller, but "seen before" must
// not be wrong even once: what hangs below an object would stay unmarked.
type locSet struct {
	packs map[uint64]*slotSet
	n     int64
}

func newLocSet() *locSet { return &locSet{packs: map[uint64]*slotSet{}} }

// add tells whether the place was not in the set.
func (s *locSet) add(p place) bool {
	t := s.packs[p.pack]
	if t == nil {
		t = &slotSet{}
		s.packs[p.pack] = t
	}
	if !t.add(uint32(p.off / recordAlign)) {
		return false
	}
	s.n++
	return true
}

func (s *locSet) has(p place) bool {
	t := s.packs[p.pack]
	return t != nil && t.has(uint32(p.off/recordAlign))
}

// A slotSet is an open-addressing hash set of numbers other than 0, which is
// where a pack's header lies.
type slotSet struct {
	slots []uint32 // a power of two long
	n     int
}

func (t *slotSet) find(v uint32) int {
	mask := uint32(len(t.slots) - 1)
	i := (v * 2654435769) >> 7 & mask // Fibonacci hashing
	for t.slots[i] != 0 && t.slots[i] != v {
		i = (i + 1) & mask
	}
	return int(i)
}

func (t *slotSet) add(v uint32) bool {
	if t.n >= len(t.slots)/4*3 {
		old := t.slots
		t.slots = make([]uint32, max(16, 2*len(old)))
		for _, o := range old {
			if o != 0 {
				t.slots[t.find(o)] = o
			}
		}
	}
	i := t.find(v)
	if t.slots[i] == v {
		return false
	}
	t.slots[i] = v
	t.n++
	return true
}

func (t *slotSet) has(v uint32) bool {
	return t.n > 0 && t.slots[t.find(v)] == v
}
