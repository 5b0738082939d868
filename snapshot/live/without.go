package live

import (
	"errors"
	"path"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// WithoutEmpty returns a copy of a frozen state in which empty files and empty directories at the given paths are
// removed. The times of the directories above do not change. If there are no paths, or st cannot be read, it returns
// st.
func (tx *Tx) WithoutEmpty(st *tree.State, paths []naming.BytePath) *tree.State {
	if len(paths) == 0 {
		return st
	}

	e := tree.Editor{State: st.Clone(), Source: tx.trees.waitingSrc, Epoch: tx.trees.newEpoch()}

	for _, p := range paths {
		dir, n, err := findEmpty(e.Source, e.State, string(p))
		if errors.Is(err, errs.NotExist) || err == nil && n == nil {
			continue
		}
		if err != nil {
			return st
		}

		parent := e.Own(dir.Ino)
		mtime, ctime := parent.Mtime, parent.Ctime
		e.Remove(dir.Ino, path.Base(string(p)))
		parent.Mtime, parent.Ctime = mtime, ctime
	}
	if e.Err() != nil {
		return st
	}

	return e.State
}

// IsEmptyAt reports whether a state has, at a path, an empty directory or an empty file that has no other name.
func IsEmptyAt(src *tree.Source, st *tree.State, path string) (bool, error) {
	_, n, err := findEmpty(src, st, path)
	return n != nil, err
}

// findEmpty returns the directory of a path, and the inode at the path if IsEmptyAt reports true for it, else nil.
// The error is errs.NotExist if the path does not exist.
func findEmpty(src *tree.Source, st *tree.State, path string) (dir, n *tree.Inode, err error) {
	n, err = st.Get(src, tree.RootIno)

	for name := range strings.SplitSeq(path, "/") {
		if err == nil && !n.IsDir() {
			err = errs.NotExist
		}
		if err != nil {
			return nil, nil, tree.LoadError(err)
		}

		dir = n
		n, err = st.Lookup(src, dir, name)
	}

	switch {
	case err != nil:
		return nil, nil, tree.LoadError(err)
	case n.IsDir() && n.Dir.Len() == 0, n.IsRegular() && n.Nlink == 1 && n.FileSize() == 0:
		return dir, n, nil
	}

	return dir, nil, nil
}
