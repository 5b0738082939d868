package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// A dirFinder finds the directories of a state by path, and keeps the results.
type dirFinder struct {
	src   *tree.Source
	state *tree.State
	found map[*tree.Path]uint64
}

func newDirFinder(src *tree.Source, s *tree.State, root uint64) *dirFinder {
	return &dirFinder{src, s, map[*tree.Path]uint64{nil: root}}
}

// findDir returns the inode number of the directory at a path. A nil path is the root.
func (d *dirFinder) findDir(p *tree.Path) (uint64, error) {
	if ino, ok := d.found[p]; ok {
		return ino, nil
	}

	n, err := d.findInode(p)
	if err != nil {
		return 0, err
	}
	if !n.IsDir() {
		return 0, tree.ErrNotDir
	}

	d.found[p] = n.Ino

	return n.Ino, nil
}

// findInode returns the inode at a path other than the root.
func (d *dirFinder) findInode(p *tree.Path) (*tree.Inode, error) {
	ino, err := d.findDir(p.Dir)
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
