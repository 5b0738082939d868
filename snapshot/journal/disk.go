package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/amberfs/amberfs/internal/vfs"
)

// disk creates and removes the files of segments, and limits the space that they take.
type disk struct {
	dir         string
	quarantine  string // folder for segments that could not be read completely, "" for none
	fs          vfs.FS
	segSize     int64
	reserve     func() int64 // see Options.Reserve
	freeReserve func()       // see Options.FreeReserve; may be nil
	eraseBefore atomic.Int64 // the position up to which dropped segments are overwritten, see Journal.Roll
}

// drop removes a segment, or moves it to the quarantine if the disk could not read all of it. A segment before
// eraseBefore is only renamed, so that eraseDropped can overwrite it.
func (d *disk) drop(s *segment) error {
	if d.quarantine == "" || !s.readFailed.Load() {
		if s.base >= d.eraseBefore.Load() {
			return d.fs.Remove(d.path(s.name))
		}
		return d.fs.Rename(d.path(s.name), d.path(s.name+droppedSuffix))
	}
	if err := d.fs.MkdirAll(d.quarantine, 0o700); err != nil {
		return err
	}

	return d.fs.Rename(d.path(s.name), filepath.Join(d.quarantine, s.name))
}

// eraseDropped overwrites and removes the segments that drop has renamed. A segment that cannot be overwritten
// is removed all the same, because its space may be needed.
func (d *disk) eraseDropped() error {
	files, err := d.fs.ReadDir(d.dir)
	if err != nil {
		return err
	}

	for _, i := range files {
		if name := d.path(i.Name); strings.HasSuffix(name, segmentSuffix+droppedSuffix) && vfs.Erase(d.fs, name) != nil {
			err = errors.Join(err, d.fs.Remove(name))
		}
	}

	return err
}

func (d *disk) path(name string) string { return filepath.Join(d.dir, name) }

// createFile returns a new open file and the number of bytes of its disk space: size, or on a full disk
// fewer, but at least need. An urgent file may use the reserve, and the space that freeReserve frees.
func (d *disk) createFile(name string, size, need int64, urgent bool) (vfs.File, int64, error) {
	for size = max(size, need); ; size /= 4 {
		size = max((size+blockSize-1)&^(blockSize-1), need)
		f, err := d.create(name, size, d.reserve())
		if !isFull(err) {
			return f, size, err
		}
		if size > max(minSegmentSize, need) {
			continue
		}
		if !urgent {
			return nil, 0, err
		}

		size = max(urgentSegmentSize, need)
		f, err = d.create(name, size, 0)
		if isFull(err) && d.freeReserve != nil {
			d.freeReserve()
			f, err = d.create(name, size, 0)
		}

		return f, size, err
	}
}

// isFull reports whether err means that the disk is full or a quota is exhausted.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// create creates a file with exactly size bytes of disk space, and leaves reserve bytes free.
func (d *disk) create(name string, size, reserve int64) (vfs.File, error) {
	if err := d.checkFree(size, reserve); err != nil {
		return nil, err
	}

	f, err := vfs.Create(d.fs, d.path(name))
	if err != nil {
		return nil, err
	}

	if err := allocate(f, 0, size); err != nil {
		_ = f.Close()
		_ = d.fs.Remove(d.path(name)) // if this fails, Open removes the file, because it has no header
		return nil, err
	}

	return f, nil
}

// checkFree returns ENOSPC if fewer than n + reserve bytes are free.
func (d *disk) checkFree(n, reserve int64) error {
	free, err := d.fs.Free(d.dir)
	if err != nil {
		return err
	}

	free -= reserve
	if free < n {
		return fmt.Errorf("%d bytes needed, %d free: %w", n, max(free, 0), syscall.ENOSPC)
	}

	return nil
}

// idleSize returns the size in bytes of a new segment while no writes are expected.
func (d *disk) idleSize() int64 { return min(minSegmentSize, d.segSize) }

// extend preallocates a little space after the end of a segment. If other programs then fill the disk,
// this space is left for records of changes that free disk space. On a full disk extend does not change
// the segment.
func (d *disk) extend(s *segment) error {
	n := d.idleSize()
	if d.checkFree(n, d.reserve()) != nil {
		return nil
	}

	err := allocate(s.f, s.size, n)
	if isFull(err) {
		return s.f.Truncate(s.size)
	}
	if err != nil {
		return err
	}

	s.size += n

	return nil
}

// allocate preallocates disk space. If the filesystem does not support this, only the length of the file
// changes, and on a full disk a later write fails.
func allocate(f vfs.File, off, n int64) error {
	err := f.Allocate(off, n)
	if errors.Is(err, vfs.ErrNotSupported) {
		return f.Truncate(off + n)
	}
	return err
}
