package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// So much journal, or any change for so long, makes a checkpoint due as soon as
	// the writers rest: what they remove again until then is never sealed.
	checkpointBytes = 256 << 20
	checkpointTime  = 30 * time.Second
	// They rest when they have written less than restfulBytes a second for calmTime.
	restfulBytes = 4 << 20
	calmTime     = 3 * time.Second
	// So much journal, or so many records of it, are sealed while they go on: the
	// one takes space, the other time to replay. Each step of a restore, a merge or an
	// import counts as a record.
	checkpointMost    = engine.JournalMost
	checkpointRecords = 150_000
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

func (p *checkpointer) checkpointLoop() {
	last, busy, seen := time.Now(), time.Now(), p.log.End()
	for {
		p.awaitChange()
		if p.loops.Context.Err() != nil {
			return
		}
		end := p.log.End()
		if end-seen >= restfulBytes {
			busy = time.Now()
		}
		seen = end
		crowded := p.room.JournalTooLarge()
		if !crowded && !p.checkpointDue(time.Since(busy) >= calmTime, time.Since(last)) {
			continue
		}
		if err := p.Checkpoint(p.loops.Context); err != nil && p.loops.Context.Err() == nil {
			p.logger.Warn("checkpoint", "err", err, guard.Stack(err))
			p.loops.Pause(5 * time.Second)
		} else if crowded {
			p.ShrinkJournal()
		}
		last = time.Now()
	}
}

// awaitChange returns after a second, or at once when a checkpoint is asked for. If there is
// nothing that a checkpoint would have to write down, it waits until there is.
func (p *checkpointer) awaitChange() {
	appended := p.log.Appended()
	if p.log.End() == p.at.Load() {
		p.ShrinkJournal() // its mark is nothing to write down
		if !p.awaitRecord(appended) {
			return
		}
	}
	p.loops.Await(p.signal, nil, time.Second)
}

// awaitRecord waits until something is journaled, which it reports, or a checkpoint is asked for.
func (p *checkpointer) awaitRecord(appended <-chan struct{}) bool {
	return p.loops.Await(p.signal, appended, loops.Forever)
}

// checkpointDue reports whether it is time for a checkpoint, so long after the last.
func (p *checkpointer) checkpointDue(calm bool, since time.Duration) bool {
	if calm {
		grown := p.Grown()
		return grown >= checkpointBytes || grown > 0 && since >= checkpointTime
	}
	return p.Outgrown() || p.toRedo() >= checkpointRecords
}

// Grown is how many bytes were journaled since the last checkpoint.
func (p *checkpointer) Grown() int64 { return p.log.End() - p.at.Load() }

// Outgrown reports whether that is so much that it takes a checkpoint also beside writers.
func (p *checkpointer) Outgrown() bool { return p.Grown() >= checkpointMost }

func (p *checkpointer) Ask() { p.signal.Up() }

// Try makes a checkpoint at once, unless one or a gc is under way.
func (p *checkpointer) Try() (tried bool) {
	if !p.mu.TryAcquire(1) {
		return false
	}
	defer p.mu.Release(1)
	defer p.seal.Pacer.Urgent()()
	if err := p.checkpoint(p.loops.Context); err != nil {
		p.logger.Warn("the disk is nearly full, and the journal cannot be sealed", "err", err)
	}
	return true
}

// toRedo is how many records a recovery would replay, and what takes as long.
func (p *checkpointer) toRedo() int64 {
	return int64(p.log.Records()-p.records.Load()) + p.changes.Load()
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
		c = p.freezeAll(tx)
		return nil
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
			Collected: p.gc.Base.Load(), Garbage: p.gc.Any(),
		},
		workspaces: make(map[uint32]*frozen),
		snaps:      make(map[uint32]*snap),
		roots:      len(p.cat.Roots),
		changes:    p.changes.Load(),
		floor:      tx.Unjournaled(),
		orphans:    tx.Orphans(),
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

