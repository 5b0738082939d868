package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/cas/manifest"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A Store keeps objects and metadata in a directory. It is safe for concurrent
// use. See the package comment for how it works, and for the order of the locks.
type Store struct {
	o       Options
	log     *slog.Logger
	dir     string
	fs      vfs.FS
	root    *vfs.Root    // fs, which the store closes; nil if fs came with the options
	lifeMu  sync.RWMutex // taken shared by each call (beginCall); taken exclusively by Close, which never releases it
	closed  atomic.Bool
	failure failure // the error of the first failed sync, if any
	space   *space
	codec   *codec

	packs          *packSet
	puts           singleflight.Group // merges concurrent Puts of one object, by hash
	index          *locator
	badIndexReason string     // why the index was rebuilt, for Verify
	commitMu       sync.Mutex // one Commit at a time
	manifest       *manifest.Manifest
	gc             gcState
}

// Open opens the store in dir, and creates it if it does not exist. It rebuilds an index that is
// missing, does not open or is older than the packs: a rebuild loses no objects, but takes time. It
// rewrites a copy of the manifest that is missing or damaged.
//
// Errors: errs.Format if the packs are of another version (then no file was changed), ErrNoSpace if
// the disk is too full to open the index, ErrInUse, or an error of the disk.
func Open(dir string, o Options) (*Store, error) {
	s, err := newStore(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}

	if err := s.open(); err != nil {
		s.abandon()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}

	return s, nil
}

// newStore returns a store without packs, manifest and index. It opens only the directory.
func newStore(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.PackSize == 0 {
		o.PackSize = defaultPackSize
	}

	o.PackSize = min(max(o.PackSize, minPackSize), maxPackSize)
	s := &Store{
		o: o, log: o.Logger, dir: dir, fs: o.FS, codec: newCodec(), index: newLocator(),
		gc: gcState{collectionLock: semaphore.NewWeighted(1), runLock: semaphore.NewWeighted(1)},
	}
	if o.FS == nil || o.FS == vfs.OS {
		if err := s.openRoot(); err != nil {
			return nil, err
		}
	}

	packDir := filepath.Join(dir, "packs")
	s.space = &space{fs: s.fs, dir: packDir, log: o.Logger, reserve: filepath.Join(packDir, "reserve")}
	s.packs = &packSet{
		fs: s.fs, dir: packDir, readOnly: o.ReadOnly, packSize: o.PackSize, space: s.space, failure: &s.failure,
		locatorMu: &s.index.mu, byID: map[uint64]*pack{}, tail: appender{mustCheckSpace: true},
	}
	s.index.packs, s.index.space, s.index.log, s.index.readOnly = s.packs, s.space, o.Logger, o.ReadOnly
	s.index.collectionCount = func() uint64 { return collectionCount(s.manifest) }
	return s, nil
}

// openRoot opens the directory of the store as a vfs.Root, which opens no file outside of the directory.
func (s *Store) openRoot() error {
	if !s.o.ReadOnly {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
	}

	root, err := vfs.OpenRoot(s.dir)
	s.fs, s.root = root, root
	return err
}

// indexDir returns the path of the index that Badger opens. If the disk is a vfs.Root, the path refers
// to the root's file descriptor. So Badger, which accepts only paths, uses the same directory as the
// store.
func (s *Store) indexDir() string {
	if s.o.indexDir != "" {
		return s.o.indexDir
	}
	dir := filepath.Join(s.dir, "index")
	if b, ok := s.fs.(*vfs.Root); ok {
		return b.Path(dir)
	}

	return dir
}

// withUserPath returns err with the path of indexDir replaced by the path that users know.
func (s *Store) withUserPath(err error) error {
	if err == nil || s.o.indexDir != "" {
		return err
	}
	return &userPathError{err, strings.NewReplacer(s.indexDir(), filepath.Join(s.dir, "index"))}
}

// A userPathError is an error with paths in its text that users do not know. names replaces them.
type userPathError struct {
	error
	names *strings.Replacer
}

func (r *userPathError) Error() string { return r.names.Replace(r.error.Error()) }
func (r *userPathError) Unwrap() error { return r.error }

func (s *Store) open() error {
	// The headers of the packs are checked first: if they are of another version, no file may be
	// changed.
	if err := s.loadPacks(); err != nil {
		return err
	}

	if !s.o.ReadOnly {
		if err := s.space.checkForOpening(); err != nil {
			return err
		}
	}

	if err := s.openManifest(); err != nil {
		return err
	}
	if err := s.withUserPath(s.openIndex()); err != nil {
		return err
	}
	if !s.o.ReadOnly {
		s.space.refillReserve()
	}

	return nil
}

