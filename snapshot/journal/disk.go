package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/amberfs/amberfs/internal/vfs"
)

// disk is the directory of the segments, and how much of its disk they may take.
type disk struct {
	dir        string
	quarantine string // folder for segments that could not be read completely, "" for none
	fs         vfs.FS
	segSize    int64
	reserve    func() int64 // bytes that ordinary writers must leave free
	giveUp     func()       // frees space for what must not fail; may be nil
}

// drop removes a segment, or moves it to the quarantine.
func (d *disk) drop(s *segment) error {
	if d.quarantine == "" || !s.unread.Load() {
		return d.fs.Remove(d.path(s.name))
	}
	err := d.fs.MkdirAll(d.quarantine, 0o700)
	if err == nil {
		err = d.fs.Rename(d.path(s.name), filepath.Join(d.quarantine, s.name))
	}
	return err
}

func (d *disk) path(name string) string { return filepath.Join(d.dir, name) }

// takeFile returns a new open file of the given name with size bytes of disk space, or
// less on a full disk, but at least need.
func (d *disk) takeFile(name string, size, need int64, urgent bool) (vfs.File, int64, error) {
	for size = max(size, need); ; size /= 4 {
		size = max((size+blockSize-1)&^(blockSize-1), need)
		f, err := d.create(name, size, d.reserve())
		if err == nil {
			return f, size, nil
		}
		if full(err) && size > max(minSegment, need) {
			continue
		}
		if urgent && full(err) {
			size = max(urgentSegment, need)
			f, err = d.create(name, size, 0)
			if full(err) && d.giveUp != nil {
				d.giveUp()
				f, err = d.create(name, size, 0)
			}
		}
		return f, size, err
	}
}

// full reports whether an error is that of a full disk, or of a quota that is used up.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

func (d *disk) create(name string, size, reserve int64) (vfs.File, error) {
	if err := d.room(size, reserve); err != nil {
		return nil, err
	}
	f, err := vfs.Create(d.fs, d.path(name))
	if err != nil {
		return nil, err
	}
	if err := allocate(f, 0, size); err != nil {
		_ = f.Close()
		_ = d.fs.Remove(d.path(name)) // Open removes a segment without a header
		return nil, err
	}
	return f, nil
}

// room returns ENOSPC if fewer than n bytes are free beyond the reserve.
func (d *disk) room(n, reserve int64) error {
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

// rest is the size of a segment that is begun while the log rests.
func (d *disk) rest() int64 { return min(minSegment, d.segSize) }

// extend preallocates a little space behind the end of a segment, for records that free space when
// other programs have filled the disk. On a full disk the segment stays as it is.
func (d *disk) extend(s *segment) error {
	n := d.rest()
	if d.room(n, d.reserve()) != nil {
		return nil
	}
	err := allocate(s.f, s.size, n)
	if full(err) {
		return s.f.Truncate(s.size)
	}
	if err == nil {
		s.size += n
	}
	return err
}

// allocate reserves disk space. Where the filesystem cannot, the file only
// grows, and a full disk shows up at a later write.
func allocate(f vfs.File, off, n int64) error {
	err := f.Allocate(off, n)
	if errors.Is(err, vfs.ErrNotSupported) {
		return f.Truncate(off + n)
	}
	return err
}
