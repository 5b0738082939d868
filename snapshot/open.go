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
	"github.com/amberfs/amberfs/snapshot/repair"
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

	if o.FS == nil {
		o.FS = storeDir.Disk
	}

	s := newStore(storeDir, o)
	if err := openStore(s); err != nil {
		err = fmt.Errorf("opening store %s: %w", s.dir, err)
		if o.Takeover { // see GiveUp
			return nil, err
		}
		return nil, errors.Join(err, closeParts(&s.parts), storeDir.Discard())
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

// openStore opens the files of a store, recovers the workspaces and starts the background work.
func openStore(s *Store) error {
	err := s.storeDir.MakeStore(s.opt.FillSource)
	if err == nil && !s.opt.ReadOnly {
		err = s.storeDir.ResumeFill(s.opt.Quiet)
	}
	if err != nil {
		return err
	}

	checkpoint, start, err := openParts(s)
	if err != nil {
		return err
	}
	if s.lostData, err = recoverState(s.applyParts, s.opt, checkpoint, start); err != nil {
		return fmt.Errorf("recovering: %w", err)
	}
	if s.opt.LowMemory {
		s.readOnlyWorkspace = protectHeaviest(s.applyParts)
	}

	s.mem.EndRecovery()
	if !s.opt.Takeover {
		s.forest.Takeover.Disinherit()
	}

	s.refreshLimits()
	if s.isNewOrUnfilled = checkpoint.NoCheckpoint && s.log.End() == 0 && !s.opt.ReadOnly; s.isNewOrUnfilled {
		if err := commitFirstCheckpoint(s.ckpt); err != nil {
			return err
		}
	}

	s.forest.Recovery.SetSource(s.src.WithObjects(s.objects.Local()))
	s.room.StoredBytes.Store(s.cas.Stats().StoredBytes)
	if !s.opt.Quiet {
		l := &s.parts.Loops
		l.Start("sealing", s.sealer.Loop)
		l.Start("sealing forks", s.sealer.ForkLoop)
		l.Start("checkpoints", s.ckpt.Loop)
		l.Start("policies", s.policies.Loop)
		l.Start("gc", s.gc.Loop)
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

// openParts opens packs and journal, and makes the forest without its views. It returns the last checkpoint, and the
// snapshot from Options.Connect.
func openParts(s *Store) (checkpoint catalogue.StoreRecord, start *StartSnapshot, err error) {
	p := &s.parts
	if s.cas, err = cas.Open(s.dir, cas.Options{FS: s.opt.FS, Logger: s.logger, Salvage: s.opt.Salvage, NoCommit: s.opt.ReadOnly, Takeover: s.opt.Takeover}); err != nil {
		return checkpoint, nil, err
	}

	p.CAS = s.cas
	if checkpoint, err = engine.LastCheckpoint(s.cas); err != nil {
		return checkpoint, nil, err
	}
	if s.log, err = openJournal(p, &s.room, s.opt, checkpoint.Position); err != nil {
		return checkpoint, nil, err
	}

	p.Log = s.log
	if checkpoint.NoCheckpoint && !isFirstOpening(s.log, s.cas) {
		return checkpoint, nil, errs.New(errs.Damaged, "the packs contain %d objects, but %w", s.cas.Stats().Objects, cas.ErrLost)
	}

	s.objects.Store = s.cas
	if s.opt.Connect != nil {
		if s.objects.Remote, start, err = s.opt.Connect(ConnectArgs{s.opt.FS, s.dir, checkpoint.NoCheckpoint}); err != nil {
			return checkpoint, nil, err
		}
	}

	s.src = tree.NewSource(s.objects, s.log, cacheBytes)
	s.sealer.Source, s.sealer.Objects, s.gc.Source, s.gc.Objects = s.src, s.cas, s.src, s.objects
	liveOptions := live.Options{Source: s.src, Log: s.log, ReadView: s.workspaces.readView, Admit: s.admit, Memory: s.mem, Salvage: s.opt.Salvage, Logger: s.logger}
	if !s.opt.Quiet {
		liveOptions.CaptureOnOverlap = s.captureBetweenActors
	}

	s.forest = live.New(liveOptions)
	p.Objects, p.Source, p.Forest = s.objects, s.src, s.forest

	return checkpoint, start, nil
}

// openJournal opens the journal and connects it with the room. begin is the position of the last
// checkpoint.
func openJournal(p *engine.Parts, room *engine.Room, o Options, begin int64) (*journal.Journal, error) {
	total, err := p.FS.Total(p.Dir)
	if err != nil {
		return nil, err
	}

	room.SetDiskSize(total)
	room.Log, err = journal.Open(filepath.Join(p.Dir, "journal"), journal.Options{
		FS: p.FS, Logger: p.Logger, LowestPos: begin, Salvage: o.Salvage, ReadOnly: o.ReadOnly, KeepDamaged: live.DamagesOnlyBytes,
		Quarantine:  filepath.Join(p.Dir, "quarantine"),
		SegmentSize: min(journal.DefaultSegmentSize, max(minSegmentSize, total/32)), Reserve: room.ReservedBytes, FreeReserve: p.CAS.DeleteReserve,
	})

	return room.Log, err
}

// isFirstOpening reports whether a store without a checkpoint can be a new store: then its journal still begins
// with the first record. Otherwise the store's metadata was lost.
func isFirstOpening(log *journal.Journal, packs *cas.Store) bool {
	if log.End() == 0 {
		return packs.Stats().Objects <= maxFirstObjects
	}
	return log.Size() == log.End()
}

// recoverState loads the state of the last checkpoint and replays the journal.
func recoverState(p *applyParts, o Options, checkpoint catalogue.StoreRecord, start *StartSnapshot) (lost repair.LostData, err error) {
	p.ckpt.Resume(checkpoint)
	load := engine.Loader{Parts: &p.parts, Sealer: p.sealer, Salvage: o.Salvage, EmptyState: func(tx *live.Tx) *tree.State {
		return emptyTree(o, tx, time.Now())
	}}
	forest := p.parts.Forest
	if err := forest.Update(true, func(tx *live.Tx) error {
		tx.SetCounters(checkpoint.NextIno, checkpoint.NextView)
		tx.SetRequests(checkpoint.Requests)
		tx.SetStaleNames(checkpoint.StaleNames())
		if checkpoint.NoCheckpoint {
			return makeFirstTree(p.applier(tx), o, start)
		}

		err := load.Load(tx)
		for _, w := range p.parts.Catalogue.Workspaces.All() {
			p.addWorkspace(w)
			tx.SetReadOnlyPaths(w.View, w.Policy.ReadOnly)
		}

		return err
	}); err != nil {
		return lost, err
	}

	lost.LostWorkspaces = load.LostWorkspaces
	lost.Skipped, err = forest.Recovery.Replay(checkpoint.Position, len(lost.LostWorkspaces) > 0, func(tx *live.Tx, t journal.Type, payload []byte) error { return replay(p, tx, t, payload) })

	return lost, err
}

// protectHeaviest makes the workspace that takes most of the memory read-only, see Options.LowMemory. It returns its
// name, "" if no workspace takes that much.
func protectHeaviest(p *applyParts) (name string) {
	view, heavy := p.mem.HeaviestWorkspace()
	if !heavy {
		return ""
	}

	name = p.parts.Catalogue.Workspaces.At(view).Name
	p.parts.Logger.Warn("daemons were killed while they opened the store; the workspace that takes the most memory is read-only until the next mount", "workspace", name)
	p.parts.Forest.Recovery.SetReadOnly(view)

	return name
}

// commitFirstCheckpoint commits the checkpoint of a new store. With it, Open detects later that
// the journal or the packs were lost, and does not treat the store as a new one.
func commitFirstCheckpoint(c *engine.Checkpointer) error {
	if err := c.Log.CreateFirstSegment(); err != nil {
		return err
	}
	return c.Checkpoint(c.Loops.Context)
}

// makeFirstTree makes the workspace main of a new store. Its state and its base are empty, or the snapshot that
// Options.Connect returned.
func makeFirstTree(t *applier, o Options, start *StartSnapshot) error {
	now := o.Now()
	st := emptyTree(o, t.tx, now)
	cat := t.p.parts.Catalogue
	ws := cat.AddMain()
	t.p.addWorkspace(ws)
	base := catalogue.SnapshotRecord{Info: info.Info{Name: "base", Kind: info.KindImport, Created: now, Process: info.Process{UID: o.UID}}}
	var err error
	if start != nil {
		if st, err = addStartSnapshot(t, start, ws); err != nil {
			return err
		}

		base.Kind, base.Parent = info.KindPull, start.Info.Name
	}

	t.AddView(ws.View, st)
	if base.View, err = t.NewView(); err != nil {
		return err
	}

	return t.applyEffects(cat.SetBase(t, ws, st, base))
}

func emptyTree(o Options, tx *live.Tx, now time.Time) *tree.State {
	return tree.NewRoot(tx.Epoch(), unix.S_IFDIR|o.Mode&0o7777, o.UID, o.GID, now.UnixNano())
}
