package tree

// tableLeaf holds the inodes of 64 numbers in a row. One that was changed since the
// leaf was loaded is in a cell. Any other is a record, which is decoded when the inode
// is asked for, and copied unread when the leaf is sealed.
type tableLeaf struct {
	number uint64 // of the first inode, divided by 64
	cells  *[tableFan]*Inode
	raw    []byte
	lo, hi [tableFan]uint32 // record i is raw[lo[i]:hi[i]]; hi[i] is 0 when there is none
	long   uint64           // bit i: record i is the hashes of the pieces of a long record
}

// cell returns the inode of slot i if it is decoded.
func (l *tableLeaf) cell(i int) *Inode {
	if l.cells == nil {
		return nil
	}
	return l.cells[i]
}

// clone returns a copy that an epoch may change.
func (l *tableLeaf) clone() *tableLeaf {
	c := *l
	if l.cells != nil {
		cells := *l.cells
		c.cells = &cells
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
	return decodeInode(ino, l.record(i))
}

// sameRecord reports whether slot i of both leaves is known to hold the same.
func (l *tableLeaf) sameRecord(o *tableLeaf, i int) bool {
	if n, m := l.cell(i), o.cell(i); n != nil || m != nil {
		return n == m
	}
	return (l.long^o.long)&(1<<i) == 0 && string(l.record(i)) == string(o.record(i))
}

// sameStored is sameRecord for inodes that are not decoded.
func (l *tableLeaf) sameStored(o *tableLeaf, i int) bool {
	return l.cell(i) == nil && o.cell(i) == nil && l.sameRecord(o, i)
}

func (l *tableLeaf) set(i int, n *Inode) {
	if l.cells == nil && n != nil {
		l.cells = new([tableFan]*Inode)
	}
	if l.cells != nil {
		l.cells[i] = n
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
