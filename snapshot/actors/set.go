package actors

import (
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

const (
	// blockInodes is how many inodes have their bits in one mark. Files that are created
	// one after the other have numbers in a row, so a hundred thousand take 100 KiB.
	blockInodes = 64
	// maxNames bounds the actors of a set, and of a list. Those beyond are Unknown.
	maxNames = 1024
)

// A Set says which actors changed which inodes. The zero value is empty and ready. It
// takes calls one at a time, and is safe for concurrent reading.
type Set struct {
	names  []string
	rest   []int // actors that changed inodes without a mark of their own
	blocks map[uint64][]mark
	marks  int
}

// A mark has the inodes of one block that an actor changed.
type mark struct {
	actor int
	inos  uint64
}

func (s *Set) Add(ino uint64, actor string) {
	s.mark(ino/blockInodes, mark{s.number(actor), 1 << (ino % blockInodes)})
}

func (s *Set) mark(block uint64, m mark) {
	if s.blocks == nil {
		s.blocks = make(map[uint64][]mark)
	}
	marks := s.blocks[block]
	for i := range marks {
		if marks[i].actor == m.actor {
			marks[i].inos |= m.inos
			return
		}
	}
	s.blocks[block] = append(marks, m)
	s.marks++
}

// AddRest notes that an actor changed inodes that are not named.
func (s *Set) AddRest(actor string) {
	if n := s.number(actor); !slices.Contains(s.rest, n) {
		s.rest = append(s.rest, n)
	}
}

// number returns the actor's index in names.
func (s *Set) number(actor string) int {
	if n := slices.Index(s.names, actor); n >= 0 {
		return n
	}
	if len(s.names) >= maxNames && actor != Unknown {
		return s.number(Unknown)
	}
	s.names = append(s.names, actor)
	return len(s.names) - 1
}

// Of returns the actors that changed an inode, in order; nil if none did.
func (s *Set) Of(ino uint64) []string {
	var out []string
	for _, m := range s.blocks[ino/blockInodes] {
		if m.inos&(1<<(ino%blockInodes)) != 0 {
			out = append(out, s.names[m.actor])
		}
	}
	slices.Sort(out)
	return out
}

// Others reports whether an actor other than the given one changed an inode.
func (s *Set) Others(ino uint64, actor string) bool {
	for _, m := range s.blocks[ino/blockInodes] {
		if m.inos&(1<<(ino%blockInodes)) != 0 && s.names[m.actor] != actor {
			return true
		}
	}
	return false
}

// OnlyBy reports whether no actor other than the given one changed anything.
func (s *Set) OnlyBy(actor string) bool {
	return len(s.names) == 0 || len(s.names) == 1 && s.names[0] == actor
}

// Rest returns the actors that changed inodes which are not named.
func (s *Set) Rest() []string {
	var out []string
	for _, n := range s.rest {
		out = append(out, s.names[n])
	}
	slices.Sort(out)
	return out
}

// Actors returns all actors, in order.
func (s *Set) Actors() []string { return slices.Sorted(slices.Values(s.names)) }

func (s *Set) Empty() bool { return len(s.names) == 0 }

// Size is about how many bytes of memory the set takes.
func (s *Set) Size() int { return 64*s.marks + 64*len(s.names) }

func (s *Set) Merge(o *Set) {
	for block, marks := range o.blocks {
		for _, m := range marks {
			s.mark(block, mark{s.number(o.names[m.actor]), m.inos})
		}
	}
	for _, n := range o.rest {
		s.AddRest(o.names[n])
	}
}

func Union(sets ...*Set) *Set {
	var out Set
	for _, s := range sets {
		out.Merge(s)
	}
	return &out
}

// Encode returns the object that Decode reads.
func (s *Set) Encode() []byte {
	var e wire.Encoder
	e.Header(wire.KindActors)
	e.Uvarint(uint64(len(s.names)))
	for _, n := range s.names {
		e.String(n)
	}
	e.Uvarint(uint64(len(s.rest)))
	for _, n := range s.rest {
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
	return e.Out()
}

// EncodeWithin is Encode with a limit in bytes. Of a larger set it writes only that each actor
// changed inodes, not which.
func (s *Set) EncodeWithin(limit int) []byte {
	b := s.Encode()
	if len(b) <= limit {
		return b
	}
	var rest Set
	for _, name := range s.Actors() {
		rest.AddRest(name)
	}
	return rest.Encode()
}

// Decode reads the object of a set.
func Decode(b []byte) (*Set, error) {
	d := wire.NewDecoder(b)
	if kind := d.Header(); kind != wire.KindActors {
		d.Fail("object of kind %d has no actors", kind)
	}
	s := &Set{blocks: make(map[uint64][]mark)}
	for range d.Count(1) {
		n := d.String()
		if err := Check(n); err != nil {
			d.Fail("%v", err)
		}
		s.names = append(s.names, n)
	}
	actor := func() int {
		n := int(d.Uint(2 * maxNames))
		if n >= len(s.names) {
			d.Fail("actor %d of %d", n, len(s.names))
			return 0
		}
		return n
	}
	for range d.Count(1) {
		s.rest = append(s.rest, actor())
	}
	block := uint64(0)
	for range d.Count(3) {
		block += d.Uvarint()
		for range d.Count(2) {
			m := mark{actor(), d.Uvarint()}
			s.blocks[block] = append(s.blocks[block], m)
			s.marks++
		}
	}
	return s, d.Finish()
}
