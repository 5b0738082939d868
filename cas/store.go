package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas/vfs"
)

const (
	defaultPackSize = 128 << 20
	minPackSize     = 64 << 10
)

// A Store keeps objects and metadata in a directory. It is safe for concurrent
// use. See the package comment for how it works.
//
// Locks, outermost first; a lock is only taken while holding ones above it:
//
//	recording         one collection at a time, from when it begins to record
//	  gcMu            one collection or verification at a time
//	    gate          held shared by each Put and Has, alone by gc when it decides
//	      commitMu    one Commit at a time, the metadata packs
//	        flushMu   writing to the index
//	          append  the end of the newest pack of objects (appender.mu)
//	            mu    everything in memory
//	              packSet.mu, space.mu, collector.mu
type Store struct {
	fs      vfs.FS
	log     *slog.Logger
	o       Options
	packDir string
	packs   *packSet
	space   *space
	codec   *codec
	ix      *index
	life    lifetime
	failed  atomic.Pointer[error] // after a failed sync nothing more is written

	recording turn
	gcMu      turn
	gate      sync.RWMutex
	gc        *collector // guarded by gate; nil when no collection is recording

	commitMu sync.Mutex
	meta     metaLog // guarded by commitMu

	flushMu sync.Mutex
	flushes int // guarded by flushMu

	append appender

	mu       sync.Mutex
	fresh    *overlay           // not in the index yet
	flushing *overlay           // being written to the index, or nil
	inflight map[Hash]*inflight // Puts at work
	dropped  map[place]struct{} // gone for gc, though the index may still have them
	bad      map[Hash]loc       // found damaged: the next Put stores them again
	mended   []Damage           // found and put right by Open, for Verify to tell
}

// An overlay is what the index does not hold yet. All fields are guarded by
// Store.mu.
type overlay struct {
	objects map[Hash]loc
	metas   map[string]metaEntry
	bytes   int64 // of packs that these records occupy
}

func newOverlay() *overlay {
	return &overlay{objects: map[Hash]loc{}, metas: map[string]metaEntry{}}
}

func (o *overlay) len() int { return len(o.objects) + len(o.metas) }

// Open opens the store in dir, making its folders packs and index if they are
// missing. An index that is missing, that does not open or that is older than
// the packs is built anew from them, which takes time but loses nothing.
//
// Errors: ErrFormat if the packs are of another version (nothing was touched),
// ErrNoSpace if the disk is too full for the index to open, ErrInUse, or an error
// of the disk.
func Open(dir string, o Options) (*Store, error) {
	s, err := newStore(dir, o)
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		s.abandon()
		return nil, fmt.Errorf("open store %s: %w", dir, s.o.named(dir, err))
	}
	return s, nil
}

// named is an error in which the index has the path that users know it by.
func (o Options) named(dir string, err error) error {
	if known := filepath.Join(dir, "index"); o.indexDir != known {
		return &renamed{err, strings.NewReplacer(o.indexDir, known)}
	}
	return err
}

type renamed struct {
	error
	names *strings.Replacer
}

func (r *renamed) Error() string { return r.names.Replace(r.error.Error()) }
func (r *renamed) Unwrap() error { return r.error }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newStore(dir string, o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = discard()
	}
	if o.PackSize == 0 {
		o.PackSize = defaultPackSize
	}
	o.PackSize = max(o.PackSize, minPackSize)
	if o.metaRecord == 0 {
		o.metaRecord = maxMetaRecord
	}
	if o.indexDir == "" {
		o.indexDir = filepath.Join(dir, "index")
		if b, ok := o.FS.(*vfs.Beneath); ok { // Badger knows only paths
			o.indexDir = b.Path(o.indexDir)
		}
	}
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	packDir := filepath.Join(dir, "packs")
	s := &Store{
		fs: o.FS, log: o.Logger, o: o, codec: c, packDir: packDir,
		packs:     &packSet{fs: o.FS, dir: packDir, readOnly: o.ReadOnly, m: map[uint64]*pack{}},
		space:     newSpace(o.FS, packDir, o.Logger),
		recording: newTurn(), gcMu: newTurn(),
		append: appender{tight: true},
		fresh:  newOverlay(), inflight: map[Hash]*inflight{},
		dropped: map[place]struct{}{}, bad: map[Hash]loc{},
	}
	s.life.idle = sync.NewCond(&s.life.mu)
	return s, nil
}

