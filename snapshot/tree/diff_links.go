package tree

// A Pairing finds, for directories of one state, the directories of another state at the same paths.
type Pairing struct {
	src      *Source
	from, to *State
	dirs     map[uint64]uint64 // results of dir
}

// NewPairing returns a pairing that finds directories of the second state for directories of the first. root is the
// directory of the second state that corresponds to the root of the first.
func NewPairing(src *Source, from, to *State, root uint64) *Pairing {
	return &Pairing{src: src, from: from, to: to, dirs: map[uint64]uint64{RootIno: root}}
}

// dir returns the inode number of the directory of p.to at the path of ino, a directory of p.from; 0 if there is none.
// depth bounds the recursion.
func (p *Pairing) dir(ino uint64, depth int) (uint64, error) {
	if other, ok := p.dirs[ino]; ok {
		return other, nil
	}
	if depth == MaxDepth {
		return 0, ErrTooDeep
	}

	n, err := p.from.Get(p.src, ino)
	if err != nil {
		return 0, err
	}

	l, err := n.Parent()
	if err != nil {
		return 0, err
	}

	above, err := p.dir(l.Parent, depth+1)
	if err != nil {
		return 0, err
	}

	m, err := p.entry(above, l.Name)
	if err != nil {
		return 0, err
	}

	other := uint64(0)
	if m != nil && m.IsDir() {
		other = m.Ino
	}

	p.dirs[ino] = other

	return other, nil
}

// File returns the inode of p.to at the path of l, a name of a file of p.from; nil if the path does not exist in p.to.
func (p *Pairing) File(l Link) (*Inode, error) {
	dir, err := p.dir(l.Parent, 0)
	if err != nil {
		return nil, err
	}
	return p.entry(dir, l.Name)
}

// entry returns the inode of a name in a directory of p.to, nil if there is no such name or dir is 0.
func (p *Pairing) entry(dir uint64, name string) (*Inode, error) {
	if dir == 0 {
		return nil, nil
	}
	n, err := p.to.Get(p.src, dir)
	if err != nil {
		return nil, err
	}

	return p.to.lookupEntry(p.src, n, name)
}

// linksDiffer reports whether the files at one path differ in their hard links. The result depends
// only on the two inodes, so it is cached for each pair.
func (d *differ) linksDiffer(x, y *Inode) (bool, error) {
	if x.Nlink != y.Nlink {
		return true, nil
	}
	if x.Ino == y.Ino || len(x.Links) < 2 && len(y.Links) < 2 {
		return false, nil
	}

	key := [2]uint64{x.Ino, y.Ino}
	if v, ok := d.linkResults[key]; ok {
		return v, nil
	}

	v, err := hasOtherFile(d.aToB, x, y.Ino)
	if err != nil {
		return false, err
	}

	if !v {
		if v, err = hasOtherFile(d.bToA, y, x.Ino); err != nil {
			return false, err
		}
	}

	d.linkResults[key] = v

	return v, nil
}

// hasOtherFile reports whether the other state has a file other than ino at one of n's paths.
func hasOtherFile(p *Pairing, n *Inode, ino uint64) (bool, error) {
	for _, l := range n.Links {
		m, err := p.File(l)
		if err != nil {
			return false, err
		}
		if m != nil && !m.IsDir() && m.Ino != ino {
			return true, nil
		}
	}
	return false, nil
}
