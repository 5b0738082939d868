package snapshot

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// maxFirstObjects is larger than the number of objects that the first checkpoint puts into a new store.
const maxFirstObjects = 16

// elapsedClock returns Options.Elapsed or, if it is nil, the clock that is its default.
func elapsedClock(o Options) func() time.Duration {
	if o.Elapsed != nil {
		return o.Elapsed
	}

	if o.Now != nil {
		begin := o.Now()
		return func() time.Duration { return o.Now().Sub(begin) }
	}

	return func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // cannot fail on Linux
		return time.Duration(t.Nano())
	}
}

// Open opens the store in dir, or makes a new one if dir has none. Errors contain the path of the
// store.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	storeDir, err := storedir.Open(dir, o.Lock)
	if err != nil {
		return nil, err
	}

	s := newStore(storeDir, o)
	if o.FS == nil {
		s.opt.FS, s.parts.FS = storeDir.Disk, storeDir.Disk
	}

	if err := openStore(s); err != nil {
		err = fmt.Errorf("opening store %s: %w", s.dir, err)
		if o.Takeover { // see GiveUp
			return nil, err
		}
		return nil, errors.Join(err, s.closeParts(), storeDir.Discard())
	}

	return s, nil
}

// withDefaults returns o with defaults for all zero values.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	o.Elapsed = elapsedClock(o)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = engine.DefaultMemoryBytes
	}
	if o.LowMemory {
		o.MemoryBytes /= 4
	}
	if o.MaxJournaledSteps == 0 {
		o.MaxJournaledSteps = int(min(400_000, o.MemoryBytes/2/live.InodeBytes))
	}
	if o.Mode == 0 {
		o.Mode = 0o755
	}

	return o
}

// openStore opens the store, loads the registered names of actors, and sets isNewOrUnfilled.
func openStore(s *Store) error {
	if err := openParts(s); err != nil {
		return err
	}

	if !s.opt.ReadOnly {
		names := filepath.Join(s.dir, "actors.json")
		b, _ := vfs.ReadFile(s.opt.FS, names) // without the file no process is registered as an actor
		s.actors.LoadNames(b, func(b []byte) error { return vfs.WriteFile(s.opt.FS, names, b) })
	}

	from, err := storedir.FillingSource(s.dir)
	s.isNewOrUnfilled = s.isNewOrUnfilled || from != ""
	return err
}

// openParts opens packs and journal, recovers the workspaces and starts the background work.
func openParts(s *Store) error {
	err := s.storeDir.MakeStore(s.opt.FillSource)
	if err == nil && !s.opt.ReadOnly {
		err = s.storeDir.ResumeFill(s.opt.Quiet)
	}
	if err != nil {
		return err
	}
	if s.cas, err = cas.Open(s.dir, cas.Options{FS: s.opt.FS, Logger: s.logger, Salvage: s.opt.Salvage, NoCommit: s.opt.ReadOnly, Takeover: s.opt.Takeover}); err != nil {
		return err
	}

	checkpoint, err := engine.LastCheckpoint(s.cas)
	if err != nil {
		return err
	}
	if err := openJournal(s, checkpoint.Position); err != nil {
		return err
	}
	if checkpoint.NoCheckpoint && !isFirstOpening(s) {
		return errs.New(errs.Damaged, "the packs contain %d objects, but %w", s.cas.Stats().Objects, cas.ErrLost)
	}

	s.objects.Store = s.cas
	if s.opt.Connect != nil {
		if s.objects.Remote, s.startSnapshot, err = s.opt.Connect(ConnectArgs{s.opt.FS, s.dir, checkpoint.NoCheckpoint}); err != nil {
			return err
		}
	}

	s.src = tree.NewSource(s.objects, s.log, cacheBytes)
	s.sealer.Source, s.sealer.Objects, s.gc.Source, s.gc.Objects = s.src, s.cas, s.src, s.objects
	liveOptions := live.Options{Source: s.src, Log: s.log, ReadView: s.workspaces.readView, Admit: s.admit, Memory: s.mem, Salvage: s.opt.Salvage, Logger: s.logger}
	if !s.opt.Quiet {
		liveOptions.CaptureOnOverlap = s.captureBetweenActors
	}

	s.forest = live.New(liveOptions)
	p := &s.parts
	p.CAS, p.Objects, p.Source, p.Log, p.Forest = s.cas, s.objects, s.src, s.log, s.forest
	if err := recoverState(s, checkpoint); err != nil {
		return fmt.Errorf("recovering: %w", err)
	}

	s.forest.Recovery.SetSource(s.src.WithObjects(s.objects.Local()))
	s.room.StoredBytes.Store(s.cas.Stats().StoredBytes)

	if !s.opt.Quiet {
		s.loops.Start("sealing", s.sealer.Loop)
		s.loops.Start("sealing forks", s.sealer.ForkLoop)
		s.loops.Start("checkpoints", s.ckpt.Loop)
		s.loops.Start("policies", s.policies.Loop)
		s.loops.Start("gc", s.gc.Loop)
	}

	return nil
}

