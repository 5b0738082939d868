package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Checkpointer makes the checkpoints of a store.
type Checkpointer struct {
	*Parts
	Sealer         *Sealer
	Collector      *Collector
	Room           *Room
	Meter          *Meter
	Memory         *Memory
	MaxGCSealBytes int64 // largest number of bytes that a checkpoint for a gc seals

	LastPos              atomic.Int64  // journal position of the last checkpoint
	RecordsBeforeLastPos atomic.Uint64 // number of journal records before LastPos
	EditStepCount        atomic.Int64  // number of steps of edits after LastPos, see AddEditSteps

	mu              *semaphore.Weighted // held by a checkpoint, and by a gc from its checkpoint until it has its roots
	gcWaits         gcWaitFlag
	signal          loops.Signal           // makes Loop check at once whether a checkpoint is due
	lowestNeededPos atomic.Int64           // the lowest journal position that must be kept
	lastError       atomic.Pointer[string] // error of the last checkpoint; nil: it succeeded
	running         atomic.Pointer[runningCheckpoint]
}

// NewCheckpointer returns a Checkpointer of a store without a checkpoint. The parts may be set
// later.
func NewCheckpointer(p *Parts) *Checkpointer {
	return &Checkpointer{
		Parts: p, MaxGCSealBytes: maxGCSealBytes, mu: semaphore.NewWeighted(1), gcWaits: gcWaitFlag{waiting: make(chan struct{})}, signal: loops.NewSignal(),
	}
}

// Resume restores the fields from the record of the last checkpoint, when the store is opened.
func (p *Checkpointer) Resume(record catalogue.StoreRecord) {
	p.Collector.BaseBytes.Store(record.BytesAfterGC)
	if record.HasGarbage {
		p.Collector.CountRemoval(unknownGarbageBytes)
	}

	p.Incomplete.Store(record.Incomplete)
	p.LastPos.Store(record.Position)
	p.RecordsBeforeLastPos.Store(record.Records)

	if b, err := vfs.ReadFile(p.FS, filepath.Join(p.Dir, checkpointErrorFile)); err == nil {
		text := string(b)
		p.lastError.Store(&text)
	}
}

// A Checkpoint contains the changes of a store between the last checkpoint and a journal position.
type Checkpoint struct {
	checkpointer   *Checkpointer
	record         catalogue.StoreRecord
	workspaces     map[uint32]*frozenWorkspace    // by view: workspaces with changed trees or records
	snapshots      map[uint32]*catalogue.Snapshot // by view: snapshots with changed records
	changedRecords map[string]uint32              // by key: the view of a catalogue record that Commit writes or deletes
	rootCount      int                            // the number of UnwrittenRecords.Roots in this checkpoint
	editSteps      int64                          // Checkpointer.EditStepCount at the beginning of this checkpoint
	replayBytes    int64                          // Memory.BytesToReplay at the beginning of this checkpoint
	lowestPos      int64                          // lowest journal position that records after the checkpoint may reference
	orphans        map[uint32]*tree.State         // by view: inodes without a name

	partlySealed map[uint32]*catalogue.PartlySealedState // by view: snapshots with files that cannot be sealed
	unsealedErr  error                                   // the error of files that cannot be sealed
}

// A frozenWorkspace is a workspace at the time of a checkpoint.
type frozenWorkspace struct {
	state      *tree.State
	record     catalogue.WorkspaceRecord
	actors     []*actors.Set // the actor sets since the newest snapshot
	memoryMark int64         // see Memory.ChargedBytes
	isSealed   bool          // the state and its orphans are sealed
}

// Checkpoint seals the present state of all workspaces, commits it with the catalogue,
// and drops the journal that is not needed any more.
func (p *Checkpointer) Checkpoint(ctx context.Context) error {
	for {
		err := p.RunAlone(ctx, func() error { return p.checkpoint(ctx) })
		if !errors.Is(err, ErrNoCheckpoint) || ctx.Err() != nil {
			return err
		}
	}
}

// RunAlone calls fn while no checkpoint is running.
func (p *Checkpointer) RunAlone(ctx context.Context, fn func() error) error {
	if err := p.mu.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.mu.Release(1)
	return fn()
}

// checkpoint makes a checkpoint and records its outcome. The caller holds mu.
func (p *Checkpointer) checkpoint(ctx context.Context) error {
	unsealedErr, err := p.makeCheckpoint(ctx)
	if err == nil || ctx.Err() == nil && !errors.Is(err, ErrNoCheckpoint) {
		p.saveOutcome(cmp.Or(err, unsealedErr))
	}
	return err
}

// checkpointErrorFile is the file in the store with the error of the last checkpoint. It exists until a
// checkpoint succeeds. Until then the unsealed changes are only in the journal.
const checkpointErrorFile = "checkpoint.failed"

// saveOutcome saves the error of a checkpoint in memory for the status, and on disk for the program
// that unmounts the store.
func (p *Checkpointer) saveOutcome(err error) {
	name := filepath.Join(p.Dir, checkpointErrorFile)
	if err == nil {
		if p.lastError.Swap(nil) != nil {
			_ = p.FS.Remove(name) // a file that remains does no harm: it is only read after an unmount
		}
		return
	}

	p.Metrics.Update(func(m *info.Metrics) { m.CheckpointsFailed++ })
	text := err.Error()
	if old := p.lastError.Swap(&text); old == nil || *old != text {
		if err := vfs.WriteFile(p.FS, name, []byte(text)); err != nil {
			p.Logger.Warn("cannot write down why the checkpoint failed", "err", err)
		}
	}
}

