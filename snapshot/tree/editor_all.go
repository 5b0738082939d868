package tree

import "golang.org/x/sys/unix"

// A RemovedFunc is called for each name that an Editor removed. n and last are the results of
// Editor.Remove.
type RemovedFunc func(parent uint64, name string, n *Inode, last bool)

// RemoveAll removes a name and, if it is the name of a directory, all names below it. It calls removed for each
// name: first for the names in a directory, then for the directory's own name.
func (e *Editor) RemoveAll(parent uint64, name string, removed RemovedFunc) {
	if n := e.child(e.Own(parent), name); n.IsDir() {
		e.removeBelow(n, removed)
	}

	n, last := e.Remove(parent, name)
	if e.err != nil {
		return
	}
	removed(parent, name, n, last)
}

// removeBelow removes all inodes below a directory, as RemoveAll does. It keeps the entries in the directory,
// because the caller then removes the directory itself.
func (e *Editor) removeBelow(dir *Inode, removed RemovedFunc) {
	var names []string
	if e.err == nil {
		e.recordError(dir.Dir.List(e.Source, 0, func(d Dirent, _ uint64) bool {
			names = append(names, d.Name)
			return true
		}))
	}

	for _, name := range names {
		n := e.child(dir, name)
		if n.IsDir() {
			e.removeBelow(n, removed)
		}

		n, last := e.unlink(n.Ino, Link{Parent: dir.Ino, Name: name})
		if e.err != nil {
			return
		}
		removed(dir.Ino, name, n, last)
	}
}

// child returns the inode of a name in a directory. After an error it returns an inode that does not
// belong to the state.
func (e *Editor) child(dir *Inode, name string) *Inode {
	if e.err != nil {
		return &Inode{}
	}
	n, err := e.State.Lookup(e.Source, dir, name)
	if !e.recordError(err) {
		return &Inode{}
	}

	return n
}

// NewInodeLike returns a new inode with the number ino and with the type, content and attributes of another inode.
// It has no name, and a directory has no entries. now is its birth and change time.
func NewInodeLike(from *Inode, ino uint64, now int64) *Inode {
	n := &Inode{
		Ino: ino, Mode: from.Mode, Nlink: 1, Rdev: from.Rdev, Target: from.Target, Content: from.Content, Btime: now,
	}
	if n.IsDir() {
		n.Nlink = 2
	}

	n.SetAttrs(from, now)
	return n
}

// SetAttrs copies the permissions, owner, extended attributes, atime and mtime of another inode to n. now is the
// new change time.
func (n *Inode) SetAttrs(from *Inode, now int64) {
	n.Mode = n.Mode&unix.S_IFMT | from.Mode&^unix.S_IFMT
	n.UID, n.GID = from.UID, from.GID
	n.Xattrs = from.Xattrs
	n.Ctime = now
	n.Atime, n.Mtime = from.Atime, from.Mtime
}
