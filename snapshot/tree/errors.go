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
	// ErrNotDir means that something other than a directory was taken for one.
	ErrNotDir = errs.NotDir
	// ErrSymlink means that a path goes through a symbolic link.
	ErrSymlink = errs.New(errs.Invalid, "path goes through a symbolic link")
	// ErrBadPath means that a path is absolute, or not in its shortest form.
	ErrBadPath = errs.New(errs.Invalid, "path is not a relative path in its shortest form")
	// ErrDirFull means that a directory has maxCollisions names with the same hash. Only names
	// that were chosen for it collide so often.
	ErrDirFull = errs.New(errs.NoSpace, "too many names of equal hash in one directory")
	// ErrTooDeep means that a path has more than MaxDepth names, or that directories
	// lie in a ring.
	ErrTooDeep = errs.New(errs.NameTooLong, "directories are nested more than 8,191 deep")
	// ErrMalformed means that an object's bytes make no sense, though its hash is
	// right.
	ErrMalformed = wire.ErrMalformed
)

// LoadError gives an error of reading a tree a kind. Without one, as for a missing object, it is
// damage: callers read only what should exist.
func LoadError(err error) error {
	if err == nil || errs.Of(err) != "" {
		return err
	}
	return fmt.Errorf("%w: %w", errs.Damaged, err)
}
