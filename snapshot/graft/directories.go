package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// directories finds the directories of a state by path, and keeps the results.
type directories struct {
	src   *tree.Source
	state *tree.State
	known map[*tree.Path]uint64
}

func newDirectories(src *tree.Source, s *tree.State, root uint64) *directories {
	return &directories{src, s, map[*tree.Path]uint64{nil: root}}
}

// find returns the inode of the directory at a path. nil is the root.
func (d *directories) find(p *tree.Path) (uint64, error) {
	if ino, ok := d.known[p]; ok {
		return ino, nil
	}

	n, err := d.entry(p)
	if err != nil {
		return 0, err
	}
	if !n.IsDir() {
		return 0, tree.ErrNotDir
	}

	d.known[p] = n.Ino

	return n.Ino, nil
}

// entry returns the inode at a path other than the root.
func (d *directories) entry(p *tree.Path) (*tree.Inode, error) {
	ino, err := d.find(p.Dir)
	if err != nil {
		return nil, err
	}

	dir, err := d.state.Get(d.src, ino)
	if err != nil {
		return nil, tree.LoadError(err)
	}

	n, err := d.state.Lookup(d.src, dir, p.Name)
	return n, tree.LoadError(err)
}
