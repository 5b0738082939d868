package vfstest

import (
	"errors"
	"io/fs"
	"math"
	"syscall"

	"github.com/amberfs/amberfs/internal/vfs"
)

// Quota returns a view of a disk whose limit is a quota: where the disk would be full it
// fails with EDQUOT, and it always says that there is room.
func Quota(fsys vfs.FS) vfs.FS { return quota{fsys} }

type quota struct{ vfs.FS }

type quotaFile struct{ vfs.File }

func overQuota(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return syscall.EDQUOT
	}
	return err
}

// OpenFile implements FS.
func (q quota) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := q.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, overQuota(err)
	}
	return quotaFile{f}, nil
}

// Free implements FS.
func (q quota) Free(string) (int64, error) { return math.MaxInt64 / 4, nil }

// Total implements FS.
func (q quota) Total(string) (int64, error) { return math.MaxInt64 / 4, nil }

// WriteAt implements File.
func (f quotaFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, overQuota(err)
}

// Allocate implements File.
func (f quotaFile) Allocate(off, n int64) error { return overQuota(f.File.Allocate(off, n)) }
