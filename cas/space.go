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
	openingRoom    = 4 << 20   // bytes with which an index of any size opens
	drainingRoom   = 2 << 20   // bytes with which gc may change an index of any size
	appendInterval = 1 << 20   // bytes appended to packs between two looks at the disk
)

// The reserve is preallocated and given up where others have filled the disk, for
// opening, commits and gc. Removing objects takes 55 bytes each in the logs of the
// index, compacting it, which can wait, 90; the rest is pages that every opening writes,
// a segment of the journal and what a commit adds to the manifest. What an index that
// was not closed has in its logs, at most two memtables, becomes tables when it is
// opened.
const (
	reserveMin  = 192 << 10 // bytes, of a store without objects
	reserveEach = 160       // bytes for an object
	reserveMax  = 4 << 20
	reserveStep = 64 << 10
	leastRoom   = 64 << 10 // bytes that a change of an empty index must find
	objectRoom  = 72       // bytes that it must find for each object: it is not compacted then
)

// A space watches the free bytes of the store's disk.
type space struct {
	fs       vfs.FS
	dir      string
	log      *slog.Logger
	reserve  string // path of the reserve file
	indexDir string

	file sync.Mutex // held while the reserve changes

	mu       sync.Mutex
	index    int64 // bytes of the index when last measured
	objects  int64 // in the store
	kept     int64 // size of the reserve, 0 if there is none
	draining bool  // gc or opening may use up everything
}

func newSpace(fsys vfs.FS, dir, indexDir string, log *slog.Logger) *space {
	return &space{fs: fsys, dir: dir, log: log, reserve: filepath.Join(dir, "reserve"), indexDir: indexDir}
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
		return s.checkLeast(n)
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
	return s.checkLeast(n)
}

// checkLeast is check for what must go on when the disk is nearly full: what the index
// can need at once is enough.
func (s *space) checkLeast(n int64) error {
	err := s.check(n, drainingRoom)
	if !errors.Is(err, ErrNoSpace) {
		return err
	}
	s.mu.Lock()
	keep := leastRoom + objectRoom*s.objects
	s.mu.Unlock()
	return s.check(n, min(keep+s.logs(), drainingRoom))
}

// logs is how many bytes of disk the logs of the index occupy, which are what it has
// not made tables of yet.
func (s *space) logs() (n int64) {
	infos, err := vfs.OS.ReadDir(s.indexDir)
	if err != nil {
		return 0
	}
	for _, i := range infos {
		if filepath.Ext(i.Name) == ".mem" {
			n += i.Allocated
		}
	}
	return n
}

func (s *space) check(n, keep int64) error {
	free, err := s.fs.Free(s.dir)
	if err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	if free < keep+n {
		return fmt.Errorf("%w: %d KiB free, %d KiB must stay free for the index", ErrNoSpace, free>>10, keep>>10)
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
	s.file.Lock()
	defer s.file.Unlock()
	err := s.fs.Remove(s.reserve)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot release the reserve", "err", err)
		return
	}
	s.mu.Lock()
	s.kept = 0
	s.mu.Unlock()
}

// forOpening makes sure that the index can be opened.
func (s *space) forOpening() error {
	err := s.check(0, openingRoom)
	if !errors.Is(err, ErrNoSpace) {
		return err
	}
	s.release()
	return s.check(0, min(leastRoom+s.logs(), openingRoom))
}

// hold is told how many objects there are, before the index is, and makes the reserve
// as large as they need it.
func (s *space) hold(objects int64) {
	s.mu.Lock()
	s.objects = objects
	s.mu.Unlock()
	s.refill()
}

// refill makes the reserve as large as it should be while the index is open, if there
// is room for it. Without one the store works until the disk is full to the last byte,
// so failing is only a warning.
func (s *space) refill() { s.resize(2 * memtable) }

// closed makes the reserve as small as it may be once the index is closed.
func (s *space) closed() { s.resize(0) }

func (s *space) resize(logs int64) {
	s.file.Lock()
	defer s.file.Unlock()
	s.mu.Lock()
	want := min(reserveMin+s.objects*reserveEach+logs, reserveMax)
	want = (want + reserveStep - 1) / reserveStep * reserveStep
	have, draining := s.kept, s.draining
	s.mu.Unlock()
	if have == want || draining {
		return
	}
	if i, err := s.fs.Stat(s.reserve); err == nil {
		have = min(i.Size, i.Allocated)
	}
	if free, err := s.fs.Free(s.dir); err != nil || free < s.headroom()+want-have {
		return
	}
	if err := s.allocate(want); err != nil {
		s.log.Warn("cannot keep a reserve for a full disk", "err", err)
	}
	s.mu.Lock()
	s.kept = want // or it is not tried again until it should have another size
	s.mu.Unlock()
}

// allocate gives the reserve n bytes of disk.
func (s *space) allocate(n int64) error {
	f, err := s.fs.OpenFile(s.reserve, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil && size > n {
		err = f.Truncate(n)
	}
	if err == nil {
		err = f.Allocate(0, n)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
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
