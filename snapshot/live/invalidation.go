package live

import (
	"iter"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// An Invalidation tells what a change from inside (a restore, an import)
// replaced, so that caches of it can be dropped.
type Invalidation struct {
	// Entries are names that now lead elsewhere, or nowhere.
	Entries *Entries
	// Inodes are nodes whose attributes changed, directories among them
	// whose listing did.
	Inodes []NodeID
}

// Empty reports whether there is nothing to drop.
func (v Invalidation) Empty() bool { return v.Entries.Len() == 0 && len(v.Inodes) == 0 }

// Gone lists what has no name any more and the kernel may know: at most so many nodes.
func (v Invalidation) Gone(most int) (ids []NodeID) {
	for e := range v.Entries.All() {
		if len(ids) == most {
			break
		}
		if e.Gone != 0 {
			ids = append(ids, e.Gone)
		}
	}
	return ids
}

// An Entry is a name in a directory.
type Entry struct {
	Parent NodeID
	Name   string
	// Gone is what was there, if that has no name any more and the kernel may
	// know it; 0 else.
	Gone NodeID
	// Was is what was there and has no name any more, whether the kernel knows it
	// or not; 0 else.
	Was    NodeID
	WasDir bool // it was a directory
}

const (
	entryGone = 1 << iota
	entryWasDir
)

func (e *Entry) encode(w *wire.Encoder, prev *Entry) {
	w.Byte(flags(e.Gone != 0, e.WasDir))
	w.Varint(int64(e.Parent - prev.Parent))
	w.Varint(int64(e.Was - prev.Was))
	encodeName(w, e.Name, prev.Name)
}

func (e *Entry) decode(d *wire.Decoder, prev *Entry) {
	f := d.Byte()
	e.Parent, e.Was = prev.Parent+NodeID(d.Varint()), prev.Was+NodeID(d.Varint())
	e.Name = decodeName(d, prev.Name)
	e.WasDir = f&entryWasDir != 0
	if f&entryGone != 0 {
		e.Gone = e.Was
	}
}

// Entries is a list of Entries, in some 6 bytes each and what is new in their names. Nil is empty.
type Entries struct {
	list packed[Entry, *Entry]
	gone map[int]uint64 // number of an entry / 64 → a bit for each that is found to be Gone later
}

// EntriesOf returns a list of what is given.
func EntriesOf(entries ...Entry) *Entries {
	l := new(Entries)
	for _, e := range entries {
		l.Add(e)
	}
	return l
}

// Add appends an entry, whose Gone is its Was or 0.
func (l *Entries) Add(e Entry) { l.list.add(&e) }

// Len returns the number of entries.
func (l *Entries) Len() int {
	if l == nil {
		return 0
	}
	return l.list.n
}

// All returns the entries.
func (l *Entries) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, e := range l.numbered() {
			if !yield(e) {
				return
			}
		}
	}
}

// numbered is All with the number of each.
func (l *Entries) numbered() iter.Seq2[int, Entry] {
	return func(yield func(int, Entry) bool) {
		if l == nil {
			return
		}
		for i, e := range l.list.all() {
			if l.gone[i/64]&(1<<(i%64)) != 0 {
				e.Gone = e.Was
			}
			if !yield(i, e) {
				return
			}
		}
	}
}

// isGone notes that an entry is Gone.
func (l *Entries) isGone(i int) {
	if l.gone == nil {
		l.gone = make(map[int]uint64)
	}
	l.gone[i/64] |= 1 << (i % 64)
}
