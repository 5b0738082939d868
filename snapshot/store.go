package snapshot

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// cacheBytes bounds the decoded pages and chunks kept in memory.
	cacheBytes = 64 << 20
	// minSegment is the size of the journal's segments on a small disk.
	minSegment = 2 << 20
)

type Options struct {
	// Filling is what a new store is about to be filled from, if anything. Until
	// storedir.Filled is called, each opening takes the store for a new one.
	Filling string
	Logger  *slog.Logger
	FS      vfs.FS // the disk below packs and journal; when nil the real one, beneath the store
	// UID, GID and Mode are those of the root directory of a new store's
	// workspace.
	UID, GID uint32
	Mode     uint32
	// Quiet turns off what happens automatically: seals but for those that are
	// waited for, checkpoints but for the one at the end, captures, gc.
	Quiet bool
	// Salvage opens a damaged store with what can be read: of the journal what
	// lies before the first damage, for what follows may build on what is lost.
	Salvage bool
	// CloseTime is how long Close seals what is not sealed yet; what is left by then
	// stays in the journal, from which the next opening has it. 0 is without limit.
	CloseTime time.Duration
	// ManyChanges is how many changes a restore or a merge makes without sealing what
	// they lead to. 400,000 when 0.
	ManyChanges int
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Elapsed goes on evenly whatever becomes of Now. When nil it is CLOCK_BOOTTIME, or that
	// of Now if there is one.
	Elapsed func() time.Duration
	// Takeover keeps what a connection to the kernel needs that another process began: see
	// live.Forest.Inherit and live.Forest.Done.
	Takeover bool
	// ReadOnly leaves the journal as it is, and commits nothing. The store is good
	// for reading and Verify only.
	ReadOnly bool
	// Connect, if there is one, is called once the store is locked, before anything is
	// loaded. It returns what the store reads from elsewhere, and the snapshot that a store
	// in which nothing is yet begins with, or nil.
	Connect func(Connecting) (tree.Elsewhere, *Start, error)
	// Lock is the lock of the store, if this process inherited it.
	Lock *os.File
}

// A Store is an open store. Its methods may be called from many goroutines.
type Store struct {
	*core
	at    *storedir.Dir
	start *Start // of a new store

	seal  *engine.Sealer
	ckpt  checkpointer
	gc    engine.Collector
	room  engine.Room
	meter meter
	keep  policy.Keeper

	created bool // by this opening
	closed  atomic.Bool
}

// core is what the parts of a store share.
type core struct {
	dir        string
	opt        Options
	logger     *slog.Logger
	cas        *cas.Store
	objects    tree.Objects
	log        *journal.Journal
	src        *tree.Source
	forest     *live.Forest
	cat        *catalogue.Catalogue  // guarded by the lock of forest
	workspaces map[uint32]*Workspace // of cat, by view
	captured   []Event               // of snapshots between two actors, not reported yet
	pins       pins
	salvage    salvage
	hooks      hooks
	metrics    info.Recorder
	loops      loops.Group
	actors     *actors.Registry
}

// newStore connects the parts of a store, none of which has a file yet.
func newStore(at *storedir.Dir, o Options) *Store {
	c := &core{dir: at.Path, opt: o, logger: o.Logger, loops: loops.New(o.Logger)}
	c.cat, c.workspaces = catalogue.New(), make(map[uint32]*Workspace)
	s := &Store{core: c, at: at}
	s.seal = engine.New(engine.SealerParts{
		Catalogue: entries{s}, Pacer: &engine.Pacer{End: func() int64 { return c.log.End() }, Outgrown: s.ckpt.Outgrown}, Puts: &s.gc.Puts,
		Loops: &c.loops, Metrics: &c.metrics, Incomplete: &c.salvage.incomplete, Logger: c.logger,
	})
	s.ckpt = checkpointer{Store: s, mu: semaphore.NewWeighted(1), gcWaits: gcWaits{came: make(chan struct{})}, gcWork: gcWork, signal: loops.NewWake()}
	s.gc = engine.Collector{Signal: loops.NewWake(), CollectorParts: engine.CollectorParts{
		Checkpoints: &s.ckpt, Stored: &s.room.Stored, Incomplete: &c.salvage.incomplete, Roots: entries{s}.roots,
		Elapsed: func() time.Duration { return o.Elapsed() + 1 },
		Loops:   &c.loops, Metrics: &c.metrics, Logger: c.logger,
	}}
	s.room.Dir, s.room.Checkpoints, s.room.Quiet = c.dir, &s.ckpt, o.Quiet
	s.meter = meter{core: c}
	s.keep = policy.Keeper{
		Workspaces: entries{s}.toKeep, Now: o.Now, Elapsed: o.Elapsed, Appended: s.Changed, Signal: loops.NewWake(), Loops: &c.loops, Logger: c.logger,
	}
	c.actors = actors.NewRegistry(c.within, c.forkName)
	return s
}

