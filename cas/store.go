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
	o      Options
	log    *slog.Logger
	dir    string
	fs     vfs.FS
	root   *vfs.Beneath // closed with the store; nil if the disk came with the options
	life   sync.RWMutex // held shared by each call, alone from Close on
	closed atomic.Bool
	failed failure // shared with packs
	space  *space
	codec  *codec

	packs    *packSet
	puts     singleflight.Group // by hash
	index    *locator
	badIndex string     // why it was made again, for Verify
	commits  sync.Mutex // one Commit at a time
	manifest *manifest.Manifest
	gc       collection
}

// Open opens the store in dir, making what is missing. An index that is missing, that
// does not open or that is older than the packs is rebuilt from them, which takes
// time but loses nothing; so is a copy of the manifest that is missing or damaged.
//
// Errors: errs.Format if the packs are of another version (nothing was touched),
// ErrNoSpace if the disk is too full for the index to open, ErrInUse, or an error
// of the disk.
func Open(dir string, o Options) (*Store, error) {
	s, err := newStore(dir, o)
	if err == nil {
		if err = s.open(); err != nil {
			s.abandon()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

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
		gc: collection{recording: semaphore.NewWeighted(1), running: semaphore.NewWeighted(1)},
	}
	if o.FS == nil || o.FS == vfs.OS {
		if err := s.openRoot(); err != nil {
			return nil, err
		}
	}
	packDir := filepath.Join(dir, "packs")
	s.space = &space{fs: s.fs, dir: packDir, log: o.Logger, reserve: filepath.Join(packDir, "reserve")}
	s.packs = &packSet{
		fs: s.fs, dir: packDir, readOnly: o.ReadOnly, packSize: o.PackSize, space: s.space, failed: &s.failed,
		figures: &s.index.mu, m: map[uint64]*pack{}, tail: appender{mustCheckSpace: true},
	}
	s.index.packs, s.index.space, s.index.log, s.index.readOnly = s.packs, s.space, o.Logger, o.ReadOnly
	s.index.collections = func() uint64 { return collections(s.manifest) }
	return s, nil
}

// openRoot keeps the store to its own directory.
func (s *Store) openRoot() error {
	if !s.o.ReadOnly {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
	}
	root, err := vfs.OpenBeneath(s.dir)
	s.fs, s.root = root, root
	return err
}

// indexDir is a path of the index for Badger, which knows only paths.
func (s *Store) indexDir() string {
	if s.o.indexDir != "" {
		return s.o.indexDir
	}
	dir := filepath.Join(s.dir, "index")
	if b, ok := s.fs.(*vfs.Beneath); ok {
		return b.Path(dir)
	}
	return dir
}

// named is an error in which the index has the path that users know it by.
func (s *Store) named(err error) error {
	if err == nil || s.o.indexDir != "" {
		return err
	}
	return &renamed{err, strings.NewReplacer(s.indexDir(), filepath.Join(s.dir, "index"))}
}

type renamed struct {
	error
	names *strings.Replacer
}

func (r *renamed) Error() string { return r.names.Replace(r.error.Error()) }
func (r *renamed) Unwrap() error { return r.error }

func (s *Store) open() error {
	// Look at everything that might be of another version before changing
	// anything.
	if err := s.loadPacks(); err != nil {
		return err
	}
	if !s.o.ReadOnly {
		if err := s.space.forOpening(); err != nil {
			return err
		}
	}
	if err := s.openManifest(); err != nil {
		return err
	}
	if err := s.named(s.openIndex()); err != nil {
		return err
	}
	if !s.o.ReadOnly {
		s.space.refill()
	}
	return nil
}

// loadPacks finds the packs, and makes their folder.
func (s *Store) loadPacks() error {
	damaged, err := s.packs.load()
	if errors.Is(err, fs.ErrNotExist) {
		if s.o.ReadOnly {
			return nil
		}
		if err = s.fs.MkdirAll(s.packs.dir, 0o700); err == nil {
			err = s.fs.SyncDir(s.dir)
		}
	}
	if err != nil {
		return err
	}
	for _, p := range damaged {
		s.log.Error("pack header is damaged; verify tells more", "pack", p.name())
	}
	return nil
}

func (s *Store) openManifest() (err error) {
	s.manifest, err = manifest.Open(s.fs, s.dir, manifest.Options{
		Logger: s.log, New: !s.packs.used(), ReadOnly: s.o.ReadOnly || s.o.NoCommit, Salvage: s.o.Salvage, Room: s.space.forMeta,
	})
	return errs.Full(err)
}

// openIndex opens the index and brings it up to the packs, or rebuilds it.
func (s *Store) openIndex() (err error) {
	dir := s.indexDir()
	if s.o.ReadOnly {
		dir = ""
	}
	if s.index.db, err = index.Open(dir, s.log, s.o.Takeover); err == nil {
		err = (&recovery{Store: s}).recover()
	}
	if s.o.ReadOnly || !errors.Is(err, index.ErrBroken) && !errors.Is(err, index.ErrRead) {
		return err
	}
	s.log.Warn("rebuilding the index from the packs", "reason", err)
	if s.o.NoCommit && errors.Is(err, index.ErrTable) {
		s.badIndex = err.Error() // Verify is what the store was opened for
	}
	return (&recovery{Store: s}).rebuild()
}

// abandon releases everything without writing.
func (s *Store) abandon() {
	if err := s.release(); err != nil {
		s.log.Warn("close store", "err", err)
	}
}

// release closes all files.
func (s *Store) release() error {
	var err error
	if s.index.db != nil {
		err = s.index.db.Close()
	}
	if s.manifest != nil {
		err = errors.Join(err, s.manifest.Close())
	}
	s.packs.close()
	s.codec.close()
	if s.root != nil && !errors.Is(err, ErrStuck) { // Badger still needs it
		err = errors.Join(err, s.root.Close())
	}
	return err
}

// Close makes everything durable and releases the directory. It waits for
// calls that are under way; calls that begin later fail with errs.Closed. ErrStuck
// means that the index was left open.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return errs.Closed
	}
	s.life.Lock()
	var err error
	if !s.o.ReadOnly && s.failed.err() == nil {
		err = s.index.flush()
		if errors.Is(err, ErrNoSpace) {
			// Nothing is lost: the packs hold it, and the next Open reads it there.
			err = s.packs.sync()
		}
	}
	if err = errors.Join(err, s.release()); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// A failure is why nothing more is written: after an error of Sync it is unknown what
// is on disk, and the kernel will not say it a second time.
type failure struct{ first atomic.Pointer[error] }

// set makes every later write fail.
func (f *failure) set(err error) error {
	err = fmt.Errorf("the disk failed, the store takes no more writes until it is opened again: %w", err)
	f.first.CompareAndSwap(nil, &err)
	return err
}

func (f *failure) err() error {
	if p := f.first.Load(); p != nil {
		return *p
	}
	return nil
}

// begin counts a call in; end it with s.life.RUnlock.
func (s *Store) begin(write bool) error {
	if write && s.o.ReadOnly {
		return errs.ReadOnly
	}
	if !s.life.TryRLock() {
		return errs.Closed
	}
	return nil
}
