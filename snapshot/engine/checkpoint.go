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
	Sealer    *Sealer
	Collector *Collector
	Room      *Room
	Meter     *Meter
	Memory    *Memory
	GCWork    int64 // limit for the bytes that a checkpoint before a gc seals, see WithLimit

	At      atomic.Int64  // journal position of the last checkpoint
	Records atomic.Uint64 // number of journal records before At
	Changes atomic.Int64  // number of steps of edits after At, see Edited

	mu      *semaphore.Weighted // held by a checkpoint, and by a gc from its checkpoint until it has its roots
	gcWaits gcWaits
	signal  loops.Signal           // makes Loop check at once whether a checkpoint is due
	needed  atomic.Int64           // the lowest journal position that must be kept
	failing atomic.Pointer[string] // error of the last checkpoint; nil: it succeeded
	running atomic.Pointer[runningCheckpoint]
}

// NewCheckpointer returns a Checkpointer of a store without a checkpoint. The parts may be set
// later.
func NewCheckpointer(p *Parts) *Checkpointer {
	return &Checkpointer{
		Parts: p, GCWork: gcWork, mu: semaphore.NewWeighted(1), gcWaits: gcWaits{waiting: make(chan struct{})}, signal: loops.NewSignal(),
	}
}

// Resume restores the fields from the record of the last checkpoint, when the store is opened.
func (p *Checkpointer) Resume(at catalogue.StoreRecord) {
	p.Collector.Base.Store(at.Collected)
	if at.Garbage {
		p.Collector.Removed(unknown)
	}

	p.Incomplete.Store(at.Incomplete)
	p.At.Store(at.Position)
	p.Records.Store(at.Records)

	if b, err := vfs.ReadFile(p.FS, filepath.Join(p.Dir, failedName)); err == nil {
		text := string(b)
		p.failing.Store(&text)
	}
}

// A Checkpoint contains the changes of a store between the last checkpoint and a journal position.
type Checkpoint struct {
	maker      *Checkpointer
	at         catalogue.StoreRecord
	workspaces map[uint32]*frozenWorkspace    // by view: workspaces with changed trees or records
	snaps      map[uint32]*catalogue.Snapshot // by view: snapshots with changed records
	dirty      map[string]uint32              // by key: the view of a catalogue record that Commit writes or deletes
	roots      int                            // the number of Unwritten.Roots in this checkpoint
	changes    int64                          // Checkpointer.Changes at the begin of this checkpoint
	redo       int64                          // Memory.Redo at the begin of this checkpoint
	floor      int64                          // lowest journal position that records after the checkpoint may reference
	orphans    map[uint32]*tree.State         // by view: inodes without a name

	partly map[uint32]*catalogue.Partly // by view: snapshots with files that cannot be sealed
	left   error                        // the error of files that cannot be sealed
}

// A frozenWorkspace is a workspace at the time of a checkpoint.
type frozenWorkspace struct {
	state  *tree.State
	record catalogue.WorkspaceRecord
	actors []*actors.Set // the actor sets since the newest snapshot
	mark   int64         // see Memory.Mark
	stored bool          // the state and its orphans are sealed
}

// Checkpoint seals the present state of all workspaces, commits it with the catalogue,
// and drops the journal that is not needed any more.
func (p *Checkpointer) Checkpoint(ctx context.Context) error {
	for {
		err := p.Alone(ctx, func() error { return p.checkpoint(ctx) })
		if !errors.Is(err, ErrNoCheckpoint) || ctx.Err() != nil {
			return err
		}
	}
}

// Alone calls fn while no checkpoint is running.
func (p *Checkpointer) Alone(ctx context.Context, fn func() error) error {
	if err := p.mu.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.mu.Release(1)
	return fn()
}

// checkpoint makes a checkpoint and notes the outcome. The caller holds mu.
func (p *Checkpointer) checkpoint(ctx context.Context) error {
	left, err := p.makeCheckpoint(ctx)
	if err == nil || ctx.Err() == nil && !errors.Is(err, ErrNoCheckpoint) {
		p.noteOutcome(cmp.Or(err, left))
	}
	return err
}

// failedName is the file in the store with the error of the last checkpoint. It exists until a
// checkpoint succeeds. Until then the unsealed changes are only in the journal.
const failedName = "checkpoint.failed"

// noteOutcome saves the error of a checkpoint in memory for the status, and on disk for the program
// that unmounts the store.
func (p *Checkpointer) noteOutcome(err error) {
	name := filepath.Join(p.Dir, failedName)
	if err == nil {
		if p.failing.Swap(nil) != nil {
			_ = p.FS.Remove(name) // the file is only read after an unmount
		}
		return
	}

	p.Metrics.Update(func(m *info.Metrics) { m.CheckpointsFailed++ })
	text := err.Error()
	if old := p.failing.Swap(&text); old == nil || *old != text {
		if err := vfs.WriteFile(p.FS, name, []byte(text)); err != nil {
			p.Logger.Warn("cannot write down why the checkpoint failed", "err", err)
		}
	}
}

