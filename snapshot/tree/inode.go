package tree

import (
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
)

// sealedEpoch marks inodes that were decoded from sealed pages. No epoch owns these.
const sealedEpoch = math.MaxUint64

const (
	// RootIno is the inode number of every state's root directory.
	RootIno = 1
	// InoBits is the length of an inode number.
	InoBits = 36
	// MaxIno is the highest inode number.
	MaxIno = 1<<InoBits - 1
)

// Inode is a file of any type. An inode from State.Get may be shared
// with other states and must not be changed; an inode from State.Own may be changed.
type Inode struct {
	Ino                        uint64
	Mode                       uint32 // S_IFMT and permission bits, as st_mode
	UID, GID                   uint32
	Nlink                      uint32
	Rdev                       uint32 // character and block devices
	Atime, Mtime, Ctime, Btime int64  // nanoseconds since 1970
	Links                      []Link // all names, in no order; a directory has one, the root none
	Xattrs                     []Xattr
	Target                     string           // symbolic links
	Dir                        Dir              // directories
	Content                    *content.Content // regular files; nil is an empty file

	epoch     uint64
	ownsLinks bool // the array of Links is not shared with other versions, so that the epoch may change it
}

// Link is one name of an inode.
type Link struct {
	Parent uint64 // inode number of the directory
	Name   string
}

// Xattr is an extended attribute. Inode.Xattrs is sorted by name; like Links it
// is replaced, never changed in place.
type Xattr struct {
	Name  string
	Value []byte
}

// Type returns the S_IFMT part of the mode.
func (n *Inode) Type() uint32 { return n.Mode & unix.S_IFMT }

// IsDir reports whether n is a directory.
func (n *Inode) IsDir() bool { return n.Type() == unix.S_IFDIR }

// IsRegular reports whether n is a regular file.
func (n *Inode) IsRegular() bool { return n.Type() == unix.S_IFREG }

// IsSymlink reports whether n is a symbolic link.
func (n *Inode) IsSymlink() bool { return n.Type() == unix.S_IFLNK }

// Size returns st_size in bytes: 4096 for a directory, the length of the target
// for a symbolic link.
func (n *Inode) Size() int64 {
	switch n.Type() {
	case unix.S_IFREG:
		return n.Content.Size()
	case unix.S_IFDIR:
		return 4096
	case unix.S_IFLNK:
		return int64(len(n.Target))
	}
	return 0
}

// FileSize returns the size of a regular file, and 0 for other types. State.Bytes is the sum of
// FileSize of all inodes.
func (n *Inode) FileSize() int64 {
	if n.IsRegular() {
		return n.Size()
	}
	return 0
}

// Blocks returns st_blocks: the space allocated, in units of 512 bytes.
func (n *Inode) Blocks() int64 {
	switch n.Type() {
	case unix.S_IFREG:
		return (n.Content.Allocated() + 511) / 512
	case unix.S_IFDIR:
		return 8
	}
	return 0
}

// AddLink adds a name. The epoch must own n.
func (n *Inode) AddLink(l Link) {
	n.ownLinks()
	n.Links = append(n.Links, l)
}

// RemoveLink removes a name. The epoch must own n.
func (n *Inode) RemoveLink(l Link) {
	n.ownLinks()

	for i, have := range slices.Backward(n.Links) { // the newest name is often removed first
		if have == l {
			end := len(n.Links) - 1
			n.Links[i], n.Links[end] = n.Links[end], Link{}
			n.Links = n.Links[:end]
			return
		}
	}
}

// ownLinks copies the names once an epoch, because older versions of the inode share them.
func (n *Inode) ownLinks() {
	if !n.ownsLinks {
		n.Links, n.ownsLinks = slices.Clone(n.Links), true
	}
}

// writable returns n if epoch may change it, else a copy that epoch may change.
func (n *Inode) writable(epoch uint64) *Inode {
	if n.epoch == epoch {
		return n
	}
	c := *n
	c.epoch, c.ownsLinks = epoch, false
	return &c
}
