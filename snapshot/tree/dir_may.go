package tree

import "slices"

// MayInsert returns the error that Insert of names would end with which are not
// there: all that it reads is read.
func (d *Dir) MayInsert(src *Source, names ...string) error {
	var more map[uint64]int // of one hash
	if len(names) > 1 {
		more = make(map[uint64]int, len(names))
	}
	for _, name := range names {
		hash := hashName(name)
		same, err := d.countHash(src, hash)
		if err != nil {
			return err
		}
		if more != nil {
			same += more[hash]
			more[hash]++
		}
		if same >= maxCollisions {
			return ErrDirFull
		}
	}
	return nil
}

// countHash returns how many names there are of a hash.
func (d *Dir) countHash(src *Source, hash uint64) (n int, err error) {
	p := d.root
	for depth := 0; p != nil; depth++ {
		b, err := p.loadDir(src, depth, true)
		if err != nil {
			return 0, err
		}
		if b.kind == kindDirLeaf {
			for i, _ := search(b.ents, hash, ""); i < len(b.ents) && b.ents[i].hash == hash; i++ {
				n++
			}
			break
		}
		p = b.kids[nibble(hash, depth)]
	}
	return n, nil
}

// MayRemove returns the error that Remove of names would end with which are there,
// one after the other: all that it reads is read.
func (d *Dir) MayRemove(src *Source, names ...string) error {
	if d.root == nil {
		return nil
	}
	gone := make([]dirent, len(names))
	for i, name := range names {
		gone[i].hash = hashName(name)
	}
	slices.SortFunc(gone, func(a, b dirent) int {
		if a.hash < b.hash {
			return -1
		}
		return int(min(a.hash-b.hash, 1))
	})
	return mayRemoveBelow(src, d.root, 0, gone)
}

func mayRemoveBelow(src *Source, p *page, depth int, gone []dirent) error {
	b, err := p.loadDir(src, depth, true)
	if err != nil || b.kind == kindDirLeaf {
		return err
	}
	if p.n <= maxDirLeaf+len(gone) { // what is beneath becomes one page
		_, err := appendEntries(src, p, depth, nil)
		return err
	}
	for i, part := range splitDir(gone, depth) {
		if len(part) > 0 && b.kids[i] != nil {
			if err := mayRemoveBelow(src, b.kids[i], depth+1, part); err != nil {
				return err
			}
		}
	}
	return nil
}
