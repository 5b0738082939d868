package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/amberfs/amberfs/cas/vfs"
)

// A full disk kills the process: the index maps its files into memory, and a
// page that the disk has no room for is a SIGBUS. So nothing is written to the
// index, and nothing appended to the packs, without room to spare.
const (
	headroomMax    = 160 << 20 // beyond that, a compaction does not grow with the index
	appendInterval = 1 << 20   // bytes appended to packs between two looks at the disk
	smallDisk      = 512 << 20 // bytes; a disk below that has a small index
)

// A budget says how large the parts of the index get, in bytes, and what must
// stay free for them.
type budget struct {
	memtable int64 // and as much is a table of the lowest level
	headroom int64 // memtables and the compaction of a small index
	reserve  int64 // preallocated, given up for gc and for opening
	open     int64 // that opening the index may write
	gc       int64 // that gc must find before each change of the index
}

var (
	ample = budget{memtable: 8 << 20, headroom: 48 << 20, reserve: 16 << 20, open: 16 << 20, gc: 8 << 20}
	tight = budget{memtable: 1 << 20, headroom: 10 << 20, reserve: 4 << 20, open: 4 << 20, gc: 2 << 20}
)

// budgetOf returns the budget for a disk of so many bytes.
func budgetOf(disk int64) budget {
	if disk < smallDisk {
		return tight
	}
	return ample
}

// A space watches the free bytes of the store's disk.
type space struct {
	fs      vfs.FS
	dir     string
	log     *slog.Logger
	reserve string // path of the reserve file
	budget  budget

	mu       sync.Mutex
	index    int64 // bytes of the index when last measured
	hasFile  bool  // the reserve is on disk
	draining bool  // gc or opening may use up everything
}

func newSpace(fsys vfs.FS, dir string, log *slog.Logger) *space {
	return &space{fs: fsys, dir: dir, log: log, reserve: filepath.Join(dir, "reserve"), budget: ample}
}

// measure looks how large the disk is.
func (s *space) measure() error {
	total, err := s.fs.Total(s.dir)
	if err != nil {
		return fmt.Errorf("look for the size of the disk: %w", err)
	}
	s.budget = budgetOf(total)
	return nil
}

// headroom is the number of bytes that must stay free.
func (s *space) headroom() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budget.headroom + min(s.index, headroomMax)
}

// forObjects returns ErrNoSpace unless n bytes of objects can be written with
// the headroom left over.
func (s *space) forObjects(n int64) error { return s.check(n, s.headroom()) }

// forIndex is the same for the index. During gc and opening, which end in more
// free space, a small part of the headroom is enough.
func (s *space) forIndex(n int64) error {
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	if draining {
		return s.check(n, s.budget.gc)
	}
	return s.check(n, s.headroom())
}

// forMeta is the same for metadata, which must go on when the disk is full: that
// a snapshot is deleted is metadata too.
func (s *space) forMeta(n int64) error {
	if err := s.check(n, s.budget.gc); !errors.Is(err, ErrNoSpace) {
		return err
	}
	s.release()
	return s.check(n, s.budget.gc)
}

func (s *space) check(n, keep int64) error {
	free, err := s.fs.Free(s.dir)
	if err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	if free < keep+n {
		return fmt.Errorf("%w: %d MiB free, %d MiB must stay free for the index", ErrNoSpace, free>>20, keep>>20)
	}
	return nil
}

// drain gives the reserve up if the disk is nearly full, and lets forIndex use the
// headroom until the returned function is called.
func (s *space) drain() (stop func()) {
	free, err := s.fs.Free(s.dir)
	if err == nil && free < s.headroom() {
		s.release()
	}
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.draining = false
		s.mu.Unlock()
		s.refill()
	}
}

func (s *space) release() {
	err := s.fs.Remove(s.reserve)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot release the reserve", "err", err)
		return
	}
	s.mu.Lock()
	s.hasFile = false
	s.mu.Unlock()
}

// forOpening makes sure that the index can be opened.
func (s *space) forOpening() error {
	free, err := s.fs.Free(s.dir)
	if err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	if free >= s.budget.open {
		return nil
	}
	s.release()
	if free, err = s.fs.Free(s.dir); err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	if free < s.budget.open {
		return fmt.Errorf("%w: %d MiB free, opening the index needs %d MiB", ErrNoSpace, free>>20, s.budget.open>>20)
	}
	return nil
}

// refill makes the reserve file if there is room for it. Without one the store
// works until the disk is full to the last byte, so failing is only a warning.
func (s *space) refill() {
	s.mu.Lock()
	has := s.hasFile
	s.mu.Unlock()
	if has {
		return
	}
	free, err := s.fs.Free(s.dir)
	if err != nil || free < s.headroom()+s.budget.reserve {
		return
	}
	if i, err := s.fs.Stat(s.reserve); err == nil && i.Size == s.budget.reserve && i.Allocated >= s.budget.reserve {
		s.setFile()
		return
	}
	f, err := s.fs.OpenFile(s.reserve, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		s.log.Warn("cannot keep a reserve for a full disk", "err", err)
		return
	}
	err = f.Allocate(0, s.budget.reserve)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		s.log.Warn("cannot keep a reserve for a full disk", "err", err)
		_ = s.fs.Remove(s.reserve)
		return
	}
	s.setFile()
}

func (s *space) setFile() {
	s.mu.Lock()
	s.hasFile = true
	s.mu.Unlock()
}

func (s *space) indexSize() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index
}

// measured tells how large the index is.
func (s *space) measured(n int64) {
	s.mu.Lock()
	s.index = n
	s.mu.Unlock()
}
