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
	// minSegmentSize is the size in bytes of the journal's segments on a small disk.
	minSegmentSize = 2 << 20
)

// Options are the arguments of Open. Zero values are defaults.
type Options struct {
	// FillSource is the directory or image from which the caller will fill a new store, "" for none. Until the
	// caller calls MarkFilled, IsNewOrUnfilled returns true each time the store is opened. With Quiet, the filling
	// does not wait for the disk. After the next opening, Sync makes the files durable.
	FillSource string
	Logger     *slog.Logger
	FS         vfs.FS // the file system of packs and journal; nil: the store's directory on the real disk
	// UID, GID and Mode are the attributes of the root directory of a new store.
	UID, GID uint32
	Mode     uint32
	// Quiet turns off the background work: automatic snapshots, gc, checkpoints except for the
	// last one in Close, and seals that no caller waits for.
	Quiet bool
	// Salvage opens a damaged store with the objects that can be read. It replays the journal only up to the
	// first damaged record, because later records may depend on this record.
	Salvage bool
	// CloseTime limits the time in which Close seals changes. Changes that are not sealed stay in the journal,
	// which the next opening replays. 0: no limit.
	CloseTime time.Duration
	// MaxJournaledSteps is the largest number of steps of a restore or a merge that are written to the journal.
	// With more steps the result is sealed instead. 0: the number that fits into half of MemoryBytes, at most
	// 400,000.
	MaxJournaledSteps int
	// MemoryBytes limits the memory of unsealed changes. 0: engine.DefaultMemoryBytes.
	MemoryBytes int64
	// LowMemory opens a store with a quarter of MemoryBytes. It is set after daemons were killed while they opened
	// the store, perhaps because memory ran out. If one workspace takes most of that memory after recovery, the
	// workspace is read-only.
	LowMemory bool
	// Now returns the time; nil: time.Now.
	Now func() time.Time
	// Elapsed is a monotonic clock that also counts while the machine sleeps. nil:
	// CLOCK_BOOTTIME, or Now if Now is set.
	Elapsed func() time.Duration
	// Takeover opens the store for a process that takes over a kernel connection from another process. The state of
	// that connection is kept: see live.Takeover.Inherit and live.Takeover.WasCarriedOut.
	Takeover bool
	// ReadOnly opens a store for reading and Verify only: no journal records and no metadata are
	// written.
	ReadOnly bool
	// Connect, if not nil, is called when the store is locked and nothing is loaded yet. It
	// returns the remote objects that the store reads, and the snapshot that an empty store
	// begins with; each may be nil.
	Connect func(ConnectArgs) (tree.RemoteObjects, *StartSnapshot, error)
	// Lock is the lock of the store, if this process inherited it.
	Lock *os.File
}

// A Store is an open store. Its methods may be called from many goroutines.
type Store struct {
	*applyParts

	// The same as in applyParts.parts.
	dir     string
	logger  *slog.Logger
	cas     *cas.Store
	objects tree.Objects
	log     *journal.Journal
	src     *tree.Source
	forest  *live.Forest
	cat     *catalogue.Catalogue // guarded by the lock of forest

	opt      Options
	storeDir *storedir.Dir
	actors   *actors.Registry
	Hooks    Hooks

	lostData          repair.LostData // data that a salvage could not read
	readOnlyWorkspace string          // the name of the read-only workspace, see Options.LowMemory
	isNewOrUnfilled   bool            // see Store.IsNewOrUnfilled
	closed            atomic.Bool
}

// newStore makes the components of a store and connects them. It opens no files.
func newStore(storeDir *storedir.Dir, o Options) *Store {
	s := &Store{applyParts: &applyParts{}, storeDir: storeDir, dir: storeDir.Path, opt: o, logger: o.Logger, cat: catalogue.New()}
	p, table := &s.parts, &s.workspaces
	p.Dir, p.FS, p.Catalogue, p.Logger, p.Loops = s.dir, o.FS, s.cat, o.Logger, loops.New(o.Logger)
	table.parts, table.store, table.byView = p, s, make(map[uint32]*Workspace)
	s.ckpt = engine.NewCheckpointer(p)
	s.sealer = engine.NewSealer(engine.SealerParts{
		Catalogue: table, Pacer: &engine.Pacer{JournalEnd: func() int64 { return s.log.End() }, JournalOutgrown: s.ckpt.JournalOutgrown}, Puts: &s.gc.Puts,
		Loops: &p.Loops, Metrics: &p.Metrics, Incomplete: &p.Incomplete, Logger: o.Logger,
	})
	s.gc = engine.Collector{Signal: loops.NewSignal(), CollectorParts: engine.CollectorParts{
		Checkpoints: s.ckpt, StoredBytes: &s.room.StoredBytes, StorableBytes: s.room.StorableBytes, Incomplete: &p.Incomplete, Roots: p.Roots,
		Elapsed: func() time.Duration { return o.Elapsed() + 1 },
		Loops:   &p.Loops, Metrics: &p.Metrics, Logger: o.Logger,
	}}

	s.ckpt.Sealer, s.ckpt.Collector, s.ckpt.Room = s.sealer, &s.gc, &s.room
	s.meter = engine.NewMeter(p, &s.room)
	s.mem = engine.NewMemory(p, s.sealer, o.MemoryBytes)
	s.mem.ReadOnly = o.ReadOnly
	s.ckpt.Meter, s.ckpt.Memory = s.meter, s.mem
	s.room.FS, s.room.Dir, s.room.Checkpoints, s.room.NoSeals = o.FS, s.dir, s.ckpt, o.Quiet
	s.policies = policy.Enforcer{
		Workspaces: table.workspacesForPolicies, ChangedViews: table.takeChangedViews, Now: o.Now, Elapsed: o.Elapsed, PauseRemovals: p.PauseRemovals, PausedUntil: p.RemovalsPausedUntil, NextRecord: s.NextRecord, Signal: loops.NewSignal(), Loops: &p.Loops, Logger: o.Logger,
	}
	s.actors = actors.NewRegistry(table.viewAndAncestors, table.forkName)

	return s
}