// openJournal opens the journal and connects it with the room. begin is the position of the last
// checkpoint.
func openJournal(s *Store, begin int64) error {
	total, err := s.opt.FS.Total(s.dir)
	if err != nil {
		return err
	}

	s.room.FS = s.opt.FS
	s.room.SetDiskSize(total)
	s.log, err = journal.Open(filepath.Join(s.dir, "journal"), journal.Options{
		FS: s.opt.FS, Logger: s.logger, LowestPos: begin, Salvage: s.opt.Salvage, ReadOnly: s.opt.ReadOnly, KeepDamaged: live.DamagesOnlyBytes,
		Quarantine:  filepath.Join(s.dir, "quarantine"),
		SegmentSize: min(journal.DefaultSegmentSize, max(minSegmentSize, total/32)), Reserve: s.room.ReservedBytes, FreeReserve: s.cas.DeleteReserve,
	})

	s.room.Log = s.log

	return err
}

// isFirstOpening reports whether a store without a checkpoint can be a new store: then its journal still begins
// with the first record. Otherwise the store's metadata was lost.
func isFirstOpening(s *Store) bool {
	if s.log.End() == 0 {
		return s.cas.Stats().Objects <= maxFirstObjects
	}
	return s.log.Size() == s.log.End()
}

// recoverState loads the state of the last checkpoint and replays the journal.
func recoverState(s *Store, checkpoint catalogue.StoreRecord) error {
	s.ckpt.Resume(checkpoint)
	load := engine.Loader{Parts: &s.parts, Sealer: s.sealer, Salvage: s.opt.Salvage, EmptyState: func(tx *live.Tx) *tree.State {
		return emptyTree(s, tx, time.Now())
	}}
	if err := s.forest.Update(true, func(tx *live.Tx) error {
		tx.SetCounters(checkpoint.NextIno, checkpoint.NextView)
		tx.SetRequests(checkpoint.Requests)
		tx.SetStaleNames(checkpoint.StaleNames())
		if checkpoint.NoCheckpoint {
			return makeFirstTree(s, tx)
		}

		err := load.Load(tx)
		for _, w := range s.cat.Workspaces.All() {
			s.addWorkspace(w)
			tx.SetReadOnlyPaths(w.View, w.Policy.ReadOnly)
		}

		return err
	}); err != nil {
		return err
	}

	s.lostData.LostWorkspaces = load.LostWorkspaces
	var err error
	if s.lostData.Skipped, err = s.forest.Recovery.Replay(checkpoint.Position, len(s.lostData.LostWorkspaces) > 0, func(tx *live.Tx, t journal.Type, payload []byte) error { return replay(s, tx, t, payload) }); err != nil {
		return err
	}

	if view, heavy := s.mem.HeaviestWorkspace(); heavy && s.opt.LowMemory {
		s.readOnlyWorkspace = s.cat.Workspaces.At(view).Name
		s.logger.Warn("daemons were killed while they opened the store; the workspace that takes the most memory is read-only until the next mount", "workspace", s.readOnlyWorkspace)
		s.forest.Recovery.SetReadOnly(view)
	}

	s.mem.EndRecovery()
	if !s.opt.Takeover {
		s.forest.Takeover.Disinherit()
	}

	s.refreshLimits()
	if checkpoint.NoCheckpoint && s.log.End() == 0 && !s.opt.ReadOnly {
		return commitFirstCheckpoint(s)
	}

	return nil
}

// commitFirstCheckpoint commits the checkpoint of a new store. With it, Open detects later that
// the journal or the packs were lost, and does not treat the store as a new one.
func commitFirstCheckpoint(s *Store) error {
	s.isNewOrUnfilled = true
	if err := s.log.CreateFirstSegment(); err != nil {
		return err
	}
	return s.Checkpoint(s.loops.Context)
}

// makeFirstTree makes the workspace main of a new store. Its state and its base are empty, or the snapshot that
// Options.Connect returned.
func makeFirstTree(s *Store, tx *live.Tx) error {
	now := s.opt.Now()
	st := emptyTree(s, tx, now)
	w := s.addWorkspace(s.cat.AddMain())
	base := catalogue.SnapshotRecord{Info: info.Info{Name: "base", Kind: info.KindImport, Created: now, Process: info.Process{UID: s.opt.UID}}}
	var err error
	if start := s.startSnapshot; start != nil {
		if st, err = addStartSnapshot(s, tx, start, w); err != nil {
			return err
		}

		base.Kind, base.Parent = info.KindPull, start.Info.Name
		w.ws.Head = base.Parent
	}

	tx.AddView(w.ws.View, st)
	if base.View, err = tx.NewView(); err != nil {
		return err
	}

	t := newApplier(s, tx)
	return t.applyEffects(s.cat.SetBase(t, w.ws, st, base))
}

func emptyTree(s *Store, tx *live.Tx, now time.Time) *tree.State {
	return tree.NewRoot(tx.Epoch(), unix.S_IFDIR|s.opt.Mode&0o7777, s.opt.UID, s.opt.GID, now.UnixNano())
}
