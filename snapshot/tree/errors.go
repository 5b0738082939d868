package tree

import (
	"fmt"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

var (
	// ErrNoInode means that a state has no inode of that number.
	ErrNoInode = errs.New(errs.Stale, "no such inode")
	// ErrNotExist means that a directory has no entry of that name.
	ErrNotExist = errs.NotExist
	// ErrNotDir means that an inode that should be a directory is not one.
	ErrNotDir = errs.NotDir
	// ErrSymlink means that a path goes through a symbolic link.
	ErrSymlink = errs.New(errs.Invalid, "path goes through a symbolic link")
	// ErrBadPath means that a path is absolute, or not in its shortest form.
	ErrBadPath = errs.New(errs.Invalid, "path is not a relative path in its shortest form")
	// ErrDirFull means that a directory has maxCollisions names with the same hash, or maxEntries
	// entries. So many collisions happen only if somebody chose the names for it.
	ErrDirFull = errs.New(errs.NoSpace, "too many names of equal hash in one directory")
	// ErrTooDeep means that a path has more than MaxDepth names, or that directories
	// contain each other in a ring.
	ErrTooDeep = errs.New(errs.NameTooLong, "directories are nested more than 8,191 deep")
	// ErrMalformed means that an object has the right hash, but is not a valid encoding or does
	// not belong where it is used.
	ErrMalformed = wire.ErrMalformed
)

// LoadError returns the error of a failed read of a tree, with a kind of package errs. An error without a kind,
// as for a missing object, becomes errs.Damaged, because callers read only objects that should exist.
func LoadError(err error) error {
	if err == nil || errs.KindOf(err) != "" {
		return err
	}
	return fmt.Errorf("%w: %w", errs.Damaged, err)
}
