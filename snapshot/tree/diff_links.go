package tree

import "strings"

// linksDiffer says whether the files at one path differ in their hard links. It
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
	v, err := d.strays(d.a, x, d.b, y.Ino)
	if err == nil && !v {
		v, err = d.strays(d.b, y, d.a, x.Ino)
	}
	if err != nil {
		return false, err
	}
	d.groups[key] = v
	return v, nil
}

// strays says whether a path of n in s is a file other than ino in o.
func (d *differ) strays(s *State, n *Inode, o *State, ino uint64) (bool, error) {
	paths, err := s.Paths(d.src, n)
	if err != nil {
		return false, err
	}
	for _, p := range paths {
		m, err := o.find(d.src, p)
		if err != nil {
			return false, err
		}
		if m != nil && !m.IsDir() && m.Ino != ino {
			return true, nil
		}
	}
	return false, nil
}

// find resolves a path that need not exist; nil if it does not.
func (s *State) find(src *Source, path string) (*Inode, error) {
	n, err := s.Get(src, RootIno)
	for name := range strings.SplitSeq(path, "/") {
		if err != nil || !n.IsDir() {
			return nil, err
		}
		e, ok, lerr := n.Dir.Lookup(src, name)
		if lerr != nil || !ok {
			return nil, lerr
		}
		n, err = s.Get(src, e.Ino)
	}
	return n, err
}
