package live

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// maxLinks is the largest number of names of a file, and of directories in a directory. The value
// is the limit of ext4.
const maxLinks = 65000

// NewNode has the attributes of a new node.
type NewNode struct {
	Mode   uint32 // S_IFMT and permissions
	Rdev   uint32
	Target string // of a symlink
	Caller actors.Caller
	Xattrs []tree.Xattr // sorted by name
}

// Lookup returns the attributes of the node of a name in a directory.
func (r Reader) Lookup(parent NodeID, name string) (Attr, error) {
	if len(name) > 255 {
		return Attr{}, errs.NameTooLong
	}
	return readInode(r.trees, parent, func(dir *tree.Inode) (Attr, error) {
		if !dir.IsDir() {
			return Attr{}, errs.NotDir
		}
		s, err := r.trees.stateOf(parent)
		if err != nil {
			return Attr{}, err
		}

		n, err := s.Lookup(r.trees.residentSrc, dir, name)
		if err != nil {
			return Attr{}, tree.LoadError(err)
		}

		return attrOf(parent.View(), n), nil
	})
}

// changeableDir returns the view and the inode of a directory, for a change of its entries. The caller holds the
// forest's lock.
func (t *trees) changeableDir(id NodeID) (*view, *tree.Inode, error) {
	v, n, err := t.changeableInode(id)
	switch {
	case err != nil:
	case n.Nlink == 0:
		err = errs.NotExist // a removed directory to which a process still refers
	case !n.IsDir():
		err = errs.NotDir
	}

	return v, n, err
}

// dirWithoutEntry returns a directory as changeableDir does. The error is errs.Exist if the directory has an entry with
// the given name.
func (t *trees) dirWithoutEntry(parent NodeID, name string) (*view, *tree.Inode, error) {
	if err := tree.CheckName(name); err != nil {
		return nil, nil, err
	}

	v, dir, err := t.changeableDir(parent)
	if err != nil {
		return nil, nil, err
	}

	_, found, err := dir.Dir.Lookup(t.residentSrc, name)
	if err != nil {
		return nil, nil, tree.LoadError(err)
	}
	if found {
		return nil, nil, errs.Exist
	}

	return v, dir, nil
}

// dirWithEntry returns a directory as changeableDir does, and the inode of its entry with the given name. The error is
// errs.NotExist if there is no such entry.
func (t *trees) dirWithEntry(parent NodeID, name string) (*view, *tree.Inode, *tree.Inode, error) {
	if err := tree.CheckName(name); err != nil {
		return nil, nil, nil, err
	}

	v, dir, err := t.changeableDir(parent)
	if err != nil {
		return nil, nil, nil, err
	}

	n, err := v.state.Lookup(t.residentSrc, dir, name)
	if err != nil {
		return nil, nil, nil, tree.LoadError(err)
	}

	return v, dir, n, nil
}

// inheritGroup applies the set-group-ID bit of a directory to a new node in it, as
// inode_init_owner in the kernel does.
func inheritGroup(dir *tree.Inode, c *NewNode) {
	if dir.Mode&unix.S_ISGID == 0 {
		return
	}
	c.Caller.GID = dir.GID
	if c.Mode&unix.S_IFMT == unix.S_IFDIR {
		c.Mode |= unix.S_ISGID
	}
}

// Create creates a file, directory, symbolic link or special node.
func (w Writer) Create(parent NodeID, name string, c NewNode) (Attr, error) {
	return w.create(parent, name, c, w.trees.dirWithoutEntry)
}

// Tmpfile creates a file without a name. Link may give it a name later.
func (w Writer) Tmpfile(parent NodeID, c NewNode) (Attr, error) {
	return w.create(parent, "", c, func(id NodeID, _ string) (*view, *tree.Inode, error) { return w.trees.changeableDir(id) })
}

// create creates a node in the directory that findDir returns. With an empty name, the node has no
// name.
func (w Writer) create(parent NodeID, name string, c NewNode, findDir func(NodeID, string) (*view, *tree.Inode, error)) (a Attr, err error) {
	if err := w.trees.admit(parent.View(), 0); err != nil {
		return Attr{}, err
	}

	err = w.change(parent, func() error {
		v, dir, err := findDir(parent, name)
		if err != nil {
			return err
		}

		c, depth := c, 0
		switch c.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			if c.Target == "" || len(c.Target) > 4095 {
				return errs.NameTooLong
			}
		case unix.S_IFDIR:
			if dir.Nlink >= maxLinks {
				return errs.TooManyLinks
			}
			if depth, err = v.state.DepthWith(w.trees.residentSrc, parent.Ino(), 0); err != nil {
				return err
			}
		}

		inheritGroup(dir, &c)
		ino, err := v.newIno()
		if err != nil {
			return err
		}

		r := record{kind: recCreate, view: v.id, time: now(), parent: parent.Ino(), name: name, ino: ino, create: c, depth: depth}
		a, err = v.commitAndGetAttr(&r)
		return err
	})

	return a, err
}

