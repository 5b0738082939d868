package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// A Step changes one path of a target from its file in the target to its file in the source. Unlike a
// tree.Change, it has inode numbers and not inodes, which saves memory.
type Step struct {
	Path          *tree.Path
	Before, After uint64 // inode in the target and in the source; 0: the path does not exist there
	Differences   tree.Differences
	Size          int64 // size of After, in bytes

	WasDir, IsDir bool // Before is a directory; After is a directory
	// Linked is set if After has other names, too. Paths with equal values of LinkGroup become names of one inode.
	Linked    bool
	LinkGroup uint64

	// TargetIno is an existing inode of the target for the name; 0, the usual value, makes a new inode.
	TargetIno uint64
	// ReplacementNode, if not nil, is used instead of After. Its contents are the contents of the inode
	// ReplacementNode.Ino in the view ReplacementView.
	ReplacementNode *tree.Inode
	ReplacementView uint32
}

// StepOf returns the step for a change from a target to a source. The steps of one graft must share
// the Path values of directories, as the changes of a tree.Diff do.
func StepOf(c tree.Change) Step {
	s := Step{Path: c.Path, Differences: c.Differences}
	if c.Before != nil {
		s.Before, s.WasDir = c.Before.Ino, c.Before.IsDir()
	}

	if c.After != nil {
		s.After, s.LinkGroup = c.After.Ino, c.After.Ino
		s.IsDir, s.Size, s.Linked = c.After.IsDir(), c.After.Size(), len(c.After.Links) > 1
	}

	return s
}