func (s *Store) open() error {
	// Look at everything that might be of another version before changing
	// anything.
	_, err := s.fs.Stat(s.packDir)
	if err == nil || s.o.ReadOnly {
		err = s.loadPacks()
	} else if errors.Is(err, fs.ErrNotExist) {
		if err = s.fs.MkdirAll(s.packDir, 0o700); err == nil {
			err = s.fs.SyncDir(filepath.Dir(s.packDir))
		}
	}
	if err != nil {
		return err
	}
	if s.o.ReadOnly {
		s.ix, err = openIndex("", ample, s.log)
		if err != nil {
			return err
		}
		return s.recover()
	}
	if err := s.space.measure(); err != nil {
		return err
	}
	if err := s.space.forOpening(); err != nil {
		return err
	}
	if s.packs.used() && indexGone(s.o.indexDir) {
		s.mend("index", errIndexGone)
	}
	s.ix, err = openIndex(s.o.indexDir, s.space.budget, s.log)
	if err == nil {
		err = s.recover()
		if errors.Is(err, errIndexRead) {
			err = fmt.Errorf("%w: %w", errIndexBroken, err)
		}
		if errors.Is(err, errIndexBroken) {
			if cerr := s.ix.close(); cerr != nil {
				s.log.Warn("close index", "err", cerr)
			}
			s.ix = nil
		}
	}
	if errors.Is(err, errIndexBroken) {
		s.log.Warn("building the index anew from the packs", "reason", err)
		if !errors.Is(err, errIndexUnfit) {
			s.mend("index", err)
		}
		err = s.rebuild()
	}
	if err != nil {
		return err
	}
	s.space.measured(s.ix.bytes())
	s.space.refill()
	return s.openMetaCopy()
}

// mend notes that something was found damaged, and is about to be put right from
// what else there is.
func (s *Store) mend(where string, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mended = append(s.mended, Damage{Pack: where, Reason: reason.Error(), Mended: true})
}

// foundMended returns what mend noted, once.
func (s *Store) foundMended() []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.mended
	s.mended = nil
	return found
}

func (s *Store) loadPacks() error {
	damaged, err := s.packs.load()
	if err != nil {
		return err
	}
	for _, p := range damaged {
		s.log.Error("pack header is damaged; verify tells more", "pack", p.name())
	}
	return nil
}

// abandon lets go of everything without writing.
func (s *Store) abandon() {
	if s.ix != nil {
		if err := s.ix.close(); err != nil {
			s.log.Warn("close index", "err", err)
		}
	}
	s.packs.close()
	s.codec.close()
}

// Close makes everything durable and lets go of the directory. It waits for
// calls that are under way; calls that begin later fail with ErrClosed. ErrStuck
// means that the index was left open.
func (s *Store) Close() error {
	if !s.life.end() {
		return ErrClosed
	}
	var err error
	if !s.o.ReadOnly && s.failure() == nil {
		s.commitMu.Lock()
		if s.copyDue(true) {
			s.copyMeta()
		}
		s.commitMu.Unlock()
		err = s.flush()
		if errors.Is(err, ErrNoSpace) {
			// Nothing is lost: the packs hold it, and the next Open reads it there.
			err = s.syncObjects()
		}
	}
	err = errors.Join(err, s.ix.close())
	s.packs.close()
	s.codec.close()
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// fail makes every later write fail: after an error of Sync nobody knows what
// is on disk, and the kernel will not say it a second time.
func (s *Store) fail(err error) error {
	err = fmt.Errorf("the disk failed, the store takes no more writes until it is opened again: %w", err)
	s.failed.CompareAndSwap(nil, &err)
	return err
}

func (s *Store) failure() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// begin counts a call in; end it with s.life.done.
func (s *Store) begin(write bool) error {
	if write && s.o.ReadOnly {
		return ErrReadOnly
	}
	if !s.life.start() {
		return ErrClosed
	}
	return nil
}

// A lifetime lets Close wait for the calls under way. Unlike a read-write lock
// it lets a call make another one while Close waits: that one fails.
type lifetime struct {
	mu    sync.Mutex
	idle  *sync.Cond
	calls int
	over  bool
}

func (l *lifetime) start() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.calls++
	return true
}

func (l *lifetime) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.calls == 0 {
		l.idle.Broadcast()
	}
}

// end waits for all calls; false if someone else ended it.
func (l *lifetime) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.over = true
	for l.calls > 0 {
		l.idle.Wait()
	}
	return true
}
