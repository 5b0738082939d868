package live

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// applyStep makes a change of an edit, for a request and for recovery. wentAway is called
// for each name that it removes, those in a directory before its own.
func (f *Forest) applyStep(v *view, r *record, wentAway func(parent uint64, name string, n *tree.Inode, last bool)) error {
	switch r.kind {
	case recUnlink:
		return f.dropTree(v, r.parent, r.name, r.time, wentAway)
	case recLink:
		n, err := f.own(v, r.ino)
		if err != nil {
			return err
		}
		n.Ctime = r.time
		return f.addName(v, r.parent, r.name, n, r.time)
	case recPut:
		return f.addNode(v, r.parent, r.name, r.node, r.time)
	case recSetAll:
		n, err := f.own(v, r.node.Ino)
		if err != nil {
			return err
		}
		setAttrsOf(n, r.node, r.time)
		return nil
	}
	return fmt.Errorf("%w: a step of type %d", tree.ErrMalformed, r.kind)
}

// dropTree removes a name and, if it is a directory's, all that is in that.
func (f *Forest) dropTree(v *view, parent uint64, name string, t int64, wentAway func(uint64, string, *tree.Inode, bool)) error {
	dir, err := v.state.Get(f.source(v), parent)
	if err != nil {
		return loadError(err)
	}
	n, err := v.state.Lookup(f.source(v), dir, name)
	if err != nil {
		return loadError(err)
	}
	if n.IsDir() {
		if err := f.dropBelow(v, n, t, wentAway); err != nil {
			return err
		}
	}
	n, last, err := f.dropName(v, parent, name, t)
	if err == nil {
		wentAway(parent, name, n, last)
	}
	return err
}

// dropBelow removes what is in a directory, whose own entries stay: it goes itself.
func (f *Forest) dropBelow(v *view, dir *tree.Inode, t int64, wentAway func(uint64, string, *tree.Inode, bool)) error {
	var names []string
	if err := dir.Dir.List(f.source(v), 0, func(e tree.Dirent, _ uint64) bool {
		names = append(names, e.Name)
		return true
	}); err != nil {
		return loadError(err)
	}
	for _, name := range names {
		n, err := v.state.Lookup(f.source(v), dir, name)
		if err != nil {
			return loadError(err)
		}
		if n.IsDir() {
			if err := f.dropBelow(v, n, t, wentAway); err != nil {
				return err
			}
		}
		n, last, err := f.dropLink(v, n.Ino, tree.Link{Parent: dir.Ino, Name: name}, t)
		if err != nil {
			return err
		}
		wentAway(dir.Ino, name, n, last)
	}
	return nil
}

// newLike makes an inode without a name that is like another.
func newLike(from *tree.Inode, ino uint64, now int64) *tree.Inode {
	n := &tree.Inode{
		Ino: ino, Mode: from.Mode, Nlink: 1, Rdev: from.Rdev, Target: from.Target, Content: from.Content, Btime: now,
	}
	if n.IsDir() {
		n.Nlink = 2
	}
	setAttrsOf(n, from, now)
	return n
}

// setAttrsOf gives an inode the attributes of another.
func setAttrsOf(n, from *tree.Inode, now int64) {
	n.Mode = n.Mode&unix.S_IFMT | from.Mode&^unix.S_IFMT
	n.UID, n.GID = from.UID, from.GID
	n.Xattrs = from.Xattrs
	n.Ctime = now
	n.Atime, n.Mtime = from.Atime, from.Mtime
}