// LastCheckpointError returns the error of the last checkpoint of the store in dir, "" if it
// succeeded. The store need not be open.
func LastCheckpointError(dir string) string {
	root, err := vfs.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()

	b, _ := vfs.ReadFile(root, filepath.Join(dir, checkpointErrorFile))
	return string(b[:min(len(b), 4<<10)])
}

// LastError returns the error of the last checkpoint, "" if it succeeded.
func (p *Checkpointer) LastError() string {
	if text := p.lastError.Load(); text != nil {
		return *text
	}
	return ""
}

// makeCheckpoint makes a checkpoint. unsealedErr is the error of files that could not be sealed. Such files do not
// make the checkpoint fail.
func (p *Checkpointer) makeCheckpoint(ctx context.Context) (unsealedErr, err error) {
	start := time.Now()
	c, err := p.commitCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.Finish(); err != nil {
		return nil, err
	}

	p.Room.StoredBytes.Store(p.CAS.Stats().StoredBytes)
	p.Collector.Signal.Send()
	p.Metrics.Update(func(m *info.Metrics) { m.Checkpoints++; m.LastCheckpointMs = info.MsSince(start) })

	return c.unsealedErr, nil
}

// BeginCheckpoint freezes the workspaces and catalogue records that must be committed, and returns them as a
// checkpoint.
func (p *Checkpointer) BeginCheckpoint() (*Checkpoint, error) {
	var c *Checkpoint
	err := p.Forest.Update(true, func(tx *live.Tx) error {
		if err := tx.Failure(); err != nil {
			return err // the store must be opened again, which replays the journal from the last checkpoint
		}

		views := slices.AppendSeq(tx.ChangedViews().Changed(live.ForCheckpoint), p.Catalogue.Unwritten.Views())
		orphans, err := tx.Orphans(views)
		if err != nil {
			return err
		}

		c = p.freezeChanged(tx)
		c.orphans = orphans

		return nil
	})

	return c, err
}

// freezeChanged freezes the workspaces that changed since the last checkpoint, and takes the set of
// changed records from the catalogue. The caller holds the lock of the forest.
func (p *Checkpointer) freezeChanged(tx *live.Tx) *Checkpoint {
	ino, view := tx.Counters()
	c := &Checkpoint{
		checkpointer: p,
		record: catalogue.StoreRecord{
			Position: tx.JournalEnd(), Records: p.Log.RecordCount(), NextIno: ino, NextView: view,
			BytesAfterGC: p.Collector.BaseBytes.Load(), HasGarbage: p.Collector.HasGarbage(), Requests: tx.Requests(), Stale: tx.StaleNames(),
		},
		workspaces:   make(map[uint32]*frozenWorkspace),
		snapshots:    make(map[uint32]*catalogue.Snapshot),
		editSteps:    p.EditStepCount.Load(),
		replayBytes:  p.Memory.BytesToReplay(),
		lowestPos:    tx.LowestUnreferencedPos(),
		partlySealed: make(map[uint32]*catalogue.PartlySealedState),
	}

	tx.RequireActorRecord()
	c.changedRecords, c.rootCount = p.Catalogue.Unwritten.TakeKeys()
	for _, view := range tx.ChangedViews().TakeChanged(live.ForCheckpoint) {
		c.changedRecords[catalogue.Key(catalogue.WorkspacePrefix, view)] = view
	}

	for _, view := range c.changedRecords {
		if sn := p.Catalogue.Snapshots.At(view); sn != nil {
			c.snapshots[view] = sn
			sn.NeedForCheckpoint(true)
		}

		if w := p.Catalogue.Workspaces.At(view); w != nil {
			st := tx.Freeze(w.View)
			c.workspaces[view] = &frozenWorkspace{state: st, record: w.Record(st), actors: tx.ActorSets(view), memoryMark: p.Memory.ChargedBytes(view)}
			c.workspaces[view].record.Exports = p.Meter.ExportedBytes(view)
		}
	}

	p.running.Store(&runningCheckpoint{Checkpoint: c, removed: make(chan struct{})})

	return c
}

// markChangedAgain marks the workspaces and records of a failed checkpoint as changed again.
func (c *Checkpoint) markChangedAgain() {
	c.checkpointer.Forest.WithLock(func(tx *live.Tx) {
		c.checkpointer.Catalogue.Unwritten.PutBackKeys(c.changedRecords)
		tx.ChangedViews().MarkChanged(slices.Collect(maps.Keys(c.workspaces))...)
		for _, sn := range c.snapshots {
			sn.NeedForCheckpoint(false)
		}
	})
}

// Finish updates the state of the store after the commit, and drops the journal before the
// checkpoint. Files that could not be sealed are marked as changed, so that the next checkpoint
// tries again.
func (c *Checkpoint) Finish() error {
	c.checkpointer.LastPos.Store(c.record.Position)
	c.checkpointer.RecordsBeforeLastPos.Store(c.record.Records)
	c.checkpointer.EditStepCount.Add(-c.editSteps)
	c.checkpointer.Memory.SubtractBytesToReplay(c.replayBytes)
	c.checkpointer.Forest.WithLock(func(tx *live.Tx) {
		c.checkpointer.Catalogue.Unwritten.DropRoots(c.rootCount)
		for view, w := range c.workspaces {
			if w.record.PartlySealed != nil || w.record.Orphans != nil && len(w.record.Orphans.Files) > 0 {
				tx.ChangedViews().MarkChanged(view)
			}
		}

		for view := range c.partlySealed {
			if sn := c.checkpointer.Catalogue.Snapshots.At(view); sn != nil {
				sn.NeedForCheckpoint(false)
				c.checkpointer.Catalogue.Unwritten.MarkChanged(catalogue.SnapshotPrefix, view)
			}
		}
	})

	return c.checkpointer.dropJournal(c)
}
