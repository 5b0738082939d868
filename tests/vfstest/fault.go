package vfstest

import (
	"io/fs"
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/vfs"
)

// FailAt returns a view of fsys whose n-th operation (counted from 0) fails with
// err; all others pass. A failing write leaves the sectors of its first half
// behind, as a disk does. Free and Close never fail. A test runs with n = 0, 1, 2… until
// Failed is false: then it has seen every place.
func FailAt(fsys vfs.FS, n int64, err error) *Faulty {
	return &Faulty{fs: fsys, at: n, err: err}
}

// Faulty is a disk that fails once. See FailAt.
type Faulty struct {
	fs    vfs.FS
	at    int64
	err   error
	count atomic.Int64
}

// Failed reports whether the operation that fails was reached.
func (f *Faulty) Failed() bool { return f.count.Load() > f.at }

// Count returns the number of operations so far.
func (f *Faulty) Count() int64 { return f.count.Load() }

func (f *Faulty) step(op, name string) error {
	if f.count.Add(1)-1 == f.at {
		return pathErr(op, name, f.err)
	}
	return nil
}

// OpenFile implements FS.
func (f *Faulty) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := f.step("open", name); err != nil {
		return nil, err
	}
	file, err := f.fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, on: f, name: name}, nil
}

// Rename implements FS.
func (f *Faulty) Rename(from, to string) error {
	if err := f.step("rename", from); err != nil {
		return err
	}
	return f.fs.Rename(from, to)
}

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if err := f.step("remove", name); err != nil {
		return err
	}
	return f.fs.Remove(name)
}

// ReadDir implements FS.
func (f *Faulty) ReadDir(name string) ([]vfs.Info, error) {
	if err := f.step("readdir", name); err != nil {
		return nil, err
	}
	return f.fs.ReadDir(name)
}

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(name string, perm fs.FileMode) error {
	if err := f.step("mkdir", name); err != nil {
		return err
	}
	return f.fs.MkdirAll(name, perm)
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(name string) error {
	if err := f.step("sync", name); err != nil {
		return err
	}
	return f.fs.SyncDir(name)
}

// Stat implements FS.
func (f *Faulty) Stat(name string) (vfs.Info, error) {
	if err := f.step("stat", name); err != nil {
		return vfs.Info{}, err
	}
	return f.fs.Stat(name)
}

// Free implements FS.
func (f *Faulty) Free(dir string) (int64, error) { return f.fs.Free(dir) }

// Total implements FS.
func (f *Faulty) Total(dir string) (int64, error) { return f.fs.Total(dir) }

type faultyFile struct {
	vfs.File
	on   *Faulty
	name string
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.on.step("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.on.step("write", f.name); err != nil {
		half := (off+int64(len(p)/2))/memSector*memSector - off
		if half <= 0 {
			return 0, err
		}
		n, werr := f.File.WriteAt(p[:half], off)
		if werr != nil {
			return n, werr
		}
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f *faultyFile) Sync() error {
	if err := f.on.step("fdatasync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.on.step("truncate", f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Allocate(off, n int64) error {
	if err := f.on.step("fallocate", f.name); err != nil {
		return err
	}
	return f.File.Allocate(off, n)
}

func (f *faultyFile) Punch(off, n int64) error {
	if err := f.on.step("punch", f.name); err != nil {
		return err
	}
	return f.File.Punch(off, n)
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.on.step("stat", f.name); err != nil {
		return 0, err
	}
	return f.File.Size()
}
