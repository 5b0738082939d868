package graft

import (
	"errors"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// An attrsCopy is a copy of attributes to the directory ino. The attributes are those of node or, if node is nil,
// of the source's inode sourceIno.
type attrsCopy struct {
	ino, sourceIno uint64
	node           *tree.Inode
}

// WithoutRootOwner returns the steps except those that change the owner or group of the root directory. The mount
// sets the root's owner, as for any mount point, and the owner decides who may restore the workspace.
func WithoutRootOwner(all []Step) []Step {
	return slices.DeleteFunc(all, func(s Step) bool { return s.Path == nil && s.Differences&tree.OwnerDiffers != 0 })
}

// setAttrs makes the copies of pendingAttrs and, with Exact, copies the attributes of all directories whose
// entries changed.
func (j *graftRun) setAttrs() error {
	if j.options.Exact {
		for ino, p := range j.editedDirs {
			from, err := uint64(tree.RootIno), error(nil)
			if p != nil {
				from, err = j.sourceDirs.findDir(p)
			}
			if j.options.KeepNonEmptyDirs && (errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir)) {
				continue // the directory is not in the source, and stays because it is not empty
			}
			if err != nil {
				return err
			}
			j.pendingAttrs = append(j.pendingAttrs, attrsCopy{ino: ino, sourceIno: from})
		}
	}

	root, err := j.target.State.Get(j.src, tree.RootIno)
	if err != nil {
		return tree.LoadError(err)
	}

	for _, a := range j.pendingAttrs {
		from := a.node
		if from == nil {
			var err error
			if from, err = j.options.Source.Get(j.src, a.sourceIno); err != nil {
				return tree.LoadError(err)
			}
		}
		if a.ino == root.Ino && (from.UID != root.UID || from.GID != root.GID) && !j.options.CopyRootAttrs {
			continue // see WithoutRootOwner
		}

		n := &tree.Inode{Ino: a.ino}
		n.SetAttrs(from, j.options.Now)
		j.setTimes(n)
		j.changedInodes[n.Ino] = true
		if err := j.apply(&Op{Kind: OpSetAttrs, Node: n}); err != nil {
			return err
		}
	}

	return nil
}

// setTimes sets atime and mtime of an inode to the time of the change if Touch is set.
func (j *graftRun) setTimes(n *tree.Inode) {
	if j.options.Touch {
		n.Atime, n.Mtime = j.options.Now, j.options.Now
	}
}
