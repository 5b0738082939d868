package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/cas/guard"
	"github.com/amberfs/amberfs/cas/vfs"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// cacheBytes bounds the decoded pages and chunks kept in memory.
const cacheBytes = 64 << 20

// Options says how a store is opened.
type Options struct {
	Logger *slog.Logger
	FS     vfs.FS // the disk below packs and journal; the real one when nil
	// UID, GID and Mode are those of the root directory of a new store's
	// workspace.
	UID, GID uint32
	Mode     uint32
	// Quiet turns off what happens by itself: seals but for those that are
	// waited for, checkpoints but for the one at the end, captures, gc.
	Quiet bool
	// Salvage opens a damaged store with what can be read: of the journal what
	// lies before the first damage, for what follows may build on what is lost.
	Salvage bool
	// CloseTime is how long Close seals what is not sealed yet; what is left by then
	// stays in the journal, from which the next opening has it. 0 is without limit.
	CloseTime time.Duration
	// ReadOnly leaves the journal as it is, and commits nothing. The store is good
	// for reading and Verify only.
	ReadOnly bool
}

// removedTick is how often a store that is being closed looks whether it is still
// there.
const removedTick = 50 * time.Millisecond

// panicPause is how long work in the background rests after a panic.
const panicPause = 5 * time.Second

// A Store is an open store. Its methods may be called from many goroutines.
type Store struct {
	dir    string
	root   *vfs.Beneath // nil if the disk is not the real one
	opt    Options
	logger *slog.Logger
	lock   *lockFile
	cas    *cas.Store
	log    *journal.Journal
	src    *tree.Source
	forest *live.Forest
	cat    catalogue // guarded by the lock of forest

	invalidate atomic.Pointer[func(live.Invalidation)]
	onEvent    atomic.Pointer[func(Event)]
	seal       sealQueue
	ckpt       checkpoints
	puts       barrier
	imports    atomic.Int32 // under way
	held       struct {     // states that somebody reads, by how many
		mu     sync.Mutex
		states map[*tree.State]int
	}
	figures  figures
	garbage  garbage
	lost     live.Loss // of a salvage
	nameless bool      // the checkpoint is lost, but the journal has all that ever happened
	salvaged []string  // workspaces that go on from another state than their last
	lossy    atomic.Bool
	created  bool  // by this opening
	reserve  int64 // bytes of the disk that writers leave for seals and gc
	room     room
	limit    atomic.Int64  // bytes the store may take; 0: no limit
	stored   atomic.Int64  // bytes it took lately
	policies chan struct{} // wakes keepLoop when one has changed

	ctx    context.Context
	cancel context.CancelFunc
	work   *errgroup.Group
	closed atomic.Bool
}

// An Event is something that happened to a workspace as a whole.
type Event struct {
	Workspace uint32
	Action    string // captured, restored, created, modified, deleted, ended
	Path      string
	From      string
	Size      int64  // bytes, after the event
	Detail    string // what a restore did to the path
	Caller    live.Caller
	Command   string
}

// Open opens the store in dir, and makes it when there is none.
func Open(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Mode == 0 {
		o.Mode = 0o755
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making store %s: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); errors.Is(err, os.ErrNotExist) {
		// Nothing is written into a directory that turns out to be no store.
		if err := checkFormat(dir); err != nil {
			return nil, err
		}
	}
	lock, err := lockStore(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, opt: o, logger: o.Logger, lock: lock, cat: newCatalogue(), policies: make(chan struct{}, 1)}
	if o.FS == vfs.OS {
		if s.root, err = vfs.OpenBeneath(dir); err != nil {
			return nil, errors.Join(err, lock.release())
		}
		s.opt.FS = s.root
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.closeParts(), s.closeRoot(), lock.release())
	}
	return s, nil
}

