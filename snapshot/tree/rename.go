package tree

import (
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

// CheckRename checks whether n in the directory from may replace old, or nothing if old is nil, in
// the directory to. flags are those of renameat2(2). depth is State.Depth afterwards. If same is
// set, both are the same file, and the rename does nothing.
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
	if depth, err = s.DepthAfter(src, n, to); err == nil && exchange {
		var other int
		other, err = s.DepthAfter(src, old, from)
		depth = max(depth, other)
	}
	return false, depth, err
}
