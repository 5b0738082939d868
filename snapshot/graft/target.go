package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// A Target is a state that a graft changes. Only one graft may change it at a time. Numbers
// must be set; the other functions may be nil.
type Target struct {
	tree.Editor
	Base *tree.State // the state before the graft, which does not change

	// Numbers reserves n inode numbers and returns the first.
	Numbers func(e *tree.Editor, n uint64) (uint64, error)
	// First is the first number of the new inodes, Next is one above the last.
	First, Next uint64

	// Record is called before each operation is made.
	Record func(*Op) error
	// Seal is called from time to time and at the end, so that the memory of a graft does not
	// grow with the number of steps. It seals the state, and returns a new epoch for the
	// following operations.
	Seal func(*tree.State) (epoch uint64, err error)

	// Replaced is called for each name that was removed or has another inode now.
	Replaced func(Replaced)
	// Redone is called by Redo for each changed inode.
	Redone func(ino uint64)
	// Mounted reports whether a file system is mounted on a name with an inode, or below it.
	Mounted func(at tree.Link, ino uint64) bool
	// Beneath returns an existing inode for a new name, if a file system is still mounted on the inode that the
	// name had before; else 0. The inode is changed to the attributes and contents of like.
	Beneath func(at tree.Link, like *tree.Inode) uint64
}

// A Replaced is a name whose inode was removed or replaced.
type Replaced struct {
	tree.Link
	Was        uint64 // the inode of the name, if it has no other name; else 0
	WasDir     bool   // Was is a directory
	MountPoint bool   // a file system is mounted on the name, or below it
}

func (t *Target) isMounted(at tree.Link, ino uint64) bool {
	return t.Mounted != nil && t.Mounted(at, ino)
}

func (t *Target) notifyReplaced(r Replaced) {
	if t.Replaced != nil {
		t.Replaced(r)
	}
}