func (s *Store) open() error {
	if err := checkFormat(s.dir); err != nil {
		return err
	}
	var err error
	if s.cas, err = cas.Open(s.dir, cas.Options{FS: s.opt.FS, Logger: s.logger}); err != nil {
		return fmt.Errorf("opening store %s: %w", s.dir, inUse(s.dir, err))
	}
	at, found, err := s.lastCheckpoint()
	if err != nil {
		return fmt.Errorf("opening store %s: %w", s.dir, err)
	}
	total, err := s.opt.FS.Total(s.dir)
	if err != nil {
		return fmt.Errorf("opening store %s: %w", s.dir, err)
	}
	s.reserve = min(maxReserve, total/16)
	segment := min(journal.DefaultSegmentSize, max(minSegment, total/32))
	var run journal.Run
	if s.root != nil {
		run = currentRun(s.dir)
	}
	look := s.nameless && !s.opt.Salvage // only whether a repair can help
	s.log, err = journal.Open(filepath.Join(s.dir, "journal"), journal.Options{
		FS: s.opt.FS, Logger: s.logger, Begin: at.Position, Run: run, Salvage: s.opt.Salvage || look, ReadOnly: s.opt.ReadOnly || look,
		SegmentSize: segment, Reserve: s.heldBack,
	})
	if err != nil {
		return fmt.Errorf("opening the journal of %s: %w", s.dir, err)
	}
	whole := s.log.End() > 0 && s.log.Size() == s.log.End()
	switch {
	case s.nameless && !whole:
		return fmt.Errorf("opening store %s: %w, and %w", s.dir, s.noCatalogue(), ErrLost)
	case look:
		return fmt.Errorf("opening store %s: %w", s.dir, s.noCatalogue())
	}
	s.src = tree.NewSource(s.cas, s.log, cacheBytes)
	if found && whole && s.opt.Salvage && s.headless() {
		s.nameless, found, at = true, false, storedStore{Lossy: at.Lossy}
	}
	s.forest = live.New(live.Options{Source: s.src, Log: s.log, ReadView: s.readView, Admit: s.admit, Salvage: s.opt.Salvage, Logger: s.logger})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.work = &errgroup.Group{}
	s.seal.init()
	if err := s.recover(at, found); err != nil {
		return fmt.Errorf("recovering store %s: %w", s.dir, err)
	}
	s.stored.Store(s.cas.Stats().Stored)
	if !s.opt.Quiet {
		s.background("sealing", s.sealLoop)
		s.background("checkpoints", s.checkpointLoop)
		s.background("policies", s.keepLoop)
		s.background("gc", s.gcLoop)
	}
	return nil
}

// background runs a loop until the store is closed: again, some time after it
// panicked.
func (s *Store) background(what string, loop func()) {
	s.work.Go(func() error {
		for s.ctx.Err() == nil {
			guard.Call(s.logger, what, loop)
			s.pause(panicPause)
		}
		return nil
	})
}

// Close seals and commits what there is, as far as CloseTime allows, and closes the
// store. Everything acknowledged is on disk when it returns. Of a store that was removed, even
// meanwhile, it is ErrRemoved, and closes nothing: Badger tries for ever to write
// its tables, and the process had better end. The same goes for one whose index was
// removed, and for one on a disk that takes no more writes (cas.ErrStuck); what is
// acknowledged is in packs and journal.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.cancel()
	look := time.NewTicker(removedTick)
	defer look.Stop()
	for done := (chan error)(nil); ; {
		if s.removed() {
			if err := s.log.Sync(); err != nil && !errors.Is(err, journal.ErrClosed) {
				return errors.Join(ErrRemoved, err)
			}
			return ErrRemoved
		}
		if done == nil {
			done = make(chan error, 1)
			go func() { done <- guard.Do(s.close) }()
		}
		select {
		case err := <-done:
			if errors.Is(err, cas.ErrStuck) {
				return err // the index is still in use
			}
			return errors.Join(err, s.closeRoot(), s.lock.release())
		case <-look.C:
		}
	}
}