// newInode returns a new inode with all times t.
func newInode(ino uint64, c *NewNode, t int64) *tree.Inode {
	n := &tree.Inode{
		Ino: ino, Mode: c.Mode, UID: c.Caller.UID, GID: c.Caller.GID, Nlink: 1, Rdev: c.Rdev,
		Atime: t, Mtime: t, Ctime: t, Btime: t, Target: c.Target, Xattrs: c.Xattrs,
	}
	if n.IsDir() {
		n.Nlink = 2
	}

	return n
}

// Link gives a file another name.
func (w Writer) Link(id, newParent NodeID, name string) (a Attr, err error) {
	if id.View() != newParent.View() {
		return Attr{}, errs.CrossDevice
	}
	if err := w.trees.admit(id.View(), 0); err != nil {
		return Attr{}, err
	}

	err = w.change(id, func() error {
		v, _, err := w.trees.dirWithoutEntry(newParent, name)
		if err != nil {
			return err
		}

		n, err := v.inode(id.Ino())
		if err != nil {
			return err
		}
		if n.IsDir() {
			return errs.Perm
		}
		if n.Nlink >= maxLinks {
			return errs.TooManyLinks
		}

		r := record{kind: recLink, view: v.id, time: now(), ino: n.Ino, parent: newParent.Ino(), name: name}
		a, err = v.commitAndGetAttr(&r)
		return err
	})

	return a, err
}

// commitAndGetAttr commits a change, and returns the attributes of its inode afterwards.
func (v *view) commitAndGetAttr(r *record) (Attr, error) {
	if err := v.commit(r, nil); err != nil {
		return Attr{}, err
	}

	v.trees.mu.inApply = true // wait for objects: an Unread error would make the caller repeat the change
	defer func() { v.trees.mu.inApply = false }()

	n, err := v.inode(r.ino)
	if err != nil {
		return Attr{}, err
	}

	return attrOf(v.id, n), nil
}

// Unlink removes the name of a file that is not a directory, and returns the node of the name.
func (w Writer) Unlink(parent NodeID, name string) (NodeID, error) {
	return w.remove(parent, name, false)
}

// Rmdir removes an empty directory and returns its node.
func (w Writer) Rmdir(parent NodeID, name string) (NodeID, error) {
	return w.remove(parent, name, true)
}

// remove removes a name. If isDir is set, the name must be a directory, else it must not be one.
func (w Writer) remove(parent NodeID, name string, isDir bool) (removed NodeID, err error) {
	err = w.change(parent, func() error {
		v, _, n, err := w.trees.dirWithEntry(parent, name)
		if err != nil {
			return err
		}

		switch {
		case !isDir && n.IsDir():
			return errs.IsDir
		case isDir && !n.IsDir():
			return errs.NotDir
		case isDir && n.Dir.Len() > 0:
			return errs.NotEmpty
		}

		removed = Node(v.id, n.Ino)
		r := record{kind: recUnlink, view: v.id, time: now(), parent: parent.Ino(), name: name}
		return v.commit(&r, nil)
	})
	return removed, err
}

// Rename moves oldName in the directory oldParent to newName in the directory newParent. flags are the flags of
// renameat2(2). With RENAME_WHITEOUT the old name becomes a character device 0:0 that the caller c owns, which
// overlayfs reads as a deleted name. Rename returns the node that was replaced, or 0.
func (w Writer) Rename(oldParent NodeID, oldName string, newParent NodeID, newName string, flags uint32, c actors.Caller) (replaced NodeID, err error) {
	const exchange, whiteout = unix.RENAME_EXCHANGE, unix.RENAME_WHITEOUT
	if flags&^(unix.RENAME_NOREPLACE|exchange|whiteout) != 0 || flags&exchange != 0 && flags != exchange {
		return 0, errs.Invalid
	}
	if oldParent.View() != newParent.View() {
		return 0, errs.CrossDevice
	}

	if flags&whiteout != 0 {
		if err := w.trees.admit(oldParent.View(), 0); err != nil {
			return 0, err
		}
	}

	err = w.change(oldParent, func() error {
		v, oldDir, n, err := w.trees.dirWithEntry(oldParent, oldName)
		if err != nil {
			return err
		}
		if err := tree.CheckName(newName); err != nil {
			return err
		}

		_, newDir, err := w.trees.changeableDir(newParent)
		if err != nil {
			return err
		}

		old, err := v.state.Lookup(w.trees.residentSrc, newDir, newName)
		if err = tree.LoadError(err); errors.Is(err, errs.NotExist) {
			old = nil
		} else if err != nil {
			return err
		}

		same, depth, err := v.state.CheckRename(w.trees.residentSrc, n, old, oldParent.Ino(), newParent.Ino(), flags)
		if err != nil || same {
			return err
		}

		r := record{kind: recRename, view: v.id, time: now(), parent: oldParent.Ino(), name: oldName, newLink: tree.Link{Parent: newParent.Ino(), Name: newName}, flags: flags, depth: depth}
		if flags&whiteout != 0 {
			r.create = NewNode{Mode: unix.S_IFCHR, Caller: c}
			inheritGroup(oldDir, &r.create)
			if r.ino, err = v.newIno(); err != nil {
				return err
			}
		}

		if err := v.commit(&r, nil); err != nil {
			return err
		}
		if old != nil && flags&exchange == 0 {
			replaced = Node(v.id, old.Ino)
		}

		return nil
	})

	return replaced, err
}
