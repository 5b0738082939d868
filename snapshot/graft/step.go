package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// A Step is a tree.Change that is to be made: what is at A in the target becomes what is at B
// in the source.
type Step struct {
	Path *tree.Path
	A, B uint64 // inode numbers in the target and in the source; 0 where there is none
	What tree.What
	Size int64 // of what comes, in bytes

	ADir, BDir bool // it is a directory
	// Linked is set if other names lead to B, too. Names with the same Link become names
	// of one inode.
	Linked bool
	Link   uint64

	// To is an inode of the target that the path leads to afterwards, instead of a new one.
	To uint64
	// With comes instead of B, mostly nil. It is inode With.Ino of the view with the number
	// WithView.
	With     *tree.Inode
	WithView uint32
}

// StepOf is for a change of a target to what a source has. The paths of all steps share the paths of their directories, as those of a Diff do.
func StepOf(c tree.Change) Step {
	s := Step{Path: c.Path, What: c.What}
	if c.A != nil {
		s.A, s.ADir = c.A.Ino, c.A.IsDir()
	}
	if c.B != nil {
		s.B, s.Link = c.B.Ino, c.B.Ino
		s.BDir, s.Size, s.Linked = c.B.IsDir(), c.B.Size(), len(c.B.Links) > 1
	}
	return s
}