// removed reports whether the directory of the index is gone, and with it, as a rule,
// the store.
func (s *Store) removed() bool {
	if s.root == nil {
		return false
	}
	_, err := s.root.Stat(filepath.Join(s.dir, "index"))
	return errors.Is(err, os.ErrNotExist)
}

func (s *Store) close() error {
	_ = s.work.Wait() // they log their errors
	if s.opt.ReadOnly {
		return s.closeParts()
	}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if s.opt.CloseTime > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.opt.CloseTime)
	}
	defer cancel()
	err := s.log.Sync()
	switch cerr := s.Checkpoint(ctx); {
	case cerr == nil:
		s.shrinkJournal()
	case ctx.Err() != nil:
		s.logger.Info("the rest is sealed after the next mount", "bytes", s.log.End()-s.ckpt.at.Load())
	default:
		// The journal has it all; the next opening replays it.
		s.logger.Warn("no checkpoint at the end", "error", cerr)
	}
	return errors.Join(err, s.closeParts())
}

func (s *Store) closeParts() error {
	var err error
	if s.cancel != nil {
		s.cancel()
	}
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	if s.cas != nil {
		err = errors.Join(err, s.cas.Close())
	}
	return err
}

// closeRoot is for when nobody reaches for a file of the store any more.
func (s *Store) closeRoot() error {
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

// FS returns the disk for what others keep in the store's directory.
func (s *Store) FS() vfs.FS { return s.opt.FS }

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Created reports whether the store was made when it was opened.
func (s *Store) Created() bool { return s.created }

// Forest returns the file trees.
func (s *Store) Forest() *live.Forest { return s.forest }

// Source returns what trees are read through.
func (s *Store) Source() *tree.Source { return s.src }

// CAS returns the chunk store.
func (s *Store) CAS() *cas.Store { return s.cas }

// SetMountpoint writes down where the store is mounted, for whoever finds it
// in use.
func (s *Store) SetMountpoint(dir string) error {
	return s.lock.write(holder{PID: os.Getpid(), Mountpoint: dir})
}

// OnInvalidate sets what is told of changes from inside. It is called without
// a lock held.
func (s *Store) OnInvalidate(fn func(live.Invalidation)) { s.invalidate.Store(&fn) }

// OnEvent sets what is told of captures and restores. It is called without a
// lock held.
func (s *Store) OnEvent(fn func(Event)) { s.onEvent.Store(&fn) }

func (s *Store) tell(inv live.Invalidation) {
	if fn := s.invalidate.Load(); fn != nil && !inv.Empty() {
		(*fn)(inv)
	}
}

func (s *Store) event(e Event) {
	if fn := s.onEvent.Load(); fn != nil {
		(*fn)(e)
	}
}

// Main returns the workspace main.
func (s *Store) Main() *Workspace {
	w, _ := s.Workspace(live.MainView)
	return w
}

// Workspace returns the workspace with the given view.
func (s *Store) Workspace(view uint32) (w *Workspace, ok bool) {
	s.look(func(*live.Tx) {
		w, ok = s.cat.workspaces[view]
	})
	return w, ok
}

// Workspaces returns all workspaces.
func (s *Store) Workspaces() []*Workspace {
	var out []*Workspace
	s.look(func(*live.Tx) {
		for _, w := range s.cat.workspaces {
			out = append(out, w)
		}
	})
	return out
}

// Sync returns when everything acknowledged would survive a power cut.
func (s *Store) Sync() error { return s.forest.Sync() }

// look runs fn with the lock of the forest held for reading.
func (s *Store) look(fn func(tx *live.Tx)) {
	_ = s.forest.View(func(tx *live.Tx) error { // it has no error of its own
		fn(tx)
		return nil
	})
}

// alter runs fn with the lock of the forest held, also while changes are held
// back.
func (s *Store) alter(fn func(tx *live.Tx)) {
	_ = s.forest.Update(true, func(tx *live.Tx) error { // it has no error of its own
		fn(tx)
		return nil
	})
}
