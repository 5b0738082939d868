package tree

// A tableLeaf has the inodes of 64 consecutive numbers. Inodes that were added or changed since the leaf was
// loaded are in cells. The other inodes are encoded records: get decodes a record each time, and sealing copies
// it without decoding.
type tableLeaf struct {
	index  uint64               // the number of the first inode, divided by 64
	cells  *[tableFanout]*Inode // decoded inodes, by slot; see tableLeaf
	raw    []byte
	lo, hi [tableFanout]uint32 // record i is raw[lo[i]:hi[i]]; hi[i] is 0 without a record
	long   uint64              // bit i: record i is a long one, and raw has the hashes of its pieces
}

// cell returns the decoded inode of slot i. It returns nil if the slot has an encoded record or no inode.
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

// has reports whether slot i has an inode.
func (l *tableLeaf) has(i int) bool { return l.hi[i] != 0 || l.cell(i) != nil }

// record returns the encoded inode of slot i. It returns an empty slice if the slot has a decoded inode (a cell) or no
// inode.
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

// sameInode reports whether slot i of both leaves is known to have equal inodes.
func (l *tableLeaf) sameInode(o *tableLeaf, i int) bool {
	if n, m := l.cell(i), o.cell(i); n != nil || m != nil {
		return n == m
	}
	return (l.long^o.long)&(1<<i) == 0 && string(l.record(i)) == string(o.record(i))
}

// sameRecord reports whether slot i of both leaves has equal records.
func (l *tableLeaf) sameRecord(o *tableLeaf, i int) bool {
	return l.cell(i) == nil && o.cell(i) == nil && l.sameInode(o, i)
}

// set puts n into slot i, or empties the slot if n is nil.
func (l *tableLeaf) set(i int, n *Inode) {
	if l.cells == nil && n != nil {
		l.cells = new([tableFanout]*Inode)
	}
	if l.cells != nil {
		l.cells[i] = n
	}

	l.lo[i], l.hi[i] = 0, 0
	l.long &^= 1 << i
}

func (l *tableLeaf) isEmpty() bool {
	for i := range tableFanout {
		if l.has(i) {
			return false
		}
	}
	return true
}
