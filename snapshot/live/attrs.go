package live

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// SetAttr has the new values of the attributes that change.
type SetAttr = tree.SetAttr

// GetAttr returns the attributes of a node.
func (r Reader) GetAttr(id NodeID) (Attr, error) {
	return readInode(r.trees, id, func(n *tree.Inode) (Attr, error) { return attrOf(id.View(), n), nil })
}

// readInode calls fn with the inode of a node while it holds the forest's lock for reading. It returns
// the result of fn.
func readInode[T any](t *trees, id NodeID, fn func(n *tree.Inode) (T, error)) (result T, err error) {
	err = t.withReadLock(func() error {
		n, err := t.inode(id)
		if err != nil {
			return err
		}

		result, err = fn(n)
		return err
	})
	return result, err
}

// SetAttr changes attributes and returns all attributes.
func (w Writer) SetAttr(id NodeID, s SetAttr) (a Attr, err error) {
	if s.Size != nil && (*s.Size < 0 || *s.Size > MaxFileSize) {
		return Attr{}, errs.TooBig
	}

	for {
		a, end, err := w.setAttr(id, s)
		if err != nil || end == 0 {
			return a, err
		}
	}
}

// setAttr sets attributes. It truncates a file with many extents in several calls, from the end of the file. After
// each step it returns the new end of the file, and the caller calls it again. After the last step it returns the
// attributes and an end of 0.
func (w Writer) setAttr(id NodeID, s SetAttr) (a Attr, end int64, err error) {
	err = w.changeInode(id, func(v *view, n *tree.Inode) error {
		if s.Size != nil && !n.IsRegular() {
			if n.IsDir() {
				return errs.IsDir
			}
			return errs.Invalid
		}

		if s.Size != nil {
			end = n.Content.StartOfLastExtents(*s.Size, maxRunsPerStep)
			if *s.Size > 0 && end > *s.Size {
				r := record{kind: recSetAttr, view: v.id, time: now(), ino: n.Ino, setAttr: SetAttr{Size: &end}}
				return v.commit(&r, nil)
			}

			end = 0
		}

		r := record{kind: recSetAttr, view: v.id, time: now(), ino: n.Ino, setAttr: s}
		a, err = v.commitAndGetAttr(&r)
		return err
	})
	return a, end, err
}

// changeInode calls fn, which changes the inode of a node, while it holds the forest's lock.
func (w Writer) changeInode(id NodeID, fn func(v *view, n *tree.Inode) error) error {
	return w.change(id, func() error {
		v, n, err := w.trees.changeableInode(id)
		if err != nil {
			return err
		}
		return fn(v, n)
	})
}

// Readlink returns the target of a symbolic link.
func (r Reader) Readlink(id NodeID) (string, error) {
	return readInode(r.trees, id, func(n *tree.Inode) (string, error) {
		if !n.IsSymlink() {
			return "", errs.Invalid
		}
		return n.Target, nil
	})
}

// GetXattr returns the value of an extended attribute, which must not be changed. The error is
// errs.NoAttr if the node does not have the attribute.
func (r Reader) GetXattr(id NodeID, name string) ([]byte, error) {
	return readInode(r.trees, id, func(n *tree.Inode) ([]byte, error) {
		value, ok := n.Xattr(name)
		if !ok {
			return nil, errs.NoAttr
		}
		return value, nil
	})
}

// ListXattr returns the names of the extended attributes.
func (r Reader) ListXattr(id NodeID) ([]string, error) {
	return readInode(r.trees, id, func(n *tree.Inode) ([]string, error) {
		names := make([]string, len(n.Xattrs))
		for i, x := range n.Xattrs {
			names[i] = x.Name
		}

		return names, nil
	})
}

// MaxXattrBytes is the largest total size of the extended attributes of an inode. It keeps inodes small.
const MaxXattrBytes = 128 << 10

// SetXattr sets an extended attribute. flags are 0, XATTR_CREATE or
// XATTR_REPLACE. killSgid clears the set-group-ID bit, as the kernel requests for some ACLs.
func (w Writer) SetXattr(id NodeID, name string, value []byte, flags int, killSgid bool) error {
	if len(name) > 255 || len(value) > 64<<10 {
		return errs.Range
	}
	if err := w.trees.admit(id.View(), int64(len(name)+len(value))); err != nil {
		return err
	}

	return w.changeInode(id, func(v *view, n *tree.Inode) error {
		_, found := n.Xattr(name)
		switch {
		case found && flags&unix.XATTR_CREATE != 0:
			return errs.Exist
		case !found && flags&unix.XATTR_REPLACE != 0:
			return errs.NoAttr
		}

		total := len(name) + len(value)
		for _, x := range n.Xattrs {
			total += len(x.Name) + len(x.Value)
		}
		if total > MaxXattrBytes {
			return errs.NoSpace
		}

		r := record{kind: recSetXattr, view: v.id, time: now(), ino: n.Ino, name: name, value: slices.Clone(value), clearPriv: killSgid}
		return v.commit(&r, nil)
	})
}

// RemoveXattr removes an extended attribute.
func (w Writer) RemoveXattr(id NodeID, name string) error {
	return w.changeInode(id, func(v *view, n *tree.Inode) error {
		if _, found := n.Xattr(name); !found {
			return errs.NoAttr
		}

		r := record{kind: recRemoveXattr, view: v.id, time: now(), ino: n.Ino, name: name}
		return v.commit(&r, nil)
	})
}
