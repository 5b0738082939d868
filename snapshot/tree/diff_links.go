package tree

// A Pairing finds, for directories of one state, those of another at the same path.
type Pairing struct {
	src      *Source
	from, to *State
	known    map[uint64]uint64 // 0: there is none
}

// NewPairing begins one in which the root of from stands for a directory of to.
func NewPairing(src *Source, from, to *State, root uint64) *Pairing {
	return &Pairing{src: src, from: from, to: to, known: map[uint64]uint64{RootIno: root}}
}

// dir returns the number of the directory that stands for one of from, 0 if there
// is none. depth bounds the recursion.
func (p *Pairing) dir(ino uint64, depth int) (uint64, error) {
	if other, ok := p.known[ino]; ok {
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
	p.known[ino] = 0
	if m, err := p.entry(above, l.Name); err != nil {
		return 0, err
	} else if m != nil && m.IsDir() {
		p.known[ino] = m.Ino
	}
	return p.known[ino], nil
}

// File returns what is in to at one of the paths of a file of from, nil if nothing is.
func (p *Pairing) File(l Link) (*Inode, error) {
	dir, err := p.dir(l.Parent, 0)
	if err != nil {
		return nil, err
	}
	return p.entry(dir, l.Name)
}

func (p *Pairing) entry(dir uint64, name string) (*Inode, error) {
	if dir == 0 {
		return nil, nil
	}
	n, err := p.to.Get(p.src, dir)
	if err != nil {
		return nil, err
	}
	return p.to.find(p.src, n, name)
}

// linksDiffer reports whether the files at one path differ in their hard links. It
// does not depend on the path, so the answer is kept for each pair of inodes.
func (d *differ) linksDiffer(x, y *Inode) (bool, error) {
	if x.Nlink != y.Nlink {
		return true, nil
	}
	if x.Ino == y.Ino || len(x.Links) < 2 && len(y.Links) < 2 {
		return false, nil
	}
	key := [2]uint64{x.Ino, y.Ino}
	if v, ok := d.groups[key]; ok {
		return v, nil
	}
	v, err := isOther(d.aToB, x, y.Ino)
	if err == nil && !v {
		v, err = isOther(d.bToA, y, x.Ino)
	}
	if err != nil {
		return false, err
	}
	d.groups[key] = v
	return v, nil
}

// isOther reports whether the other state has a file other than ino at one of n's paths.
func isOther(p *Pairing, n *Inode, ino uint64) (bool, error) {
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
