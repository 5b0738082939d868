package snapshot

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/repair"
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
	// Salvage opens a damaged store with what can be read. Of the journal it uses the records
	// before the first damage: later ones may depend on a lost one.
	Salvage bool
	// CloseTime is how long Close seals what is not sealed yet; what is left by then
	// stays in the journal, from which the next opening has it. 0 is without limit.
	CloseTime time.Duration
	// ManyChanges is how many changes a restore or a merge makes without sealing what
	// they lead to. When 0, as many as half of Memory has room for, 400,000 at most.
	ManyChanges int
	// Memory is what changes that are not sealed take in memory at most, in bytes;
	// engine.DefaultMemory when 0.
	Memory int64
	// Frugal is for a store of which daemons were killed while they opened it, perhaps because it
	// takes more memory than there is. It takes a quarter of Memory, and the workspace with the
	// most to recover, if that is much, is read-only.
	Frugal bool
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Elapsed is a clock that is never set. When nil it is CLOCK_BOOTTIME or, if Now is set, Now.
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
	ckpt  *engine.Checkpointer
	gc    engine.Collector
	room  engine.Room
	meter *engine.Meter
	mem   *engine.Memory
	keep  policy.Keeper

	tooHeavy string // the workspace that is read-only, see Options.Frugal
	created  bool   // by this opening
	closed   atomic.Bool
}

// core is what the parts of a store share.
type core struct {
	parts      engine.Parts // of which those that are named below are the same
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
	captured   []events.Event        // of snapshots between two actors, not reported yet
	lost       repair.Lost           // when a damaged store was opened
	hooks      hooks
	metrics    *info.Recorder
	loops      *loops.Group
	actors     *actors.Registry
}

// newStore connects the parts of a store, none of which has a file yet.
func newStore(at *storedir.Dir, o Options) *Store {
	c := &core{dir: at.Path, opt: o, logger: o.Logger, cat: catalogue.New(), workspaces: make(map[uint32]*Workspace)}
	p := &c.parts
	p.Dir, p.FS, p.Catalogue, p.Logger, p.Loops = c.dir, o.FS, c.cat, c.logger, loops.New(o.Logger)
	c.metrics, c.loops = &p.Metrics, &p.Loops
	s := &Store{core: c, at: at, ckpt: engine.NewCheckpointer(p)}
	s.seal = engine.New(engine.SealerParts{
		Catalogue: entries{s}, Pacer: &engine.Pacer{End: func() int64 { return c.log.End() }, Outgrown: s.ckpt.Outgrown}, Puts: &s.gc.Puts,
		Loops: &p.Loops, Metrics: &p.Metrics, Incomplete: &p.Incomplete, Logger: c.logger,
	})
	s.gc = engine.Collector{Signal: loops.NewWake(), CollectorParts: engine.CollectorParts{
		Checkpoints: s.ckpt, Stored: &s.room.Stored, Left: s.room.Left, Incomplete: &p.Incomplete, Roots: p.Roots,
		Elapsed: func() time.Duration { return o.Elapsed() + 1 },
		Loops:   &p.Loops, Metrics: &p.Metrics, Logger: c.logger,
	}}
	s.ckpt.Sealer, s.ckpt.Collector, s.ckpt.Room = s.seal, &s.gc, &s.room
	s.meter = engine.NewMeter(p, &s.room)
	s.mem = engine.NewMemory(p, s.seal, o.Memory)
	s.mem.ReadOnly = o.ReadOnly
	s.ckpt.Meter, s.ckpt.Memory = s.meter, s.mem
	s.room.Dir, s.room.Checkpoints, s.room.Quiet = c.dir, s.ckpt, o.Quiet
	s.keep = policy.Keeper{
		Workspaces: entries{s}.toKeep, Changed: entries{s}.changed, Now: o.Now, Elapsed: o.Elapsed, Hold: p.Hold, Held: p.Held, Appended: s.Changed, Signal: loops.NewWake(), Loops: &p.Loops, Logger: c.logger,
	}
	c.actors = actors.NewRegistry(c.within, c.forkName)
	return s
}

// FS returns the file system of the store's directory, for other packages that have files there.
func (s *Store) FS() vfs.FS { return s.opt.FS }

func (s *Store) Dir() string { return s.dir }

// Created reports whether the store was made when it was opened, or was not filled since.
func (s *Store) Created() bool { return s.created }

func (s *Store) Forest() *live.Forest { return s.forest }

// Connect begins a connection to the kernel, see live.Takeover. Its record alone calls for no checkpoint.
func (s *Store) Connect() error {
	before := s.log.End()
	if err := s.forest.Connect(); err != nil {
		return err
	}
	s.ckpt.At.CompareAndSwap(before, s.log.End())
	return nil
}

// Actors returns the registry of the actors of processes.
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

// LockFD is the descriptor that has the lock of the store.
func (s *Store) LockFD() int { return s.at.Lock() }

// SetMountpoint writes down where the store is mounted, for a process that finds it
// in use.
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

func (s *Store) SnapshotOf(view uint32) (info info.Info, ok bool) {
	s.look(func(*live.Tx) {
		var sn *catalogue.Snapshot
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
func (s *core) look(fn func(tx *live.Tx)) { s.parts.Look(fn) }

// alter runs fn with the lock of the forest held, also while changes are held
// back.
func (s *core) alter(fn func(tx *live.Tx)) { s.parts.Alter(fn) }

// Hold keeps what a state refers to, in packs and journal, until release is called:
// a reader reads it, and its snapshot may be deleted meanwhile.
func (s *core) Hold(st *tree.State) (release func()) { return s.parts.Pins.Hold(st) }

// Checkpoint seals everything as it is now, commits it with the catalogue,
// and drops the journal that is not needed any more.
func (s *Store) Checkpoint(ctx context.Context) error { return s.ckpt.Checkpoint(ctx) }

// GC gives back the disk space of what nothing refers to any more. Writers,
// captures and seals go on meanwhile, and while it waits for an import, so do
// checkpoints and verifications.
func (s *Store) GC(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error) {
	return s.gc.Run(ctx, progress)
}