// loadPacks finds the packs. It creates their folder if it does not exist.
func (s *Store) loadPacks() error {
	damaged, err := s.packs.load()
	if errors.Is(err, fs.ErrNotExist) {
		if s.o.ReadOnly {
			return nil
		}
		if err := s.fs.MkdirAll(s.packs.dir, 0o700); err != nil {
			return err
		}

		return s.fs.SyncDir(s.dir)
	}
	if err != nil {
		return err
	}
	for _, p := range damaged {
		s.log.Error("pack header is damaged; verify tells more", "pack", p.name())
	}

	return nil
}

// openManifest opens the manifest. It creates one if the packs have no records.
func (s *Store) openManifest() (err error) {
	s.manifest, err = manifest.Open(s.fs, s.dir, manifest.Options{
		Logger: s.log, AllowNew: !s.packs.hasRecords(), ReadOnly: s.o.ReadOnly || s.o.NoCommit, Salvage: s.o.Salvage, CheckRoom: s.space.checkForMeta,
	})
	return errs.WrapNoSpace(err)
}

// openIndex opens the index and adds the records that the index lacks. It rebuilds a broken index. The
// index of a read-only store is in memory.
func (s *Store) openIndex() (err error) {
	dir := s.indexDir()
	if s.o.ReadOnly {
		dir = ""
	}
	if s.index.db, err = index.Open(dir, s.log, s.o.Takeover); err == nil {
		err = (&recovery{store: s}).recover()
	}
	if s.o.ReadOnly || !errors.Is(err, index.ErrBroken) && !errors.Is(err, index.ErrRead) {
		return err
	}

	s.log.Warn("rebuilding the index from the packs", "reason", err)
	if s.o.NoCommit && errors.Is(err, index.ErrDamagedTable) {
		s.badIndexReason = err.Error() // for Verify: without commits, the store was opened to be verified
	}

	return (&recovery{store: s}).rebuild()
}

// abandon closes all files without a flush.
func (s *Store) abandon() {
	if err := s.closeFiles(); err != nil {
		s.log.Warn("close store", "err", err)
	}
}

// closeFiles closes all files of the store.
func (s *Store) closeFiles() error {
	var err error
	if s.index.db != nil {
		err = s.index.db.Close()
	}
	if s.manifest != nil {
		err = errors.Join(err, s.manifest.Close())
	}

	s.packs.close()
	s.codec.close()
	if s.root != nil && !errors.Is(err, ErrStuck) { // after ErrStuck, Badger still uses the directory
		err = errors.Join(err, s.root.Close())
	}

	return err
}

// Close makes all objects durable and closes all files. It waits for running calls; later calls fail
// with errs.Closed. ErrStuck means that the index was left open.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return errs.Closed
	}
	s.lifeMu.Lock()
	var err error
	if !s.o.ReadOnly && s.failure.err() == nil {
		err = s.index.flush()
		if errors.Is(err, ErrNoSpace) {
			// Without the flush, the index lacks some objects. The next Open reads these from the
			// packs.
			err = s.packs.sync()
		}
	}

	if err = errors.Join(err, s.closeFiles()); err != nil {
		return fmt.Errorf("close store: %w", err)
	}

	return nil
}

// A failure contains the error of the first failed sync. After this error the store refuses all writes:
// it is unknown which bytes are on disk, and the kernel reports the error only once.
type failure struct{ firstErr atomic.Pointer[error] }

// set records an error, so that every later write fails with it. It returns the error for the caller.
func (f *failure) set(err error) error {
	err = fmt.Errorf("the disk failed, the store takes no more writes until it is opened again: %w", err)
	f.firstErr.CompareAndSwap(nil, &err)
	return err
}

func (f *failure) err() error {
	if p := f.firstErr.Load(); p != nil {
		return *p
	}
	return nil
}

// beginCall takes Store.lifeMu, shared, at the beginning of a call; the call ends with s.lifeMu.RUnlock. Errors:
// errs.Closed; errs.ReadOnly if the call writes and the store is read-only.
func (s *Store) beginCall(write bool) error {
	if write && s.o.ReadOnly {
		return errs.ReadOnly
	}
	if !s.lifeMu.TryRLock() {
		return errs.Closed
	}
	return nil
}
