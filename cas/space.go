package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/amberfs/amberfs/internal/vfs"
)

// A full disk kills the process: the index maps its files into memory, and a
// page that the disk has no room for is a SIGBUS. So nothing is written to the
// index, and nothing appended to the packs, without room to spare.
//
// The index is small beside what it is of, some 90 bytes for each object, and so are
// its memtables: what they may suddenly need is what has to stay free.
const (
	memtable       = 1 << 20   // bytes; and as much is a table of the lowest level
	headroom       = 10 << 20  // memtables and the compaction of a small index
	headroomMax    = 160 << 20 // beyond that, a compaction does not grow with the index
	reserveSize    = 4 << 20   // preallocated, given up for gc and for opening
	openingRoom    = 4 << 20   // bytes that opening the index may write
	drainingRoom   = 2 << 20   // bytes that gc must find before each change of the index
	appendInterval = 1 << 20   // bytes appended to packs between two looks at the disk
)

// A space watches the free bytes of the store's disk.
type space struct {
	fs      vfs.FS
	dir     string
	log     *slog.Logger
	reserve string // path of the reserve file

	mu       sync.Mutex
	index    int64 // bytes of the index when last measured
	hasFile  bool  // the reserve is on disk
	draining bool  // gc or opening may use up everything
}

func newSpace(fsys vfs.FS, dir string, log *slog.Logger) *space {
	return &space{fs: fsys, dir: dir, log: log, reserve: filepath.Join(dir, "reserve")}
}

// headroom is the number of bytes that must stay free.
func (s *space) headroom() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return headroom + min(s.index, headroomMax)
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
		return s.check(n, drainingRoom)
	}
	return s.check(n, s.headroom())
}

// forMeta is the same for metadata, which must go on when the disk is full: that
// a snapshot is deleted is metadata too.
func (s *space) forMeta(n int64) error {
	if err := s.check(n, drainingRoom); !errors.Is(err, ErrNoSpace) {
		return err
	}
	s.release()
	return s.check(n, drainingRoom)
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
	if free >= openingRoom {
		return nil
	}
	s.release()
	if free, err = s.fs.Free(s.dir); err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	if free < openingRoom {
		return fmt.Errorf("%w: %d MiB free, opening the index needs %d MiB", ErrNoSpace, free>>20, openingRoom>>20)
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
	if err != nil || free < s.headroom()+reserveSize {
		return
	}
	if i, err := s.fs.Stat(s.reserve); err == nil && i.Size == reserveSize && i.Allocated >= reserveSize {
		s.setFile()
		return
	}
	f, err := s.fs.OpenFile(s.reserve, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		s.log.Warn("cannot keep a reserve for a full disk", "err", err)
		return
	}
	err = f.Allocate(0, reserveSize)
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
