package tree

import (
	"errors"
	"io/fs"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

var (
	// ErrNoInode means that a state has no inode of that number.
	ErrNoInode = errors.New("no such inode")
	// ErrNotExist means that a directory has no entry of that name.
	ErrNotExist = errors.New("no such file or directory")
	// ErrNotDir means that something other than a directory was taken for one.
	ErrNotDir = errors.New("not a directory")
	// ErrSymlink means that a path leads through a symbolic link.
	ErrSymlink = errors.New("path leads through a symbolic link")
	// ErrBadPath means that a path is absolute, or not in its shortest form.
	ErrBadPath = errors.New("path is not a relative path in its shortest form")
	// ErrDirFull means that a directory has MaxCollisions names of the very same
	// hash. It takes somebody who looks for such names.
	ErrDirFull = errors.New("too many names of equal hash in one directory")
	// ErrMalformed means that an object's bytes make no sense, though its hash is
	// right.
	ErrMalformed = wire.ErrMalformed
	// SkipDir, returned by the function given to Walk for a directory, leaves out
	// what is below it.
	SkipDir = fs.SkipDir
)
