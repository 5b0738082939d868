package tree

import (
	"slices"
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// tableLeaf holds the inodes of 64 numbers in a row. One is in a cell while an epoch
// changes it, else it is a record: as it was loaded, or packed when it had not been
// changed for a while (State.Pack). A record is decoded when the inode is asked for.
// Those that were loaded are copied unread when the leaf is sealed.
type tableLeaf struct {
	number uint64 // of the first inode, divided by 64
	cells  *[tableFan]*Inode
	raw    []byte
	lo, hi [tableFan]uint32            // record i is raw[lo[i]:hi[i]]; hi[i] is 0 when there is none
	long   uint64                      // bit i: record i only names the objects that hold the real one
	files  *[tableFan]*content.Content // what packed records have, which say nothing of it
	fresh  int                         // cells filled since the leaf was copied or packed
}

// cell returns the inode of slot i if it is in memory as such.
func (l *tableLeaf) cell(i int) *Inode {
	if l.cells == nil {
		return nil
	}
	return l.cells[i]
}

// file returns the content of the inode whose record slot i has, nil if the record
// says all.
func (l *tableLeaf) file(i int) *content.Content {
	if l.files == nil {
		return nil
	}
	return l.files[i]
}

// content returns the content that slot i has in memory, nil if its record says all.
func (l *tableLeaf) content(i int) *content.Content {
	if n := l.cell(i); n != nil {
		return n.Content
	}
	return l.file(i)
}

// clone returns a copy that an epoch may change.
func (l *tableLeaf) clone() *tableLeaf {
	c := *l
	c.fresh = 0
	if l.cells != nil {
		cells := *l.cells
		c.cells = &cells
	}
	if l.files != nil {
		files := *l.files
		c.files = &files
	}
	return &c
}

// has reports whether slot i holds an inode.
func (l *tableLeaf) has(i int) bool { return l.hi[i] != 0 || l.cell(i) != nil }

// record returns the encoded inode of slot i, nil if it is in memory or absent.
func (l *tableLeaf) record(i int) []byte { return l.raw[l.lo[i]:l.hi[i]] }

// get returns the inode of slot i, nil if there is none.
func (l *tableLeaf) get(src *Source, i int, ino uint64) (*Inode, error) {
	if n := l.cell(i); n != nil || l.hi[i] == 0 {
		return n, nil
	}
	if l.long&(1<<i) != 0 {
		return loadInode(src, ino, l.record(i))
	}
	c := l.file(i)
	if c == nil {
		return src.recent.get(ino, l.record(i))
	}
	n, err := decodeInode(ino, l.record(i))
	if err == nil {
		n.Content = c
	}
	return n, err
}

// recentInodes are inodes that were decoded a moment ago: of a file that is listed and
// read the inode is asked for several times. One is found by where its record lies in
// memory, which the entry keeps there.
type recentInodes [256]atomic.Pointer[recentInode]

type recentInode struct {
	record *byte
	inode  *Inode
}

// get returns the inode of a record that says all.
func (r *recentInodes) get(ino uint64, record []byte) (*Inode, error) {
	e := &r[ino%uint64(len(r))]
	if have := e.Load(); have != nil && have.record == &record[0] {
		return have.inode, nil
	}
	n, err := decodeInode(ino, record)
	if err == nil {
		e.Store(&recentInode{&record[0], n})
	}
	return n, err
}

// sameRecord reports whether slot i of both leaves is known to hold the same.
func (l *tableLeaf) sameRecord(o *tableLeaf, i int) bool {
	if n, m := l.cell(i), o.cell(i); n != nil || m != nil {
		return n == m
	}
	return (l.long^o.long)&(1<<i) == 0 && l.file(i) == o.file(i) && string(l.record(i)) == string(o.record(i))
}

func (l *tableLeaf) set(i int, n *Inode) {
	if l.cells == nil && n != nil {
		l.cells = new([tableFan]*Inode)
	}
	if l.cells != nil {
		l.cells[i] = n
	}
	if l.files != nil {
		l.files[i] = nil
	}
	l.lo[i], l.hi[i] = 0, 0
	l.long &^= 1 << i
}

func (l *tableLeaf) empty() bool {
	for i := range tableFan {
		if l.has(i) {
			return false
		}
	}
	return true
}

// unsealed returns what slot i refers to and is in memory only: the entries of a
// directory, or the content of a file.
func (l *tableLeaf) unsealed(i int) (dir *page, c *content.Content) {
	c = l.file(i)
	if n := l.cell(i); n != nil {
		dir, c = n.Dir.root, n.Content
	}
	if dir.unsealed() == nil {
		dir = nil
	}
	if c.Sealed() != nil {
		c = nil
	}
	return dir, c
}

const (
	// packFrom is how many inodes have come into the cells of a leaf before it is
	// packed: that copies all records of the leaf.
	packFrom = 16
	// packAfter is how many such leaves there are before the first is packed, which
	// is after a thousand inodes at least: a file is changed mostly right after it
	// was made, or again and again.
	packAfter = 64
	// packAtOnce is how many Pack packs, as others wait.
	packAtOnce = 2
)

// A packer knows what State.Pack is to look at.
type packer struct {
	crowded  []uint64     // numbers of leaves
	out, rec wire.Encoder // for reuse
}

// fill puts an inode into a cell.
func (s *State) fill(l *tableLeaf, i int, n *Inode) {
	l.set(i, n)
	if l.fresh++; l.fresh == packFrom {
		if s.packer == nil {
			s.packer = new(packer)
		}
		s.packer.crowded = append(s.packer.crowded, l.number)
	}
}

// Pack makes records of inodes that were changed some time ago: a file then takes less
// than half. It is for the owner of epoch to call now and then, while no inode that
// Own returned is going to be changed.
func (s *State) Pack(epoch uint64) {
	p := s.packer
	for range packAtOnce {
		if p == nil || len(p.crowded) <= packAfter {
			return
		}
		number := p.crowded[0]
		p.crowded = p.crowded[1:]
		if l := s.ownedLeaf(epoch, number*tableFan); l != nil {
			p.pack(l)
		}
	}
}

// ownedLeaf returns the leaf that ino belongs in if it is epoch's own, else nil.
func (s *State) ownedLeaf(epoch, ino uint64) *tableLeaf {
	if heightFor(ino) > s.height {
		return nil
	}
	p := s.root
	for h := s.height; p != nil && p.epoch == epoch; h-- {
		b := p.mem.Load()
		if b == nil {
			return nil
		}
		if h == 1 {
			return b.leaf
		}
		p = b.kids[slot(ino, h)]
	}
	return nil
}

// pack makes records of all cells but those of directories, which refer to pages in
// memory, and of inodes whose records stand alone.
func (p *packer) pack(l *tableLeaf) {
	l.fresh = 0
	if l.cells == nil {
		return
	}
	p.out.Reset()
	files, kept := new([tableFan]*content.Content), false
	for i := range tableFan {
		n := l.cells[i]
		files[i] = l.file(i)
		if n == nil {
			old := l.record(i)
			l.lo[i], l.hi[i] = appendRecord(&p.out, old)
			continue
		}
		p.rec.Reset()
		sealed := n.Content.Sealed()
		if !n.IsDir() && sealed != nil {
			encodeInode(&p.rec, n, sealedContent(n.Content))
		} else if !n.IsDir() {
			encodeInode(&p.rec, n, nil)
		}
		if p.rec.Len() == 0 || p.rec.Len() > maxRecord {
			kept = true
			continue
		}
		l.lo[i], l.hi[i] = appendRecord(&p.out, p.rec.Out())
		l.cells[i] = nil
		if sealed == nil {
			files[i] = n.Content
		}
	}
	l.raw, l.files = slices.Clone(p.out.Out()), files
	if !kept {
		l.cells = nil
	}
}

// appendRecord appends a record, if there is one, and returns where.
func appendRecord(to *wire.Encoder, rec []byte) (lo, hi uint32) {
	if len(rec) == 0 {
		return 0, 0
	}
	lo = uint32(to.Len())
	to.Raw(rec)
	return lo, uint32(to.Len())
}
