package actors

import (
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

const (
	// inodesPerBlock is the number of inodes in a block. Files that are created one after the other have consecutive
	// numbers, so a set of a hundred thousand files takes 100 KiB.
	inodesPerBlock = 64
	// maxActors is the limit for the actors of a set, and of JoinNames. Further actors are Unknown.
	maxActors = 1024
)

// A Set has the inodes that each actor changed. The zero value is an empty set. It is safe for
// concurrent reads, but not for concurrent changes.
type Set struct {
	names         []string
	withoutInodes []int // indexes in names of the actors of AddWithoutInodes
	blocks        map[uint64][]blockMark
	markCount     int // number of blockMarks
}

// A blockMark has the inodes of one block that an actor changed.
type blockMark struct {
	actor int    // index in Set.names
	inos  uint64 // a bit for each inode of the block
}

// Add records that an actor changed an inode.
func (s *Set) Add(ino uint64, actor string) {
	s.addMark(ino/inodesPerBlock, blockMark{s.indexOf(actor), 1 << (ino % inodesPerBlock)})
}

func (s *Set) addMark(block uint64, m blockMark) {
	if s.blocks == nil {
		s.blocks = make(map[uint64][]blockMark)
	}

	marks := s.blocks[block]
	for i := range marks {
		if marks[i].actor == m.actor {
			marks[i].inos |= m.inos
			return
		}
	}

	s.blocks[block] = append(marks, m)
	s.markCount++
}

// AddWithoutInodes records that an actor changed inodes whose numbers are not known.
func (s *Set) AddWithoutInodes(actor string) {
	if n := s.indexOf(actor); !slices.Contains(s.withoutInodes, n) {
		s.withoutInodes = append(s.withoutInodes, n)
	}
}

// indexOf returns the actor's index in names, and adds the actor if it is new.
func (s *Set) indexOf(actor string) int {
	if n := slices.Index(s.names, actor); n >= 0 {
		return n
	}
	if len(s.names) >= maxActors && actor != Unknown {
		return s.indexOf(Unknown)
	}

	s.names = append(s.names, actor)
	return len(s.names) - 1
}

// ActorsOf returns the actors that changed an inode, sorted, without the actors of AddWithoutInodes.
func (s *Set) ActorsOf(ino uint64) []string {
	var out []string
	for _, m := range s.blocks[ino/inodesPerBlock] {
		if m.inos&(1<<(ino%inodesPerBlock)) != 0 {
			out = append(out, s.names[m.actor])
		}
	}

	slices.Sort(out)
	return out
}

// ChangedByOthers reports whether an actor other than the given one changed an inode.
func (s *Set) ChangedByOthers(ino uint64, actor string) bool {
	for _, m := range s.blocks[ino/inodesPerBlock] {
		if m.inos&(1<<(ino%inodesPerBlock)) != 0 && s.names[m.actor] != actor {
			return true
		}
	}
	return false
}

// OnlyBy reports whether no actor other than the given one changed any inode.
func (s *Set) OnlyBy(actor string) bool {
	return len(s.names) == 0 || len(s.names) == 1 && s.names[0] == actor
}

// ActorsWithoutInodes returns the actors of AddWithoutInodes, sorted.
func (s *Set) ActorsWithoutInodes() []string {
	var out []string
	for _, n := range s.withoutInodes {
		out = append(out, s.names[n])
	}
	slices.Sort(out)
	return out
}

// Actors returns all actors, sorted.
func (s *Set) Actors() []string { return slices.Sorted(slices.Values(s.names)) }

func (s *Set) IsEmpty() bool { return len(s.names) == 0 }

// MemoryBytes returns the approximate memory of the set in bytes.
func (s *Set) MemoryBytes() int { return 64*s.markCount + 64*len(s.names) }

// Merge adds the changes of o.
func (s *Set) Merge(o *Set) {
	for block, marks := range o.blocks {
		for _, m := range marks {
			s.addMark(block, blockMark{s.indexOf(o.names[m.actor]), m.inos})
		}
	}

	for _, n := range o.withoutInodes {
		s.AddWithoutInodes(o.names[n])
	}
}

// Union returns a new set with the changes of all sets.
func Union(sets ...*Set) *Set {
	var out Set
	for _, s := range sets {
		out.Merge(s)
	}
	return &out
}

// Encode returns the encoded set, for Decode.
func (s *Set) Encode() []byte {
	var e wire.Encoder
	e.Header(wire.KindActors)
	e.Uvarint(uint64(len(s.names)))
	for _, n := range s.names {
		e.String(n)
	}

	e.Uvarint(uint64(len(s.withoutInodes)))
	for _, n := range s.withoutInodes {
		e.Uvarint(uint64(n))
	}

	e.Uvarint(uint64(len(s.blocks)))
	next := uint64(0)

	for _, block := range slices.Sorted(maps.Keys(s.blocks)) {
		e.Uvarint(block - next)
		next = block
		e.Uvarint(uint64(len(s.blocks[block])))

		for _, m := range s.blocks[block] {
			e.Uvarint(uint64(m.actor))
			e.Uvarint(m.inos)
		}
	}

	return e.Bytes()
}

// EncodeWithin returns the encoded set. If it is larger than limit bytes, it returns instead a set in which the
// same actors have no inodes, as after AddWithoutInodes.
func (s *Set) EncodeWithin(limit int) []byte {
	b := s.Encode()
	if len(b) <= limit {
		return b
	}

	var rest Set
	for _, name := range s.Actors() {
		rest.AddWithoutInodes(name)
	}

	return rest.Encode()
}

// Decode reads an encoded set.
func Decode(b []byte) (*Set, error) {
	d := wire.NewDecoder(b)
	if kind := d.Header(); kind != wire.KindActors {
		d.Fail("object of kind %d has no actors", kind)
	}

	s := &Set{blocks: make(map[uint64][]blockMark)}
	for range d.Count(1) {
		n := d.String()
		if err := Check(n); err != nil {
			d.Fail("%v", err)
		}

		s.names = append(s.names, n)
	}

	actor := func() int {
		n := int(d.Uint(2 * maxActors))
		if n >= len(s.names) {
			d.Fail("actor %d of %d", n, len(s.names))
			return 0
		}

		return n
	}
	for range d.Count(1) {
		s.withoutInodes = append(s.withoutInodes, actor())
	}

	block := uint64(0)
	for range d.Count(3) {
		block += d.Uvarint()
		for range d.Count(2) {
			m := blockMark{actor(), d.Uvarint()}
			s.blocks[block] = append(s.blocks[block], m)
			s.markCount++
		}
	}

	return s, d.Finish()
}
