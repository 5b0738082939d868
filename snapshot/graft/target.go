package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// A Target is a state that a graft changes. Only one graft may change it at a time. ReserveInos must be set; the
// other functions may be nil.
type Target struct {
	tree.Editor
	Base *tree.State // the state before the graft, which does not change

	// ReserveInos reserves n inode numbers and returns the first.
	ReserveInos func(e *tree.Editor, n uint64) (uint64, error)
	// FirstIno is the first number of the new inodes, NextIno is one above the last.
	FirstIno, NextIno uint64

	// RecordOp is called before each operation is made.
	RecordOp func(*Op) error
	// Seal is called from time to time and at the end, so that the memory of a graft does not
	// grow with the number of steps. It seals the state, and returns a new epoch for the
	// following operations.
	Seal func(*tree.State) (epoch uint64, err error)

	// OnReplaced is called for each name that was removed or has another inode now.
	OnReplaced func(ReplacedName)
	// OnRedone is called by Redo for each changed inode.
	OnRedone func(ino uint64)
	// IsMountPoint reports whether a file system is mounted on a name with the inode ino, or below it.
	IsMountPoint func(at tree.Link, ino uint64) bool
	// MountOrphan returns an existing inode for a new name, if a file system is still mounted on the inode that
	// the name had before; else 0. It sets the attributes and contents of the inode to those of like.
	MountOrphan func(at tree.Link, like *tree.Inode) uint64
}

// A ReplacedName is a name whose inode was removed or replaced.
type ReplacedName struct {
	tree.Link
	OldIno     uint64 // the inode of the name, if it has no other name; else 0
	WasDir     bool   // OldIno is a directory
	MountPoint bool   // a file system is mounted on the name, or below it
}

func (t *Target) isMounted(name tree.Link, ino uint64) bool {
	return t.IsMountPoint != nil && t.IsMountPoint(name, ino)
}

func (t *Target) notifyReplaced(r ReplacedName) {
	if t.OnReplaced != nil {
		t.OnReplaced(r)
	}
}
