package object

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
)

// EntrySize is the length of an index entry in bytes.
const EntrySize = 32

const prefixSize = 16

// ErrMalformed: what the remote gave is not what a push writes.
var ErrMalformed = errs.New(errs.Damaged, "malformed on the remote")

// An Entry says where a record lies.
type Entry struct {
	Prefix [prefixSize]byte // of the object's hash
	Object uint32           // position in the ref's list of objects
	Offset uint32           // in bytes
	Stored uint32           // bytes there
	Plain  uint32           // bytes when expanded
	Kind   cas.Kind
	Flags  uint8 // as of cas.Stored
}

// End is the offset behind the record.
func (e *Entry) End() int64 { return int64(e.Offset) + int64(e.Stored) }

const (
	lengthBits = 25 // 16 MiB and the number itself
	lengthMask = 1<<lengthBits - 1
)

func (e *Entry) encode(b []byte) {
	copy(b, e.Prefix[:])
	binary.LittleEndian.PutUint32(b[16:], e.Object)
	binary.LittleEndian.PutUint32(b[20:], e.Offset)
	binary.LittleEndian.PutUint64(b[24:], uint64(e.Stored)|uint64(e.Plain)<<lengthBits|
		uint64(e.Flags)<<(2*lengthBits)|uint64(e.Kind)<<(2*lengthBits+4))
}

func decodeEntry(b []byte) (e Entry) {
	copy(e.Prefix[:], b)
	e.Object = binary.LittleEndian.Uint32(b[16:])
	e.Offset = binary.LittleEndian.Uint32(b[20:])
	v := binary.LittleEndian.Uint64(b[24:])
	e.Stored, e.Plain = uint32(v&lengthMask), uint32(v>>lengthBits&lengthMask)
	e.Flags, e.Kind = uint8(v>>(2*lengthBits)&0xf), cas.Kind(v>>(2*lengthBits+4))
	return e
}

func (e *Entry) check(kind cas.Kind, objects []backend.Object) error {
	switch {
	case e.Kind != kind:
		return fmt.Errorf("%w: index entry of kind %d among those of %d", ErrMalformed, e.Kind, kind)
	case int(e.Object) >= len(objects), e.End() > objects[e.Object].Size:
		return fmt.Errorf("%w: index entry for bytes that no object has", ErrMalformed)
	case e.Stored > cas.MaxObject, e.Plain > cas.MaxObject:
		return fmt.Errorf("%w: index entry of impossible length", ErrMalformed)
	}
	return nil
}

// A Table is the entries of one kind, encoded, in order of their hashes.
type Table struct{ raw []byte }

// Len is the number of entries.
func (t Table) Len() int { return len(t.raw) / EntrySize }

// At returns an entry.
func (t Table) At(i int) Entry { return decodeEntry(t.raw[i*EntrySize:]) }

// Entries returns all entries, in order of their hashes.
func (t Table) Entries() []Entry {
	out := make([]Entry, t.Len())
	for i := range out {
		out[i] = t.At(i)
	}
	return out
}

// Find looks a hash up. The entry may still be of another object of the same first
// 16 bytes: the bytes there tell.
func (t Table) Find(h cas.Hash) (Entry, bool) {
	i := sort.Search(t.Len(), func(i int) bool {
		return bytes.Compare(t.raw[i*EntrySize:][:prefixSize], h[:prefixSize]) >= 0
	})
	if i == t.Len() || !bytes.Equal(t.raw[i*EntrySize:][:prefixSize], h[:prefixSize]) {
		return Entry{}, false
	}
	return t.At(i), true
}

// NewTable sorts entries into a table. Of two for one hash the first one counts.
func NewTable(entries []Entry) Table {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int { return bytes.Compare(a.Prefix[:], b.Prefix[:]) })
	sorted = slices.CompactFunc(sorted, func(a, b Entry) bool { return a.Prefix == b.Prefix })
	raw := make([]byte, len(sorted)*EntrySize)
	for i := range sorted {
		sorted[i].encode(raw[i*EntrySize:])
	}
	return Table{raw}
}

// decodeTable checks all entries of a table.
func decodeTable(raw []byte, kind cas.Kind, objects []backend.Object) (Table, error) {
	if len(raw)%EntrySize != 0 {
		return Table{}, fmt.Errorf("%w: index of %d bytes", ErrMalformed, len(raw))
	}
	t := Table{raw}
	for i := range t.Len() {
		e := t.At(i)
		if err := e.check(kind, objects); err != nil {
			return Table{}, err
		}
		if i > 0 && bytes.Compare(raw[(i-1)*EntrySize:][:prefixSize], e.Prefix[:]) >= 0 {
			return Table{}, fmt.Errorf("%w: index out of order", ErrMalformed)
		}
	}
	return t, nil
}

// An Index says where the records of one or several pushes lie.
type Index struct {
	tree, data []Table // newest first
}

// Add puts the index of an older push behind those that are there.
func (x *Index) Add(raw []byte, s Section, objects []backend.Object) error {
	if int64(len(raw)) != s.Size() {
		return fmt.Errorf("%w: index of %d bytes where %d belong", ErrMalformed, len(raw), s.Size())
	}
	cut := s.Tree * EntrySize
	tree, err := decodeTable(raw[:cut:cut], cas.KindTree, objects)
	if err != nil {
		return err
	}
	data, err := decodeTable(raw[cut:], cas.KindData, objects)
	if err != nil {
		return err
	}
	x.tree, x.data = append(x.tree, tree), append(x.data, data)
	return nil
}

// Over returns an index with that of an older push, which may be nil, behind this one.
func (x *Index) Over(old *Index) *Index {
	if old == nil {
		return x
	}
	return &Index{tree: slices.Concat(x.tree, old.tree), data: slices.Concat(x.data, old.data)}
}

// Find looks a hash up in all pushes, the newest first.
func (x *Index) Find(h cas.Hash) (Entry, bool) {
	for i := range x.tree {
		if e, ok := x.tree[i].Find(h); ok {
			return e, true
		}
		if e, ok := x.data[i].Find(h); ok {
			return e, true
		}
	}
	return Entry{}, false
}

// Len is the number of entries of all pushes.
func (x *Index) Len() (n int) {
	for i := range x.tree {
		n += x.tree[i].Len() + x.data[i].Len()
	}
	return n
}

// Entries returns all entries of one kind, in the order in which they lie on the
// remote.
func (x *Index) Entries(kind cas.Kind) []Entry {
	tables := x.data
	if kind == cas.KindTree {
		tables = x.tree
	}
	var out []Entry
	for _, t := range tables {
		out = append(out, t.Entries()...)
	}
	slices.SortFunc(out, ByPlace)
	return out
}

// ByPlace compares two entries by where they lie.
func ByPlace(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Offset, b.Offset))
}
