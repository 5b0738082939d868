package graft

import (
	"errors"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// An attrsCopy is a copy of attributes to the directory ino. The attributes are those of with or, if with is nil,
// of the source's inode from.
type attrsCopy struct {
	ino, from uint64
	with      *tree.Inode
}

// OwnRoot returns the steps without those that change the owner or group of the root directory. The root's owner
// is set by the mount, like the owner of any mount point, and decides who may restore the workspace.
func OwnRoot(all []Step) []Step {
	return slices.DeleteFunc(all, func(s Step) bool { return s.Path == nil && s.What&tree.Owner != 0 })
}

// setAttrs copies the attributes of attrs and, with Exact, the attributes of all directories whose
// entries changed.
func (j *graftRun) setAttrs() error {
	if j.o.Exact {
		for ino, p := range j.edited {
			from, err := uint64(tree.RootIno), error(nil)
			if p != nil {
				from, err = j.from.find(p)
			}
			if j.o.KeepFull && (errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir)) {
				continue // the directory is not in the source, and stays because it is not empty
			}
			if err != nil {
				return err
			}
			j.attrs = append(j.attrs, attrsCopy{ino: ino, from: from})
		}
	}

	root, err := j.t.State.Get(j.src, tree.RootIno)
	if err != nil {
		return tree.LoadError(err)
	}

	for _, a := range j.attrs {
		from := a.with
		if from == nil {
			var err error
			if from, err = j.o.Source.Get(j.src, a.from); err != nil {
				return tree.LoadError(err)
			}
		}
		if a.ino == root.Ino && (from.UID != root.UID || from.GID != root.GID) && !j.o.Top {
			continue // see OwnRoot
		}

		n := &tree.Inode{Ino: a.ino}
		n.SetAttrs(from, j.o.Now)
		j.setTimes(n)
		j.stale[n.Ino] = true
		if err := j.apply(&Op{Kind: SetAttrs, Node: n}); err != nil {
			return err
		}
	}

	return nil
}

// setTimes sets atime and mtime of an inode to the time of the change if Touch is set.
func (j *graftRun) setTimes(n *tree.Inode) {
	if j.o.Touch {
		n.Atime, n.Mtime = j.o.Now, j.o.Now
	}
}
