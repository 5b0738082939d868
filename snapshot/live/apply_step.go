package live

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// applyStep makes a change of an edit, for a request and for recovery. wentAway is called
// for each name that it removes, those in a directory before its own.
func (v *view) applyStep(r *record, wentAway goneFunc) error {
	c := &applying{v: v, t: r.time}
	switch r.kind {
	case recUnlink:
		c.dropTree(r.parent, r.name, wentAway)
	case recLink:
		c.addName(r.parent, r.name, r.ino)
	case recPut:
		c.addNode(r.parent, r.name, r.node)
	case recSetAll:
		setAttrsOf(c.own(r.node.Ino), r.node, r.time)
	default:
		return fmt.Errorf("%w: a step of type %d", tree.ErrMalformed, r.kind)
	}
	return c.err
}

type goneFunc func(parent uint64, name string, n *tree.Inode, last bool)

// child returns what a name in a directory leads to.
func (c *applying) child(dir *tree.Inode, name string) *tree.Inode {
	if c.err == nil {
		n, err := c.v.state.Lookup(c.v.source(), dir, name)
		if c.ok(err) {
			return n
		}
	}
	return &tree.Inode{}
}

// dropTree removes a name and, if it is a directory's, all that is in that.
func (c *applying) dropTree(parent uint64, name string, wentAway goneFunc) {
	if n := c.child(c.own(parent), name); n.IsDir() {
		c.dropBelow(n, wentAway)
	}
	if n, last := c.dropName(parent, name); c.err == nil {
		wentAway(parent, name, n, last)
	}
}

// dropBelow removes what is in a directory, whose own entries stay: it goes itself.
func (c *applying) dropBelow(dir *tree.Inode, wentAway goneFunc) {
	var names []string
	if c.err == nil {
		c.ok(dir.Dir.List(c.v.source(), 0, func(e tree.Dirent, _ uint64) bool {
			names = append(names, e.Name)
			return true
		}))
	}
	for _, name := range names {
		n := c.child(dir, name)
		if n.IsDir() {
			c.dropBelow(n, wentAway)
		}
		n, last := c.dropLink(n.Ino, tree.Link{Parent: dir.Ino, Name: name})
		if c.err != nil {
			return
		}
		wentAway(dir.Ino, name, n, last)
	}
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
