package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/internal/vfs"
)

// Objects are refused while headroom is still free, so that commits, the index and gc go
// on. The reserve is preallocated, and given up where others have filled the disk, for
// opening, commits and gc. Removing an object takes some 60 bytes in the logs of the
// index, the rest is a segment of the journal and what a commit adds to the manifest.
const (
	headroom       = 10 << 20           // bytes
	metaRoom       = 2 * index.Memtable // bytes with which a commit leaves the reserve alone
	openingRoom    = 8 * index.Memtable // the same for opening: logs, and tables of those that a kill left
	indexRoom      = 4 * index.Memtable // bytes that a change of the index must find: a log and tables
	drainingRoom   = 2 * index.Memtable // the same for gc
	leastRoom      = 64 << 10           // bytes with which commits and opening go on without the reserve
	appendInterval = 1 << 20            // bytes appended to packs between two looks at the disk

	reserveSize = 4 << 20
)

// A space watches the free bytes of the store's disk.
type space struct {
	fs      vfs.FS
	dir     string
	log     *slog.Logger
	reserve string // path of the reserve file

	mu       sync.Mutex // held while the reserve changes, too
	draining bool       // gc may use up everything
	borrowed int64      // bytes that gc changed of the index since there was room for it
}

// forObjects returns ErrNoSpace unless n bytes of objects can be written with
// the headroom left over.
func (s *space) forObjects(n int64) error { return s.check(n, headroom) }

// forIndex is the same for n bytes of the index. During gc, which ends in more free
// space, as much as fits into a log needs no room: Badger waits for room only when its
// logs are full.
func (s *space) forIndex(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		return s.check(n, indexRoom)
	}
	err := s.check(n, drainingRoom)
	if err == nil {
		s.borrowed = 0
	} else if s.borrowed+n <= index.Memtable {
		s.borrowed += n
		return nil
	}
	return err
}

// forMeta is the same for metadata, which must go on when the disk is full: that
// a snapshot is deleted is metadata too.
func (s *space) forMeta(n int64) error { return s.orReserve(n, metaRoom) }

// forOpening is the same for opening the index.
func (s *space) forOpening() error { return s.orReserve(0, openingRoom) }

// orReserve gives the reserve up if there is no room otherwise.
func (s *space) orReserve(n, keep int64) error {
	err := s.check(n, keep)
	if errors.Is(err, ErrNoSpace) {
		s.release()
		err = s.check(n, leastRoom)
	}
	return err
}

func (s *space) check(n, keep int64) error {
	free, err := s.fs.Free(s.dir)
	if err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	if free < keep+n {
		return fmt.Errorf("%w: %d KiB free, %d KiB must stay free", ErrNoSpace, free>>10, keep>>10)
	}
	return nil
}

// drain gives the reserve up if the disk is nearly full, and lets forIndex use the
// headroom until the returned function is called.
func (s *space) drain() (stop func()) {
	if s.check(0, headroom) != nil {
		s.release()
	}
	s.mu.Lock()
	s.draining, s.borrowed = true, 0
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.draining = false
		s.mu.Unlock()
		s.refill()
	}
}

// GiveUpReserve frees the reserve, for what must not fail although the disk, or a quota that
// the disk does not tell of, is used up.
func (s *Store) GiveUpReserve() { s.space.release() }

func (s *space) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fs.Remove(s.reserve); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot release the reserve", "err", err)
	}
}

// refill allocates the reserve, if there is room for it. Without one the store works
// until the disk is full to the last byte, so failing is only a warning.
func (s *space) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.fs.Stat(s.reserve)
	if s.draining || err == nil && i.Size == reserveSize && i.Allocated >= reserveSize || s.check(reserveSize, headroom) != nil {
		return
	}
	if err := s.allocate(); err != nil {
		s.log.Warn("cannot keep a reserve for a full disk", "err", err)
	}
}

func (s *space) allocate() error {
	f, err := vfs.Create(s.fs, s.reserve)
	if err != nil {
		return err
	}
	return errors.Join(f.Allocate(0, reserveSize), f.Close())
}
