package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// A Step is a tree.Change of the target to what the source has, and how it is made. It has the
// numbers of the inodes and not the inodes: a list of steps takes less memory so.
type Step struct {
	Path          *tree.Path
	Before, After uint64 // inode numbers in the target and in the source; 0 where there is none
	What          tree.What
	Size          int64 // of After, in bytes

	WasDir, IsDir bool // Before, and After, is a directory
	// Linked is set if other names lead to After, too. Names with the same Link become names
	// of one inode.
	Linked bool
	Link   uint64

	// To is an inode of the target that the path leads to afterwards, instead of a new one.
	To uint64
	// With comes instead of After, mostly nil. It is inode With.Ino of the view with the number
	// WithView.
	With     *tree.Inode
	WithView uint32
}

// StepOf is for a change of a target to what a source has. The paths of all steps share the paths of their directories, as those of a Diff do.
func StepOf(c tree.Change) Step {
	s := Step{Path: c.Path, What: c.What}
	if c.Before != nil {
		s.Before, s.WasDir = c.Before.Ino, c.Before.IsDir()
	}
	if c.After != nil {
		s.After, s.Link = c.After.Ino, c.After.Ino
		s.IsDir, s.Size, s.Linked = c.After.IsDir(), c.After.Size(), len(c.After.Links) > 1
	}
	return s
}
