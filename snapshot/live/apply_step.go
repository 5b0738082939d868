package live

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// applyStep makes a change of an edit, for a request and for recovery. wentAway is called
// for each name that it removes, those in a directory before its own.
func (v *view) applyStep(r *record, wentAway func(parent uint64, name string, n *tree.Inode, last bool)) error {
	switch r.kind {
	case recUnlink:
		return v.dropTree(r.parent, r.name, r.time, wentAway)
	case recLink:
		n, err := v.own(r.ino)
		if err != nil {
			return err
		}
		n.Ctime = r.time
		return v.addName(r.parent, r.name, n, r.time)
	case recPut:
		return v.addNode(r.parent, r.name, r.node, r.time)
	case recSetAll:
		n, err := v.own(r.node.Ino)
		if err != nil {
			return err
		}
		setAttrsOf(n, r.node, r.time)
		return nil
	}
	return fmt.Errorf("%w: a step of type %d", tree.ErrMalformed, r.kind)
}

// dropTree removes a name and, if it is a directory's, all that is in that.
func (v *view) dropTree(parent uint64, name string, t int64, wentAway func(uint64, string, *tree.Inode, bool)) error {
	dir, err := v.state.Get(v.source(), parent)
	if err != nil {
		return loadError(err)
	}
	n, err := v.state.Lookup(v.source(), dir, name)
	if err != nil {
		return loadError(err)
	}
	if n.IsDir() {
		if err := v.dropBelow(n, t, wentAway); err != nil {
			return err
		}
	}
	n, last, err := v.dropName(parent, name, t)
	if err == nil {
		wentAway(parent, name, n, last)
	}
	return err
}

// dropBelow removes what is in a directory, whose own entries stay: it goes itself.
func (v *view) dropBelow(dir *tree.Inode, t int64, wentAway func(uint64, string, *tree.Inode, bool)) error {
	var names []string
	if err := dir.Dir.List(v.source(), 0, func(e tree.Dirent, _ uint64) bool {
		names = append(names, e.Name)
		return true
	}); err != nil {
		return loadError(err)
	}
	for _, name := range names {
		n, err := v.state.Lookup(v.source(), dir, name)
		if err != nil {
			return loadError(err)
		}
		if n.IsDir() {
			if err := v.dropBelow(n, t, wentAway); err != nil {
				return err
			}
		}
		n, last, err := v.dropLink(n.Ino, tree.Link{Parent: dir.Ino, Name: name}, t)
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
