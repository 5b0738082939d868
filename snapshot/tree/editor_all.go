package tree

import "golang.org/x/sys/unix"

// A RemovedFunc is called for a name that an Editor removed, and with what it led to: as it was
// before if that was its last name.
type RemovedFunc func(parent uint64, name string, n *Inode, last bool)

// RemoveAll removes a name and, if it is a directory's, all that is in that: it calls removed
// for each name, for those in a directory before its own.
func (e *Editor) RemoveAll(parent uint64, name string, removed RemovedFunc) {
	if n := e.child(e.Own(parent), name); n.IsDir() {
		e.empty(n, removed)
	}
	if n, last := e.Remove(parent, name); e.err == nil {
		removed(parent, name, n, last)
	}
}

// empty removes what is in a directory. The directory itself is removed next, so its entries need
// not be.
func (e *Editor) empty(dir *Inode, removed RemovedFunc) {
	var names []string
	if e.err == nil {
		e.ok(dir.Dir.List(e.Source, 0, func(d Dirent, _ uint64) bool {
			names = append(names, d.Name)
			return true
		}))
	}
	for _, name := range names {
		n := e.child(dir, name)
		if n.IsDir() {
			e.empty(n, removed)
		}
		n, last := e.unlink(n.Ino, Link{Parent: dir.Ino, Name: name})
		if e.err != nil {
			return
		}
		removed(dir.Ino, name, n, last)
	}
}

// child returns what a name in a directory leads to.
func (e *Editor) child(dir *Inode, name string) *Inode {
	if e.err == nil {
		n, err := e.State.Lookup(e.Source, dir, name)
		if e.ok(err) {
			return n
		}
	}
	return &Inode{}
}

// Like returns a new inode, without a name, that is like another one.
func Like(from *Inode, ino uint64, now int64) *Inode {
	n := &Inode{
		Ino: ino, Mode: from.Mode, Nlink: 1, Rdev: from.Rdev, Target: from.Target, Content: from.Content, Btime: now,
	}
	if n.IsDir() {
		n.Nlink = 2
	}
	n.SetAttrs(from, now)
	return n
}

// SetAttrs gives an inode the attributes of another.
func (n *Inode) SetAttrs(from *Inode, now int64) {
	n.Mode = n.Mode&unix.S_IFMT | from.Mode&^unix.S_IFMT
	n.UID, n.GID = from.UID, from.GID
	n.Xattrs = from.Xattrs
	n.Ctime = now
	n.Atime, n.Mtime = from.Atime, from.Mtime
}
