package live

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// SetAttr says which attributes to change.
type SetAttr = tree.SetAttr

// GetAttr returns the attributes of a node.
func (f *Reader) GetAttr(id NodeID) (Attr, error) {
	return look(f, id, func(n *tree.Inode) (Attr, error) { return attrOf(id.View(), n), nil })
}

// look returns what fn finds out about an inode. The lock is held for reading meanwhile.
func look[T any](f *Reader, id NodeID, fn func(n *tree.Inode) (T, error)) (found T, err error) {
	err = f.reading(func() error {
		n, err := f.inode(id)
		if err == nil {
			found, err = fn(n)
		}
		return err
	})
	return found, err
}

// SetAttr changes attributes and returns them all.
func (f *Forest) SetAttr(id NodeID, s SetAttr) (a Attr, err error) {
	if s.Size != nil && (*s.Size < 0 || *s.Size > MaxFileSize) {
		return Attr{}, errs.TooBig
	}
	last := int64(1)
	for err == nil && last > 0 {
		a, last, err = f.setAttr(id, s)
	}
	return a, err
}

// setAttr is SetAttr, or a step of it: a file of many extents is cut off from its end on. last
// is where it ends then.
func (f *Forest) setAttr(id NodeID, s SetAttr) (a Attr, last int64, err error) {
	err = f.changing(id, func(v *view, n *tree.Inode) error {
		if s.Size != nil && !n.IsRegular() {
			if n.IsDir() {
				return errs.IsDir
			}
			return errs.Invalid
		}
		if s.Size != nil {
			last = n.Content.ReachBack(*s.Size, maxRuns)
			if *s.Size > 0 && last > *s.Size {
				r := record{kind: recSetAttr, view: v.id, time: now(), ino: n.Ino, set: SetAttr{Size: &last}}
				return v.commit(&r, nil)
			}
			last = 0
		}
		r := record{kind: recSetAttr, view: v.id, time: now(), ino: n.Ino, set: s}
		a, err = v.attrAfter(&r)
		return err
	})
	return a, last, err
}

// changing calls fn for an inode that is to be changed, with the lock held.
func (f *Forest) changing(id NodeID, fn func(v *view, n *tree.Inode) error) error {
	return f.change(id, func() error {
		v, n, err := f.changeable(id)
		if err != nil {
			return err
		}
		return fn(v, n)
	})
}

// Readlink returns where a symlink points.
func (f *Reader) Readlink(id NodeID) (string, error) {
	return look(f, id, func(n *tree.Inode) (string, error) {
		if !n.IsSymlink() {
			return "", errs.Invalid
		}
		return n.Target, nil
	})
}

// GetXattr returns the value of an extended attribute; errs.NoAttr when there is
// none. The value must not be changed.
func (f *Reader) GetXattr(id NodeID, name string) ([]byte, error) {
	return look(f, id, func(n *tree.Inode) ([]byte, error) {
		value, ok := n.Xattr(name)
		if !ok {
			return nil, errs.NoAttr
		}
		return value, nil
	})
}

// ListXattr returns the names of the extended attributes.
func (f *Reader) ListXattr(id NodeID) ([]string, error) {
	return look(f, id, func(n *tree.Inode) ([]string, error) {
		names := make([]string, len(n.Xattrs))
		for i, x := range n.Xattrs {
			names[i] = x.Name
		}
		return names, nil
	})
}

// MaxXattrs bounds the bytes of all extended attributes of an inode, so that
// an inode stays small.
const MaxXattrs = 128 << 10

// SetXattr sets an extended attribute; flags are XATTR_CREATE or
// XATTR_REPLACE. killSgid clears the set-group-ID bit, which setting an ACL
// may ask for.
func (f *Forest) SetXattr(id NodeID, name string, value []byte, flags int, killSgid bool) error {
	if len(name) > 255 || len(value) > 64<<10 {
		return errs.Range
	}
	if err := f.admit(id.View(), int64(len(name)+len(value))); err != nil {
		return err
	}
	return f.changing(id, func(v *view, n *tree.Inode) error {
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
		if total > MaxXattrs {
			return errs.NoSpace
		}
		r := record{kind: recSetXattr, view: v.id, time: now(), ino: n.Ino, name: name, value: slices.Clone(value), kill: killSgid}
		return v.commit(&r, nil)
	})
}

// RemoveXattr removes an extended attribute.
func (f *Forest) RemoveXattr(id NodeID, name string) error {
	return f.changing(id, func(v *view, n *tree.Inode) error {
		if _, found := n.Xattr(name); !found {
			return errs.NoAttr
		}
		r := record{kind: recRemoveXattr, view: v.id, time: now(), ino: n.Ino, name: name}
		return v.commit(&r, nil)
	})
}
