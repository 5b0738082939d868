package graft

import (
	"errors"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// attrsOf gives a directory the attributes of another one: of with or, if that is nil, of an
// inode of the source.
type attrsOf struct {
	ino, from uint64
	with      *tree.Inode
}

// OwnRoot are the steps that leave a root directory as it is if its owner or group differs: who owns a
// workspace, and so may restore it, belongs to the mount, as the owner of a mount point does.
func OwnRoot(all []Step) []Step {
	return slices.DeleteFunc(all, func(s Step) bool { return s.Path == nil && s.What&tree.Owner != 0 })
}

// setAttrs gives directories the attributes of the source: those that differed, and
// those whose entries changed, when the view is to be exactly as that.
func (j *grafting) setAttrs() error {
	if j.o.Exact {
		for ino, p := range j.edited {
			from, err := uint64(tree.RootIno), error(nil)
			if p != nil {
				from, err = j.from.find(p)
			}
			if j.o.KeepFull && (errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir)) {
				continue // a directory that stays because it is not empty
			}
			if err != nil {
				return err
			}
			j.attrs = append(j.attrs, attrsOf{ino: ino, from: from})
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
		j.touch(n)
		j.stale[n.Ino] = true
		if err := j.do(&Op{Kind: SetAttrs, Node: n}); err != nil {
			return err
		}
	}
	return nil
}

// touch gives what is put in place the time of the change, if it is to have that.
func (j *grafting) touch(n *tree.Inode) {
	if j.o.Touch {
		n.Atime, n.Mtime = j.o.Now, j.o.Now
	}
}