// FS returns the file system of the store's directory, for packages with their own files in it.
func (s *Store) FS() vfs.FS { return s.opt.FS }

func (s *Store) Dir() string { return s.dir }

// IsNewOrUnfilled reports whether Open made the store, or the store was never filled (see Options.FillSource).
func (s *Store) IsNewOrUnfilled() bool { return s.isNewOrUnfilled }

func (s *Store) Forest() *live.Forest { return s.forest }

// Connect begins a connection to the kernel, see live.Takeover. If the journal has no other record since the last
// checkpoint, Connect moves the checkpoint's position behind the record of the connection, so that this record
// makes no checkpoint due.
func (s *Store) Connect() error {
	before := s.log.End()
	if err := s.forest.Takeover.Connect(); err != nil {
		return err
	}
	s.ckpt.LastPos.CompareAndSwap(before, s.log.End())
	return nil
}

// Actors returns the registry of the actors of processes.
func (s *Store) Actors() *actors.Registry { return s.actors }

// Source returns the source of objects and journal bytes that trees are read from.
func (s *Store) Source() *tree.Source { return s.src }

func (s *Store) CAS() *cas.Store { return s.cas }

// LockFD returns the file descriptor that has the lock of the store's directory.
func (s *Store) LockFD() int { return s.storeDir.LockFD() }

// SetMountpoint records the mount point in the store's directory, for processes that find the
// store locked.
func (s *Store) SetMountpoint(dir string) error {
	return s.storeDir.SetMountpoint(dir)
}

func (s *Store) Main() *Workspace {
	w, _ := s.Workspace(live.MainView)
	return w
}

func (s *Store) Workspace(view uint32) (w *Workspace, ok bool) {
	defer s.forest.ReadLock()()
	if w, ok = s.workspaces.byView[view]; ok && w.ws.Ended != 0 {
		return nil, false // the fork has ended, and is kept for undo
	}
	return w, ok
}

// SnapshotOf returns the snapshot with the given view.
func (s *Store) SnapshotOf(view uint32) (info info.Info, ok bool) {
	defer s.forest.ReadLock()()
	if sn := s.cat.Snapshots.At(view); sn != nil {
		return sn.Info, true
	}
	return info, false
}

// WorkspaceOf returns the workspace with the given view, or the workspace of the snapshot with the view. It
// returns nil if neither exists.
func (s *Store) WorkspaceOf(view uint32) (w *Workspace) {
	defer s.forest.ReadLock()()
	if sn := s.cat.Snapshots.At(view); sn != nil {
		view = sn.WS
	}
	if w = s.workspaces.byView[view]; w != nil && w.ws.Ended != 0 {
		return nil // the fork has ended, and is kept for undo
	}
	return w
}

// FreeBytes returns the number of bytes that can still be written.
func (s *Store) FreeBytes() (int64, error) { return s.room.FreeBytes() }

// MarkFilled records that the caller has filled the store, see Options.FillSource.
func MarkFilled(s *Store) error {
	if err := s.Sync(); err != nil {
		return err
	}
	return s.storeDir.MarkFilled()
}

// Sync returns when all acknowledged changes would survive a power cut.
func (s *Store) Sync() error {
	if err := s.storeDir.SyncFill(); err != nil {
		return err
	}
	return s.log.Sync()
}

// NextRecord returns a channel that is closed when the next record is appended to the journal.
func (s *Store) NextRecord() <-chan struct{} { return s.log.NextAppend() }

// Hold protects the objects and journal bytes of a state from removal until release is called, even if its
// snapshot is deleted in that time. A caller that reads a state holds it.
func (s *Store) Hold(st *tree.State) (release func()) { return s.parts.Pins.Hold(st) }

// Checkpoint seals the present state of all workspaces, commits it with the catalogue,
// and deletes the journal segments that are not needed any more.
func (s *Store) Checkpoint(ctx context.Context) error { return s.ckpt.Checkpoint(ctx) }

// GC frees the disk space of unreferenced objects. It does not block writers, captures and seals. While it waits
// for an import, it does not block checkpoints and verifications either. Snapshots and forks that are kept for
// undo are referenced, unless the disk is nearly full: then GC removes them first.
func (s *Store) GC(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error) {
	if free, err := s.FreeBytes(); err == nil && free < nearlyFullBytes {
		if err := s.RemoveKept(); err != nil {
			return cas.GCResult{}, err
		}
	}

	return s.gc.Run(ctx, progress)
}