// elapsed returns a clock that goes on evenly, also while the machine sleeps.
func elapsed(o Options) func() time.Duration {
	if o.Elapsed != nil {
		return o.Elapsed
	}
	if o.Now != nil {
		begin := o.Now()
		return func() time.Duration { return o.Now().Sub(begin) }
	}
	return func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // Linux has it
		return time.Duration(t.Nano())
	}
}

// Open opens the store in dir, and makes it when there is none.
func Open(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Elapsed = elapsed(o)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ManyChanges == 0 {
		o.ManyChanges = 400_000
	}
	if o.Mode == 0 {
		o.Mode = 0o755
	}
	at, err := storedir.Open(dir, o.Lock)
	if err != nil {
		return nil, err
	}
	s := newStore(at, o)
	if o.FS == nil {
		s.opt.FS = at.Disk
	}
	if err = (opening{s}).open(); err == nil && !o.ReadOnly {
		names := filepath.Join(s.dir, "actors.json")
		b, _ := vfs.ReadFile(s.opt.FS, names) // without it no process has a name
		s.actors.Keep(b, func(b []byte) error { return vfs.WriteFile(s.opt.FS, names, b) })
	}
	if err == nil && !s.created {
		var from string
		if from, err = storedir.Unfilled(dir); from != "" {
			s.created, err = true, s.owned()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", s.dir, err), s.closeParts(), at.Discard())
	}
	return s, nil
}

func (s opening) open() error {
	err := s.at.Format(s.opt.Filling)
	if err != nil {
		return err
	}
	if s.cas, err = cas.Open(s.dir, cas.Options{FS: s.opt.FS, Logger: s.logger, Salvage: s.opt.Salvage, NoCommit: s.opt.ReadOnly, Takeover: s.opt.Takeover}); err != nil {
		return err
	}
	at, err := s.lastCheckpoint()
	if err != nil {
		return err
	}
	if err := s.openJournal(at.Position); err != nil {
		return err
	}
	if at.First && !s.firstOpening() {
		return errs.New(errs.Damaged, "the packs contain %d objects, but %w", s.cas.Stats().Objects, ErrLost)
	}
	s.objects.Store = s.cas
	if s.opt.Connect != nil {
		if s.objects.Elsewhere, s.start, err = s.opt.Connect(Connecting{s.opt.FS, s.dir, at.First}); err != nil {
			return err
		}
	}
	s.src = tree.NewSource(s.objects, s.log, cacheBytes)
	s.seal.Source, s.seal.Objects, s.gc.Source, s.gc.Objects = s.src, s.cas, s.src, s.objects
	lo := live.Options{Source: s.src, Log: s.log, ReadView: s.readView, Admit: s.admit, Salvage: s.opt.Salvage, Logger: s.logger}
	if !s.opt.Quiet {
		lo.Overlap = entries{s.Store}.between
	}
	s.forest = live.New(lo)
	if err := s.recover(at); err != nil {
		return fmt.Errorf("recovering: %w", err)
	}
	if s.objects.Elsewhere != nil {
		s.forest.SetSource(s.src.With(s.objects.Near()))
	}
	s.room.Stored.Store(s.cas.Stats().Stored)
	s.ckpt.loadOutcome()
	if !s.opt.Quiet {
		s.loops.Start("sealing", s.seal.Loop)
		s.loops.Start("sealing forks", s.seal.ForkLoop)
		s.loops.Start("checkpoints", s.ckpt.checkpointLoop)
		s.loops.Start("policies", s.keep.Loop)
		s.loops.Start("gc", s.gc.Loop)
	}
	return nil
}

func (s opening) openJournal(begin int64) error {
	total, err := s.opt.FS.Total(s.dir)
	if err != nil {
		return err
	}
	s.room.FS = s.opt.FS
	s.room.SetTotal(total)
	s.log, err = journal.Open(filepath.Join(s.dir, "journal"), journal.Options{
		FS: s.opt.FS, Logger: s.logger, Begin: begin, Salvage: s.opt.Salvage, ReadOnly: s.opt.ReadOnly, Bytes: live.Bytes,
		Quarantine:  filepath.Join(s.dir, "quarantine"),
		SegmentSize: min(journal.DefaultSegmentSize, max(minSegment, total/32)), Reserve: s.room.HeldBack, GiveUp: s.cas.GiveUpReserve,
	})
	s.room.Log = s.log
	return err
}

func (s opening) admit(view uint32, n int64) error {
	if err := s.meter.admitFork(view, n); err != nil {
		return err
	}
	return s.room.Admit(n)
}

// firstOpening reports whether a store without a checkpoint can be one that was
// just made: its journal has all that ever happened.
func (s opening) firstOpening() bool {
	if s.log.End() == 0 {
		return s.cas.Stats().Objects <= firstObjects
	}
	return s.log.Size() == s.log.End()
}

// FS returns the disk for what others keep in the store's directory.
func (s *Store) FS() vfs.FS { return s.opt.FS }

func (s *Store) Dir() string { return s.dir }

// Created reports whether the store was made when it was opened, or was not filled since.
func (s *Store) Created() bool { return s.created }

func (s *Store) Forest() *live.Forest { return s.forest }

// Actors returns what finds the actors of processes.
func (s *Store) Actors() *actors.Registry { return s.actors }

// within returns the views of a workspace and of those that it is in, main last.
func (s *core) within(view uint32) (views []uint32) {
	s.look(func(*live.Tx) {
		for ws := s.cat.Workspaces[view]; ws != nil; ws = s.cat.Parent(ws) {
			views = append(views, ws.View)
		}
	})
	if n := len(views); n == 0 || views[n-1] != live.MainView {
		views = append(views, live.MainView)
	}
	return views
}

// forkName returns the name of the fork with a view, "" for main and for what has ended.
func (s *core) forkName(view uint32) (name string) {
	s.look(func(*live.Tx) {
		if ws := s.cat.Workspaces[view]; ws != nil && view != live.MainView {
			name = ws.Name
		}
	})
	return name
}

// Source returns what trees are read through.
func (s *Store) Source() *tree.Source { return s.src }

func (s *Store) CAS() *cas.Store { return s.cas }

// SetMountpoint writes down where the store is mounted, for a process that finds it
// in use.
// LockFD is the descriptor that has the lock of the store.
func (s *Store) LockFD() int { return s.at.Lock() }

func (s *Store) SetMountpoint(dir string) error {
	return s.at.SetMountpoint(dir)
}

func (s *Store) Main() *Workspace {
	w, _ := s.Workspace(live.MainView)
	return w
}

func (s *Store) Workspace(view uint32) (w *Workspace, ok bool) {
	s.look(func(*live.Tx) {
		w, ok = s.workspaces[view]
	})
	return w, ok
}

func (s *Store) SnapshotOf(view uint32) (info Info, ok bool) {
	s.look(func(*live.Tx) {
		var sn *snap
		if sn, ok = s.cat.Snapshots[view]; ok {
			info = sn.Info
		}
	})
	return info, ok
}

// WorkspaceOf returns the workspace with the given view, or that of the snapshot with
// it; nil if there is none.
func (s *Store) WorkspaceOf(view uint32) (w *Workspace) {
	s.look(func(*live.Tx) {
		if sn, ok := s.cat.Snapshots[view]; ok {
			view = sn.WS
		}
		w = s.workspaces[view]
	})
	return w
}

// Free returns how many bytes can still be written.
func (s *Store) Free() (int64, error) { return s.room.Free() }

// Sync returns when everything acknowledged would survive a power cut.
func (s *Store) Sync() error { return s.forest.Sync() }

// Changed returns a channel that is closed by the next change of anything.
func (s *Store) Changed() <-chan struct{} { return s.log.Appended() }

// look runs fn with the lock of the forest held for reading.
func (s *core) look(fn func(tx *live.Tx)) {
	_ = s.forest.View(func(tx *live.Tx) error { // it has no error of its own
		fn(tx)
		return nil
	})
}

// alter runs fn with the lock of the forest held, also while changes are held
// back.
func (s *core) alter(fn func(tx *live.Tx)) {
	_ = s.forest.Update(true, func(tx *live.Tx) error { // it has no error of its own
		fn(tx)
		return nil
	})
}
