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

// EntrySize is the number of bytes of an encoded Entry.
const EntrySize = 32

const prefixSize = 16 // bytes

// ErrMalformed: the remote returned bytes that no push can have written.
var ErrMalformed = errs.New(errs.Damaged, "malformed on the remote")

// A Prefix has the first bytes of a record's hash.
type Prefix [prefixSize]byte

// An Entry is the place of a record in an object.
type Entry struct {
	Prefix     Prefix
	Object     uint32 // position in the ref's list of objects
	Offset     uint32 // bytes from the start of the object
	StoredSize uint32 // bytes in the object
	PlainSize  uint32 // bytes when expanded
	Kind       cas.Kind
	Flags      uint8 // see cas.StoredObject
}

// End returns the offset after the record.
func (e *Entry) End() int64 { return int64(e.Offset) + int64(e.StoredSize) }

const (
	lengthBits = 25 // enough for cas.MaxObject, which is 1<<24
	lengthMask = 1<<lengthBits - 1
)

// appendTo appends the encoded entry to b.
func (e *Entry) appendTo(b []byte) []byte {
	b = append(b, e.Prefix[:]...)
	b = binary.LittleEndian.AppendUint32(b, e.Object)
	b = binary.LittleEndian.AppendUint32(b, e.Offset)
	return binary.LittleEndian.AppendUint64(b, uint64(e.StoredSize)|uint64(e.PlainSize)<<lengthBits|
		uint64(e.Flags)<<(2*lengthBits)|uint64(e.Kind)<<(2*lengthBits+4))
}

func decodeEntry(b []byte) (e Entry) {
	copy(e.Prefix[:], b)
	e.Object = binary.LittleEndian.Uint32(b[16:])
	e.Offset = binary.LittleEndian.Uint32(b[20:])
	v := binary.LittleEndian.Uint64(b[24:])
	e.StoredSize, e.PlainSize = uint32(v&lengthMask), uint32(v>>lengthBits&lengthMask)
	e.Flags, e.Kind = uint8(v>>(2*lengthBits)&0xf), cas.Kind(v>>(2*lengthBits+4))
	return e
}

// check returns ErrMalformed for an entry that no push can have written. objects is Ref.Objects of the ref with the
// entry.
func (e *Entry) check(objects []backend.Object) error {
	switch {
	case e.Kind != cas.KindTree && e.Kind != cas.KindData:
		return fmt.Errorf("%w: index entry of the unknown kind %d", ErrMalformed, e.Kind)
	case int(e.Object) >= len(objects), e.End() > objects[e.Object].Size:
		return fmt.Errorf("%w: index entry for bytes that no object has", ErrMalformed)
	case e.StoredSize > cas.MaxObject, e.PlainSize > cas.MaxObject:
		return fmt.Errorf("%w: index entry of impossible length", ErrMalformed)
	}
	return nil
}

// An indexTable has the encoded entries of one index, in the order of their prefixes.
type indexTable []byte

func (t indexTable) len() int { return len(t) / EntrySize }

func (t indexTable) entry(i int) Entry { return decodeEntry(t[i*EntrySize:]) }

// find returns the entry of the record with a hash. It compares only prefixes of hashes, so the entry may be of
// another record with the same prefix: the caller must compare the bytes of the record with the hash.
func (t indexTable) find(h cas.Hash) (Entry, bool) {
	i := sort.Search(t.len(), func(i int) bool {
		return bytes.Compare(t[i*EntrySize:][:prefixSize], h[:prefixSize]) >= 0
	})
	if i == t.len() || !bytes.Equal(t[i*EntrySize:][:prefixSize], h[:prefixSize]) {
		return Entry{}, false
	}
	return t.entry(i), true
}

// An Index has the entries of all indexes of a ref.
type Index struct{ tables []indexTable } // newest first

// Add adds an index, which must be older than the indexes that were added before. raw has the bytes of the index, and
// s is its place. Errors: ErrMalformed.
func (x *Index) Add(raw []byte, s Section, objects []backend.Object) error {
	if int64(len(raw)) != s.Size() {
		return fmt.Errorf("%w: index of %d bytes where %d belong", ErrMalformed, len(raw), s.Size())
	}
	t := indexTable(raw)
	for i := range t.len() {
		e := t.entry(i)
		if err := e.check(objects); err != nil {
			return err
		}
		if i > 0 && bytes.Compare(raw[(i-1)*EntrySize:][:prefixSize], e.Prefix[:]) >= 0 {
			return fmt.Errorf("%w: index out of order", ErrMalformed)
		}
	}

	x.tables = append(x.tables, t)

	return nil
}

// Find returns the entry of the record with a hash. Find compares only prefixes of hashes, so the caller must compare
// the bytes of the record with the hash.
func (x *Index) Find(h cas.Hash) (Entry, bool) {
	for _, t := range x.tables {
		if e, ok := t.find(h); ok {
			return e, true
		}
	}
	return Entry{}, false
}

// Entries returns all entries of one kind, in the order of ByPlace.
func (x *Index) Entries(kind cas.Kind) (out []Entry) {
	for _, t := range x.tables {
		for i := range t.len() {
			if e := t.entry(i); e.Kind == kind {
				out = append(out, e)
			}
		}
	}

	slices.SortStableFunc(out, ByPlace)
	return out
}

// ByPlace compares entries by object and offset.
func ByPlace(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Offset, b.Offset))
}

// A Pack is an object that a push is filling with records.
type Pack struct {
	Bytes   []byte
	Entries []Entry // entries of the records; Entry.Object is not set
}

// Add appends a record.
func (p *Pack) Add(h cas.Hash, s cas.StoredObject) {
	e := Entry{Offset: uint32(len(p.Bytes)), StoredSize: uint32(len(s.Bytes)), PlainSize: uint32(s.PlainSize), Kind: s.Kind, Flags: s.Flags}
	copy(e.Prefix[:], h[:])
	p.Entries = append(p.Entries, e)
	p.Bytes = append(p.Bytes, s.Bytes...)
}

// Append appends the records of another pack.
func (p *Pack) Append(q *Pack) {
	for _, e := range q.Entries {
		e.Offset += uint32(len(p.Bytes))
		p.Entries = append(p.Entries, e)
	}
	p.Bytes = append(p.Bytes, q.Bytes...)
}

// EncodeIndex appends an index of entries to the pack and returns its section. The caller sets Section.Object. If two
// entries have the same hash, the index has only the first of them.
func (p *Pack) EncodeIndex(entries []Entry) Section {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int { return bytes.Compare(a.Prefix[:], b.Prefix[:]) })
	sorted = slices.CompactFunc(sorted, func(a, b Entry) bool { return a.Prefix == b.Prefix })
	s := Section{Offset: int64(len(p.Bytes)), Entries: int64(len(sorted))}
	for i := range sorted {
		p.Bytes = sorted[i].appendTo(p.Bytes)
	}

	return s
}
