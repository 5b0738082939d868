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
	GCWork    int64 // limit of the seals while a gc waits, see WithLimit

	At      atomic.Int64  // journal position of the last checkpoint; what is before needs none
	Records atomic.Uint64 // records of the journal before At
	Changes atomic.Int64  // steps of edits since, see Edited

	mu      *semaphore.Weighted // one checkpoint or gc at a time
	gcWaits gcWaits
	signal  loops.Wake   // asks for one soon
	needed  atomic.Int64 // the first position of the journal that is needed
	failing atomic.Pointer[string]
	running atomic.Pointer[running]
}

// NewCheckpointer returns one that has made none. Its parts may be set later.
func NewCheckpointer(p *Parts) *Checkpointer {
	return &Checkpointer{
		Parts: p, GCWork: gcWork, mu: semaphore.NewWeighted(1), gcWaits: gcWaits{waiting: make(chan struct{})}, signal: loops.NewWake(),
	}
}

// Resume begins with the record of the last checkpoint of a store that is opened.
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

// A Checkpoint is what changed in a store between the last one and a position of the journal.
type Checkpoint struct {
	*Checkpointer
	at         catalogue.StoreRecord
	workspaces map[uint32]*frozen // of which the trees or the records changed
	snaps      map[uint32]*catalogue.Snapshot
	dirty      map[string]uint32
	roots      int   // how many of Catalogue.Roots it has
	changes    int64 // Checkpointer.Changes when it began
	redo       int64 // the same of Memory.Redo
	floor      int64 // lowest position of bytes that records after it may refer to
	orphans    map[uint32]*tree.State

	partly map[uint32]*catalogue.Partly // by view: what cannot be sealed
	left   error                        // why
}

// frozen is a workspace as it is at a checkpoint.
type frozen struct {
	state  *tree.State
	record catalogue.WorkspaceRecord
	actors []*actors.Set // of the present interval
	mark   int64         // see Memory.Mark
	stored bool          // it is sealed, with its orphans
}

// Checkpoint seals everything as it is now, commits it with the catalogue,
// and drops the journal that is not needed any more.
func (p *Checkpointer) Checkpoint(ctx context.Context) error {
	for {
		err := p.Alone(ctx, func() error { return p.checkpoint(ctx) })
		if !errors.Is(err, ErrNoCheckpoint) || ctx.Err() != nil {
			return err
		}
	}
}

// Alone calls fn while no checkpoint is made.
func (p *Checkpointer) Alone(ctx context.Context, fn func() error) error {
	if err := p.mu.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.mu.Release(1)
	return fn()
}

// checkpoint is Checkpoint with mu held.
func (p *Checkpointer) checkpoint(ctx context.Context) error {
	left, err := p.makeCheckpoint(ctx)
	if err == nil || ctx.Err() == nil && !errors.Is(err, ErrNoCheckpoint) {
		p.noteOutcome(cmp.Or(err, left))
	}
	return err
}

// failedName is the file in the store that says why the last checkpoint failed. Until one
// succeeds the journal has what is not stored.
const failedName = "checkpoint.failed"

// noteOutcome keeps the error of a checkpoint for the status, and on disk for the program
// that unmounts the store.
func (p *Checkpointer) noteOutcome(err error) {
	name := filepath.Join(p.Dir, failedName)
	if err == nil {
		if p.failing.Swap(nil) != nil {
			_ = p.FS.Remove(name) // nobody reads it while the store is mounted
		}
		return
	}
	p.Metrics.Note(func(m *info.Metrics) { m.CheckpointsFailed++ })
	text := err.Error()
	if old := p.failing.Swap(&text); old == nil || *old != text {
		if err := vfs.WriteFile(p.FS, name, []byte(text)); err != nil {
			p.Logger.Warn("cannot write down why the checkpoint failed", "err", err)
		}
	}
}

