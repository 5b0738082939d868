package snapshot

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
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type checkpointer struct {
	*Store
	mu      *semaphore.Weighted // one checkpoint or gc at a time
	gcWaits gcWaits
	gcWork  int64         // so much is sealed at most while a gc waits, see engine.WithLimit
	signal  loops.Wake    // asks for one soon
	at      atomic.Int64  // journal position of the last
	records atomic.Uint64 // that the journal had by then
	changes atomic.Int64  // by restores and promotions since
	needed  atomic.Int64  // from there on something of the journal is needed
	failing atomic.Pointer[string]
	running atomic.Pointer[running]
}

// A checkpoint is the store as it is at one position of the journal.
type checkpoint struct {
	at         catalogue.StoreRecord
	workspaces map[uint32]*frozen
	snaps      map[uint32]*snap
	dirty      map[string]uint32
	roots      int   // of the roots of the catalogue
	changes    int64 // by restores and promotions before it
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
}

// Checkpoint seals everything as it is now, commits it with the catalogue,
// and drops the journal that is not needed any more.
func (s *Store) Checkpoint(ctx context.Context) error {
	for {
		err := s.ckpt.alone(ctx, func() error { return s.ckpt.checkpoint(ctx) })
		if !errors.Is(err, engine.ErrNoCheckpoint) || ctx.Err() != nil {
			return err
		}
	}
}

// alone calls fn with mu held.
func (p *checkpointer) alone(ctx context.Context, fn func() error) error {
	if err := p.mu.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.mu.Release(1)
	return fn()
}

// checkpoint is Checkpoint with mu held.
func (p *checkpointer) checkpoint(ctx context.Context) error {
	left, err := p.makeCheckpoint(ctx)
	if err == nil || ctx.Err() == nil && !errors.Is(err, engine.ErrNoCheckpoint) {
		p.noteOutcome(cmp.Or(err, left))
	}
	return err
}

// failedName is the file in the store that says why the last checkpoint failed. Until one
// succeeds the journal has what is not stored.
const failedName = "checkpoint.failed"

// noteOutcome keeps the error of a checkpoint for the status, and on disk for the program
// that unmounts the store.
func (p *checkpointer) noteOutcome(err error) {
	name := filepath.Join(p.dir, failedName)
	if err == nil {
		if p.failing.Swap(nil) != nil {
			_ = p.opt.FS.Remove(name) // nobody reads it while the store is mounted
		}
		return
	}
	p.metrics.Note(func(m *info.Metrics) { m.CheckpointsFailed++ })
	text := err.Error()
	if old := p.failing.Swap(&text); old == nil || *old != text {
		if err := vfs.WriteFile(p.opt.FS, name, []byte(text)); err != nil {
			p.logger.Warn("cannot write down why the checkpoint failed", "err", err)
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

// loadOutcome finds out whether the last checkpoint before this opening failed.
func (p *checkpointer) loadOutcome() {
	if b, err := vfs.ReadFile(p.opt.FS, filepath.Join(p.dir, failedName)); err == nil {
		text := string(b)
		p.failing.Store(&text)
	}
}

// Failing returns why the last checkpoint failed, "" if it did not.
func (p *checkpointer) Failing() string {
	if text := p.failing.Load(); text != nil {
		return *text
	}
	return ""
}

// makeCheckpoint returns also why files of some states could not be sealed.
func (p *checkpointer) makeCheckpoint(ctx context.Context) (left, err error) {
	start := time.Now()
	c, err := p.committed(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.finish(c); err != nil {
		return nil, err
	}
	p.room.Stored.Store(p.cas.Stats().Stored)
	p.gc.Signal.Up()
	p.metrics.Note(func(m *info.Metrics) { m.Checkpoints++; m.LastCheckpoint = info.MsSince(start) })
	return c.left, nil
}

// beginCheckpoint takes note of all that a checkpoint has to commit.
func (p *checkpointer) beginCheckpoint() (*checkpoint, error) {
	var c *checkpoint
	err := p.forest.Update(true, func(tx *live.Tx) error {
		if err := tx.Failed(); err != nil {
			return err // the journal makes it right, from the last checkpoint on
		}
		orphans, err := tx.Orphans()
		if err == nil {
			c = p.freezeAll(tx)
			c.orphans = orphans
		}
		return err
	})
	return c, err
}

// freezeAll freezes the present states, and takes what the catalogue has to write. The lock
// is held.
func (p *checkpointer) freezeAll(tx *live.Tx) *checkpoint {
	ino, view := tx.Counters()
	c := &checkpoint{
		at: catalogue.StoreRecord{
			Position: tx.End(), Records: p.log.Records(), NextIno: ino, NextView: view,
			Collected: p.gc.Base.Load(), Garbage: p.gc.Any(), Requests: tx.Requests(), Stale: tx.Stale(),
		},
		workspaces: make(map[uint32]*frozen),
		snaps:      make(map[uint32]*snap),
		roots:      len(p.cat.Roots),
		changes:    p.changes.Load(),
		floor:      tx.Unjournaled(),
		partly:     make(map[uint32]*catalogue.Partly),
	}
	for id, w := range p.cat.Workspaces {
		st := w.Freeze(tx)
		c.workspaces[id] = &frozen{st, w.Stored(st), tx.Actors(id)}
		c.workspaces[id].record.Exports = p.workspaces[id].usage.Exports.Load()
	}
	tx.ForgetActor()
	c.dirty, p.cat.Dirty = p.cat.Dirty, make(map[string]uint32)
	for _, view := range c.dirty {
		if sn, ok := p.cat.Snapshots[view]; ok {
			c.snaps[view] = sn
			sn.Wanted = true
		}
	}
	p.running.Store(&running{checkpoint: c, ended: make(chan struct{})})
	return c
}

// giveUp gives back what a checkpoint that failed took from the catalogue.
func (p *checkpointer) giveUp(c *checkpoint) {
	p.alter(func(*live.Tx) {
		maps.Copy(p.cat.Dirty, c.dirty)
		for _, sn := range c.snaps {
			sn.Wanted = false
		}
	})
}

// finish releases what a checkpoint has made needless.
func (p *checkpointer) finish(c *checkpoint) error {
	p.at.Store(c.at.Position)
	p.records.Store(c.at.Records)
	p.changes.Add(-c.changes)
	p.alter(func(*live.Tx) {
		p.cat.Roots = slices.Delete(p.cat.Roots, 0, c.roots)
		for view := range c.partly {
			if sn, ok := p.cat.Snapshots[view]; ok { // the next one tries again
				sn.Wanted = false
				p.cat.Dirty[catalogue.Key(catalogue.Snapshots, view)] = view
			}
		}
	})
	return p.dropJournal(c)
}