// commit seals what a checkpoint has and makes it durable. A state that fails as a whole keeps
// no other from being sealed.
func (p *checkpointer) commit(ctx context.Context, c *checkpoint) error {
	var failed error
	note := func(err error) error {
		failed = cmp.Or(failed, err)
		return ctx.Err()
	}
	for _, sn := range sortedSnaps(c.snaps) {
		err := p.orPartly(ctx, c, sn.View, sn.WS, sn.State.Load(), func() error { return p.seal.Wait(ctx, sn) })
		if err := note(err); err != nil {
			return err
		}
	}
	for id, w := range c.workspaces {
		if err := note(p.sealPresent(ctx, c, id, w)); err != nil {
			return err
		}
	}
	for view, st := range c.orphans {
		if err := note(p.seal.Contents(ctx, view, st)); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	defer p.gc.Puts.Enter()()
	if err := p.storeActors(c); err != nil {
		return err
	}
	c.at.Incomplete = p.salvage.incomplete.Load() // a seal may have found out
	ops, err := p.metaOps(c)
	if err != nil {
		return err
	}
	// A position of the journal is only of use when the journal up to it is
	// on disk.
	if err := p.log.Sync(); err != nil {
		return err
	}
	return p.cas.Commit(ops...)
}

// metaOps are the records of the catalogue that a checkpoint writes and deletes.
func (p *checkpointer) metaOps(c *checkpoint) ([]cas.MetaOp, error) {
	values := map[string]any{catalogue.StoreKey: c.at}
	for view, w := range c.workspaces {
		values[catalogue.Key(catalogue.Workspaces, view)] = w.record
	}
	p.look(func(*live.Tx) {
		for view, sn := range c.snaps {
			r := sn.Record()
			if !sn.Sealed {
				r.Partly = c.partly[view]
			}
			values[catalogue.Key(catalogue.Snapshots, view)] = r
		}
	})
	var ops []cas.MetaOp
	for key := range c.dirty {
		if values[key] == nil {
			ops = append(ops, cas.MetaOp{Key: key, Delete: true})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		b, err := json.Marshal(values[key])
		if err != nil {
			return nil, err
		}
		ops = append(ops, cas.MetaOp{Key: key, Value: b})
	}
	return ops, nil
}

// sealPresent seals the present state of a workspace.
func (p *checkpointer) sealPresent(ctx context.Context, c *checkpoint, id uint32, w *frozen) error {
	w.record.State = ""
	err := p.orPartly(ctx, c, id, id, w.state, func() error {
		h, err := p.seal.InTurn(ctx, id, w.state)
		if err != nil {
			return fmt.Errorf("workspace %s: %w", w.record.Name, err)
		}
		w.record.State = h.String()
		return nil
	})
	w.record.Partly = c.partly[id]
	return err
}

// orPartly calls seal, which seals the state of a view. What cannot be sealed of it is left
// out: it holds up nothing else.
func (p *checkpointer) orPartly(ctx context.Context, c *checkpoint, view, ws uint32, st *tree.State, seal func() error) error {
	cause := seal()
	if cause == nil || ctx.Err() != nil || st == nil {
		return cause
	}
	partly, low, err := p.seal.Without(ctx, ws, st)
	switch {
	case err != nil:
		return cause
	case partly == nil:
		return seal() // what failed does so no more
	}
	p.logger.Warn("a checkpoint leaves out what cannot be sealed", "err", cause, guard.Stack(cause))
	c.partly[view], c.floor, c.left = partly, min(c.floor, low), errors.Join(c.left, cause)
	return nil
}

func sortedSnaps(m map[uint32]*snap) []*snap {
	out := slices.Collect(maps.Values(m))
	slices.SortFunc(out, func(a, b *snap) int { return int(a.View) - int(b.View) })
	return out
}

// dropJournal drops the journal before a checkpoint, as far as nothing that
// is not sealed lies there.
func (p *checkpointer) dropJournal(c *checkpoint) error {
	position := min(c.at.Position, c.floor)
	needed := p.forest.Needed()
	for range 2 { // the second looks at what was made during the first, which may take long
		var states []*tree.State
		p.alter(func(tx *live.Tx) {
			states = p.unsealed()
			for _, w := range p.cat.Workspaces {
				states = append(states, w.Freeze(tx))
			}
		})
		for _, st := range states {
			needed.Frozen(st)
		}
	}
	p.alter(func(tx *live.Tx) {
		position = min(position, needed.Lowest(tx, p.unsealed()), tx.Relinked(c.at.Position))
	})
	p.needed.Store(position)
	return p.log.DropBefore(position)
}

// unsealed returns the states of snapshots that have no id yet, and those that
// a reader reads. The lock is held.
func (p *checkpointer) unsealed() []*tree.State {
	states := p.pins.all()
	for _, sn := range p.cat.Snapshots {
		if !sn.Sealed {
			states = append(states, sn.State.Load())
		}
	}
	return states
}

// ShrinkJournal gives back what the journal occupies without need.
func (p *checkpointer) ShrinkJournal() {
	if err := p.log.Shrink(p.needed.Load()); err != nil {
		p.logger.Warn("the journal keeps its size", "err", err)
	}
}
