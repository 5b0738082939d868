package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// A Target is a state that steps are made in. Nobody else may change it meanwhile. Numbers
// must be set; the other functions may be nil.
type Target struct {
	tree.Editor
	Base *tree.State // the state as it was before; it stays as it is

	// Numbers returns the first of n numbers for new inodes.
	Numbers func(e *tree.Editor, n uint64) (uint64, error)
	// First is the first number of the new inodes, Next the one above the last.
	First, Next uint64

	// Record is called before each change is made.
	Record func(*Op) error
	// Seal is called from time to time and at the end, so that the memory that a graft takes
	// does not grow with the steps. It seals the state, and returns another epoch for what
	// is done from then on.
	Seal func(*tree.State) (epoch uint64, err error)

	// Replaced is called for each name that leads elsewhere now, or nowhere.
	Replaced func(Replaced)
	// Redone is called by Redo for each inode that is changed.
	Redone func(ino uint64)
	// Mounted reports whether something is mounted on a name that leads to an inode, or
	// below it.
	Mounted func(at tree.Link, ino uint64) bool
	// Beneath returns the inode that a new name gets, like another one, because a mount still
	// holds what the name led to before; 0 if there is none.
	Beneath func(at tree.Link, like *tree.Inode) uint64
}

// Replaced is a name that led to something.
type Replaced struct {
	tree.Link
	Was        uint64 // the inode that it led to and that has no name any more; 0 else
	WasDir     bool   // that was a directory
	MountPoint bool   // something is mounted on it, or below
}

func (t *Target) mounted(at tree.Link, ino uint64) bool {
	return t.Mounted != nil && t.Mounted(at, ino)
}

func (t *Target) replaced(r Replaced) {
	if t.Replaced != nil {
		t.Replaced(r)
	}
}