// CheckpointFailed returns why the last checkpoint of the store in dir failed, "" if it did not.
func CheckpointFailed(dir string) string {
	root, err := vfs.OpenBeneath(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	b, _ := vfs.ReadFile(root, filepath.Join(dir, failedName))
	return string(b[:min(len(b), 4<<10)])
}

// Failing returns why the last checkpoint failed, "" if it did not.
func (p *Checkpointer) Failing() string {
	if text := p.failing.Load(); text != nil {
		return *text
	}
	return ""
}

// makeCheckpoint returns also why files of some states could not be sealed.
func (p *Checkpointer) makeCheckpoint(ctx context.Context) (left, err error) {
	start := time.Now()
	c, err := p.committed(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.Finish(); err != nil {
		return nil, err
	}
	p.Room.Stored.Store(p.CAS.Stats().Stored)
	p.Collector.Signal.Up()
	p.Metrics.Note(func(m *info.Metrics) { m.Checkpoints++; m.LastCheckpoint = info.MsSince(start) })
	return c.left, nil
}

// Begin freezes all that a checkpoint has to commit.
func (p *Checkpointer) Begin() (*Checkpoint, error) {
	var c *Checkpoint
	err := p.Forest.Update(true, func(tx *live.Tx) error {
		if err := tx.Failed(); err != nil {
			return err // opening the store replays the journal from the last checkpoint
		}
		views := slices.AppendSeq(tx.Changes().For(live.ForCheckpoint), maps.Values(p.Catalogue.Dirty))
		orphans, err := tx.Orphans(views)
		if err == nil {
			c = p.freezeChanged(tx)
			c.orphans = orphans
		}
		return err
	})
	return c, err
}

// freezeChanged freezes the present states that the last checkpoint does not have, and takes
// what the catalogue has to write. The lock is held.
func (p *Checkpointer) freezeChanged(tx *live.Tx) *Checkpoint {
	ino, view := tx.Counters()
	c := &Checkpoint{
		Checkpointer: p,
		at: catalogue.StoreRecord{
			Position: tx.End(), Records: p.Log.Records(), NextIno: ino, NextView: view,
			Collected: p.Collector.Base.Load(), Garbage: p.Collector.Any(), Requests: tx.Requests(), Stale: tx.Stale(),
		},
		workspaces: make(map[uint32]*frozen),
		snaps:      make(map[uint32]*catalogue.Snapshot),
		roots:      len(p.Catalogue.Roots),
		changes:    p.Changes.Load(),
		redo:       p.Memory.Redo(),
		floor:      tx.Unjournaled(),
		partly:     make(map[uint32]*catalogue.Partly),
	}
	tx.ForgetActor()
	c.dirty, p.Catalogue.Dirty = p.Catalogue.Dirty, make(map[string]uint32)
	for _, view := range tx.Changes().Take(live.ForCheckpoint) {
		c.dirty[catalogue.Key(catalogue.Workspaces, view)] = view
	}
	for _, view := range c.dirty {
		if sn, ok := p.Catalogue.Snapshots[view]; ok {
			c.snaps[view] = sn
			sn.Wanted = true
		}
		if w, ok := p.Catalogue.Workspaces[view]; ok {
			st := w.Freeze(tx)
			c.workspaces[view] = &frozen{state: st, record: w.Stored(st), actors: tx.Actors(view), mark: p.Memory.Mark(view)}
			c.workspaces[view].record.Exports = p.Meter.Exports(view)
		}
	}
	p.running.Store(&running{Checkpoint: c, ended: make(chan struct{})})
	return c
}

// giveUp marks as changed again what a failed checkpoint was to commit.
func (c *Checkpoint) giveUp() {
	c.Alter(func(tx *live.Tx) {
		maps.Copy(c.Catalogue.Dirty, c.dirty)
		tx.Changes().Change(slices.Collect(maps.Keys(c.workspaces))...)
		for _, sn := range c.snaps {
			sn.Wanted = false
		}
	})
}

// Finish releases what is not needed after a committed checkpoint.
func (c *Checkpoint) Finish() error {
	c.At.Store(c.at.Position)
	c.Records.Store(c.at.Records)
	c.Changes.Add(-c.changes)
	c.Memory.Redone(c.redo)
	c.Alter(func(tx *live.Tx) {
		c.Catalogue.Roots = slices.Delete(c.Catalogue.Roots, 0, c.roots)
		for view, w := range c.workspaces {
			if w.record.Partly != nil || w.record.Orphans != nil && len(w.record.Orphans.Files) > 0 {
				tx.Changes().Change(view)
			}
		}
		for view := range c.partly {
			if sn, ok := c.Catalogue.Snapshots[view]; ok { // the next one tries again
				sn.Wanted = false
				c.Catalogue.Dirty[catalogue.Key(catalogue.Snapshots, view)] = view
			}
		}
	})
	return c.dropJournal(c)
}
