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

// Put leaves headroom bytes free, so that commits, the index and gc work on a full disk. They use these
// bytes for the logs of the index (some 60 bytes for each removed object), a segment of the journal,
// and the records of commits in the manifest. If other programs use up these bytes too, opening,
// commits and gc delete the reserve, a preallocated file, and use its space.
const (
	headroom       = 10 << 20               // bytes
	metaRoom       = 2 * index.MemtableSize // free bytes below which a commit deletes the reserve
	openingRoom    = 8 * index.MemtableSize // free bytes below which opening deletes the reserve: Badger turns old logs into tables
	indexRoom      = 4 * index.MemtableSize // free bytes that a change of the index needs: for a log and tables
	gcIndexRoom    = 2 * index.MemtableSize // free bytes that a change of the index needs during gc
	leastRoom      = 64 << 10               // free bytes that commits and opening need without the reserve
	appendInterval = 1 << 20                // bytes appended to packs between two checks of the free space

	reserveSize = 4 << 20
)

// A space watches the free bytes of the store's disk.
type space struct {
	fs      vfs.FS
	dir     string
	log     *slog.Logger
	reserve string // path of the reserve file

	mu            sync.Mutex // held while the reserve is changed, and guards the fields below
	gcRunning     bool       // gc is running: see checkForIndex
	borrowedBytes int64      // bytes that gc has written to the index since gcIndexRoom bytes were last free
}

// checkForObjects returns ErrNoSpace unless n bytes of objects can be written and headroom is left free.
func (s *space) checkForObjects(n int64) error { return s.checkFree(n, headroom) }

// checkForIndex returns ErrNoSpace unless n bytes can be written to the index. During gc, which frees space
// at its end, it allows up to index.MemtableSize bytes without free space: they fit into the log that
// Badger has already allocated.
func (s *space) checkForIndex(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.gcRunning {
		return s.checkFree(n, indexRoom)
	}

	if err := s.checkFree(n, gcIndexRoom); err != nil {
		if s.borrowedBytes+n > index.MemtableSize {
			return err
		}
		s.borrowedBytes += n
		return nil
	}

	s.borrowedBytes = 0

	return nil
}

// checkForMeta returns ErrNoSpace unless n bytes of metadata can be written. It may delete the reserve:
// deleting a snapshot writes metadata, and must work with a full disk.
func (s *space) checkForMeta(n int64) error { return s.checkOrDeleteReserve(n, metaRoom) }

// checkForOpening returns ErrNoSpace unless the disk has space to open the index. It may delete the reserve.
func (s *space) checkForOpening() error { return s.checkOrDeleteReserve(0, openingRoom) }

// checkOrDeleteReserve calls checkFree. If fewer than keepFree bytes would be left free, it deletes the reserve and
// calls checkFree again with leastRoom in place of keepFree.
func (s *space) checkOrDeleteReserve(n, keepFree int64) error {
	err := s.checkFree(n, keepFree)
	if !errors.Is(err, ErrNoSpace) {
		return err
	}
	s.deleteReserve()
	return s.checkFree(n, leastRoom)
}

// checkFree returns ErrNoSpace unless n bytes can be written and keepFree bytes are left free.
func (s *space) checkFree(n, keepFree int64) error {
	free, err := s.fs.Free(s.dir)
	if err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	if free < keepFree+n {
		return fmt.Errorf("%w: %d KiB free, %d KiB must stay free", ErrNoSpace, free>>10, keepFree>>10)
	}

	return nil
}

// beginGC deletes the reserve if the disk is nearly full. Until the caller calls stop, checkForIndex lets gc
// write to the index with less free space.
func (s *space) beginGC() (stop func()) {
	if s.checkFree(0, headroom) != nil {
		s.deleteReserve()
	}

	s.mu.Lock()
	s.gcRunning, s.borrowedBytes = true, 0
	s.mu.Unlock()

	return func() {
		s.mu.Lock()
		s.gcRunning = false
		s.mu.Unlock()
		s.refillReserve()
	}
}

// DeleteReserve deletes the reserve, so that a write which must not fail has space. Callers use it when
// a quota is used up, which the free space of the disk does not show.
func (s *Store) DeleteReserve() { s.space.deleteReserve() }

// deleteReserve deletes the reserve. It only logs an error.
func (s *space) deleteReserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fs.Remove(s.reserve); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot release the reserve", "err", err)
	}
}

// refillReserve allocates the reserve, if the disk has space for it. It only logs an error: without a
// reserve the store works until the disk is full to the last byte.
func (s *space) refillReserve() {
	s.mu.Lock()
	defer s.mu.Unlock()

	i, err := s.fs.Stat(s.reserve)
	full := err == nil && i.Size == reserveSize && i.Allocated >= reserveSize
	if s.gcRunning || full || s.checkFree(reserveSize, headroom) != nil {
		return
	}
	if err := s.allocateReserve(); err != nil {
		s.log.Warn("cannot keep a reserve for a full disk", "err", err)
	}
}

func (s *space) allocateReserve() error {
	f, err := vfs.Create(s.fs, s.reserve)
	if err != nil {
		return err
	}
	return errors.Join(f.Allocate(0, reserveSize), f.Close())
}
