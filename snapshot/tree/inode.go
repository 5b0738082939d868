package tree

import (
	"math"

	"golang.org/x/sys/unix"
)

// sealedEpoch marks inodes decoded from sealed pages: no epoch owns them.
const sealedEpoch = math.MaxUint64

// MaxIno is the highest inode number that a state takes.
const MaxIno = 1<<60 - 1

// RootIno is the inode number of every state's root directory.
const RootIno = 1

// Inode is a file of any type. One that was returned by State.Get may be shared
// with other states and must not be changed; State.Own returns one that may be.
type Inode struct {
	Ino                        uint64
	Mode                       uint32 // S_IFMT and permission bits, as st_mode
	UID, GID                   uint32
	Nlink                      uint32
	Rdev                       uint32 // character and block devices
	Atime, Mtime, Ctime, Btime int64  // nanoseconds since 1970
	Links                      []Link // every name; a directory has one, the root none. Replaced, never changed in place
	Xattrs                     []Xattr
	Target                     string   // symbolic links
	Dir                        Dir      // directories
	Content                    *Content // regular files; nil is an empty file

	epoch uint64
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

// IsDir says whether n is a directory.
func (n *Inode) IsDir() bool { return n.Type() == unix.S_IFDIR }

// IsRegular says whether n is a regular file.
func (n *Inode) IsRegular() bool { return n.Type() == unix.S_IFREG }

// IsSymlink says whether n is a symbolic link.
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

// Owned says whether epoch may change n in place.
func (n *Inode) Owned(epoch uint64) bool { return n.epoch == epoch }

// owned returns n if epoch may change it, else a copy that it may.
func (n *Inode) owned(epoch uint64) *Inode {
	if n.epoch == epoch {
		return n
	}
	c := *n
	c.epoch = epoch
	return &c
}
