package tree

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// findXattr returns the index of an extended attribute, or the index where it would be inserted.
func (n *Inode) findXattr(name string) (int, bool) {
	return slices.BinarySearchFunc(n.Xattrs, name, func(x Xattr, name string) int { return strings.Compare(x.Name, name) })
}

// Xattr returns the value of an extended attribute, which must not be changed.
func (n *Inode) Xattr(name string) (value []byte, ok bool) {
	i, ok := n.findXattr(name)
	if !ok {
		return nil, false
	}
	return n.Xattrs[i].Value, true
}

// SetXattr sets an extended attribute.
func (n *Inode) SetXattr(name string, value []byte) {
	i, ok := n.findXattr(name)
	if n.Xattrs = slices.Clone(n.Xattrs); ok {
		n.Xattrs[i].Value = value
		return
	}
	n.Xattrs = slices.Insert(n.Xattrs, i, Xattr{Name: name, Value: value})
}

// RemoveXattr removes an extended attribute, if the inode has it.
func (n *Inode) RemoveXattr(name string) {
	if i, ok := n.findXattr(name); ok {
		n.Xattrs = append(slices.Clone(n.Xattrs[:i]), n.Xattrs[i+1:]...)
	}
}

// ClearPriv removes the set-user-ID and set-group-ID bits and the capabilities of a file. As in the kernel
// (setattr_should_drop_sgid), it keeps set-group-ID on a file that its group may not execute, where the bit means
// mandatory locking.
func (n *Inode) ClearPriv() {
	if n.IsDir() {
		return
	}
	n.Mode &^= unix.S_ISUID
	if n.Mode&unix.S_IXGRP != 0 {
		n.Mode &^= unix.S_ISGID
	}

	n.RemoveXattr("security.capability")
}

// EncodeXattrs writes extended attributes.
func EncodeXattrs(e *wire.Encoder, xs []Xattr) {
	e.Uvarint(uint64(len(xs)))
	for i := range xs {
		e.String(xs[i].Name)
		e.Blob(xs[i].Value)
	}
}

// DecodeXattrs reads the encoding of EncodeXattrs.
func DecodeXattrs(d *wire.Decoder) (xs []Xattr) {
	for range d.Count(2) {
		xs = append(xs, Xattr{Name: d.String(), Value: bytes.Clone(d.Blob())})
	}
	return xs
}