// CheckpointFailed returns the error of the last checkpoint of the store in dir, "" if it
// succeeded. The store need not be open.
func CheckpointFailed(dir string) string {
	root, err := vfs.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()

	b, _ := vfs.ReadFile(root, filepath.Join(dir, failedName))
	return string(b[:min(len(b), 4<<10)])
}

// Failing returns the error of the last checkpoint, "" if it succeeded.
func (p *Checkpointer) Failing() string {
	if text := p.failing.Load(); text != nil {
		return *text
	}
	return ""
}

// makeCheckpoint makes a checkpoint. left is the error of files that could not be sealed. Such
// files do not make the checkpoint fail.
func (p *Checkpointer) makeCheckpoint(ctx context.Context) (left, err error) {
	start := time.Now()
	c, err := p.commitCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.Finish(); err != nil {
		return nil, err
	}

	p.Room.Stored.Store(p.CAS.Stats().Stored)
	p.Collector.Signal.Send()
	p.Metrics.Update(func(m *info.Metrics) { m.Checkpoints++; m.LastCheckpoint = info.MsSince(start) })

	return c.left, nil
}

// Begin freezes the workspaces and catalogue records that the checkpoint has to commit.
func (p *Checkpointer) Begin() (*Checkpoint, error) {
	var c *Checkpoint
	err := p.Forest.Update(true, func(tx *live.Tx) error {
		if err := tx.Failed(); err != nil {
			return err // only opening the store again helps: it replays the journal from the last checkpoint
		}

		views := slices.AppendSeq(tx.Changes().Changed(live.ForCheckpoint), p.Catalogue.Unwritten.Views())
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
		maker: p,
		at: catalogue.StoreRecord{
			Position: tx.JournalEnd(), Records: p.Log.Records(), NextIno: ino, NextView: view,
			Collected: p.Collector.Base.Load(), Garbage: p.Collector.HasGarbage(), Requests: tx.Requests(), Stale: tx.StaleNames(),
		},
		workspaces: make(map[uint32]*frozenWorkspace),
		snaps:      make(map[uint32]*catalogue.Snapshot),
		changes:    p.Changes.Load(),
		redo:       p.Memory.Redo(),
		floor:      tx.LowestUnreferenced(),
		partly:     make(map[uint32]*catalogue.Partly),
	}

	tx.ForgetActor()
	c.dirty, c.roots = p.Catalogue.Unwritten.Take()
	for _, view := range tx.Changes().TakeChanged(live.ForCheckpoint) {
		c.dirty[catalogue.Key(catalogue.Workspaces, view)] = view
	}

	for _, view := range c.dirty {
		if sn := p.Catalogue.Snapshots.At(view); sn != nil {
			c.snaps[view] = sn
			sn.Wanted = true
		}

		if w := p.Catalogue.Workspaces.At(view); w != nil {
			st := w.Freeze(tx)
			c.workspaces[view] = &frozenWorkspace{state: st, record: w.Stored(st), actors: tx.Actors(view), mark: p.Memory.Mark(view)}
			c.workspaces[view].record.Exports = p.Meter.Exports(view)
		}
	}

	p.running.Store(&runningCheckpoint{Checkpoint: c, ended: make(chan struct{})})

	return c
}

// restoreDirty marks the workspaces and records of a failed checkpoint as changed again.
func (c *Checkpoint) restoreDirty() {
	c.maker.WithLock(func(tx *live.Tx) {
		c.maker.Catalogue.Unwritten.Return(c.dirty)
		tx.Changes().MarkChanged(slices.Collect(maps.Keys(c.workspaces))...)
		for _, sn := range c.snaps {
			sn.Wanted = false
		}
	})
}

// Finish updates the state of the store after the commit, and drops the journal before the
// checkpoint. Files that could not be sealed are marked as changed, so that the next checkpoint
// tries again.
func (c *Checkpoint) Finish() error {
	c.maker.At.Store(c.at.Position)
	c.maker.Records.Store(c.at.Records)
	c.maker.Changes.Add(-c.changes)
	c.maker.Memory.Redone(c.redo)
	c.maker.WithLock(func(tx *live.Tx) {
		c.maker.Catalogue.Unwritten.Written(c.roots)
		for view, w := range c.workspaces {
			if w.record.Partly != nil || w.record.Orphans != nil && len(w.record.Orphans.Files) > 0 {
				tx.Changes().MarkChanged(view)
			}
		}

		for view := range c.partly {
			if sn := c.maker.Catalogue.Snapshots.At(view); sn != nil {
				sn.Wanted = false
				c.maker.Catalogue.Unwritten.Mark(catalogue.Snapshots, view)
			}
		}
	})

	return c.maker.dropJournal(c)
}
