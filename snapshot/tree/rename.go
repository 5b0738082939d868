package tree

import (
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

// CheckRename checks whether n may be moved from the directory with the number from into the directory with the
// number to. old is the inode that has the new name, nil if the name is free. flags are the flags of renameat2(2).
// depth is State.Depth after the rename. If same is set, both names are names of one file, and the rename has no
// effect.
func (s *State) CheckRename(src *Source, n, old *Inode, from, to uint64, flags uint32) (same bool, depth int, err error) {
	exchange := flags&unix.RENAME_EXCHANGE != 0
	switch {
	case old == nil && exchange:
		return false, 0, errs.NotExist
	case old != nil && flags&unix.RENAME_NOREPLACE != 0:
		return false, 0, errs.Exist
	case old != nil && old.Ino == n.Ino:
		return true, 0, nil
	case old == nil || exchange:
	case n.IsDir() && !old.IsDir():
		return false, 0, errs.NotDir
	case !n.IsDir() && old.IsDir():
		return false, 0, errs.IsDir
	case old.IsDir() && old.Dir.Len() > 0:
		return false, 0, errs.NotEmpty
	}

	// A directory must not be moved below itself.
	if n.IsDir() {
		if _, err := s.DepthOf(src, to, n.Ino); err != nil {
			return false, 0, err
		}
	}

	if exchange && old.IsDir() {
		if _, err := s.DepthOf(src, from, old.Ino); err != nil {
			return false, 0, err
		}
	}

	depth, err = s.DepthAfter(src, n, to)
	if err != nil || !exchange {
		return false, depth, err
	}

	other, err := s.DepthAfter(src, old, from)
	return false, max(depth, other), err
}
