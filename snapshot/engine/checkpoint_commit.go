package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Commit seals the states of a checkpoint and writes the catalogue durably. If a state cannot be
// sealed at all, Commit seals the others before it returns the error.
func (c *Checkpoint) Commit(ctx context.Context) error {
	if err := c.sealAll(ctx); err != nil {
		return err
	}

	defer c.checkpointer.Collector.Puts.Enter()()

	if err := c.storeActors(); err != nil {
		return err
	}

	c.record.Incomplete = c.checkpointer.Incomplete.Load() // a seal may have found that bytes are lost
	ops, err := c.metaOps()
	if err != nil {
		return err
	}

	// The record of the checkpoint contains a journal position. The journal up to this position must
	// be on disk before the record.
	if err := c.checkpointer.Log.Sync(); err != nil {
		return err
	}

	return c.checkpointer.CAS.Commit(ops...)
}

// sealAll seals all states of a checkpoint. After an error it seals the other states, unless ctx has
// ended, and returns the first error.
func (c *Checkpoint) sealAll(ctx context.Context) error {
	var failed error
	note := func(err error) error {
		failed = cmp.Or(failed, err)
		return ctx.Err()
	}

	for _, sn := range sortedByView(c.snapshots) {
		partly, err := c.sealWholeOrPartly(ctx, sn.WS, sn.State.Load(), func() error { return c.checkpointer.Sealer.EnsureSealed(ctx, sn) })
		if partly != nil {
			c.partlySealed[sn.View] = partly
		}
		if err := note(err); err != nil {
			return err
		}
	}

	for id, w := range c.workspaces {
		if err := note(c.sealPresent(ctx, id, w)); err != nil {
			return err
		}
	}

	for view, st := range c.orphans {
		if err := note(c.sealOrphans(ctx, view, st)); err != nil {
			return err
		}
	}

	for view, w := range c.workspaces {
		if w.isSealed {
			c.checkpointer.Memory.ReturnSealed(view, w.memoryMark)
		}
	}

	return failed
}

// metaOps returns the writes and deletes of the catalogue's records, sorted by key.
func (c *Checkpoint) metaOps() ([]cas.MetaOp, error) {
	values := map[string]any{catalogue.StoreKey: c.record}
	for view, w := range c.workspaces {
		values[catalogue.Key(catalogue.WorkspacePrefix, view)] = w.record
	}

	c.checkpointer.Forest.WithReadLock(func(*live.Tx) {
		if _, changed := c.changedRecords[catalogue.ForgottenKey]; changed {
			values[catalogue.ForgottenKey] = slices.Clone(c.checkpointer.Catalogue.Forgotten)
		}
		for view, sn := range c.snapshots {
			r := sn.Record()
			if !sn.Sealed {
				r.PartlySealed = c.partlySealed[view]
			}

			values[catalogue.Key(catalogue.SnapshotPrefix, view)] = r
		}
	})

	var ops []cas.MetaOp
	for key := range c.changedRecords {
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

// sealPresent seals the frozen state of a workspace, and puts its id into the workspace's record.
func (c *Checkpoint) sealPresent(ctx context.Context, id uint32, w *frozenWorkspace) error {
	w.record.State = ""
	partly, err := c.sealWholeOrPartly(ctx, id, w.state, func() error {
		h, err := c.checkpointer.Sealer.SealInTurn(ctx, id, w.state)
		if err != nil {
			return fmt.Errorf("workspace %s: %w", w.record.Name, err)
		}

		w.record.State = h.String()
		return nil
	})

	w.record.PartlySealed, w.isSealed = partly, err == nil
	return err
}

// sealOrphans seals the orphans of a workspace, its inodes that have no name.
func (c *Checkpoint) sealOrphans(ctx context.Context, id uint32, st *tree.State) error {
	w, ok := c.workspaces[id]
	if !ok {
		return nil
	}

	var sealed cas.Hash
	partly, err := c.sealWholeOrPartly(ctx, id, st, func() (err error) {
		sealed, err = c.checkpointer.Sealer.SealInTurn(ctx, id, st)
		return err
	})
	if partly == nil {
		partly = &catalogue.PartlySealedState{State: sealed}
	}

	w.record.Orphans = partly
	w.isSealed = w.isSealed && err == nil

	return err
}

// sealWholeOrPartly calls seal, which seals the state st. If seal fails, sealWholeOrPartly seals the state
// without the files that cannot be sealed, and returns the id of this state with a description of the files.
func (c *Checkpoint) sealWholeOrPartly(ctx context.Context, ws uint32, st *tree.State, seal func() error) (*catalogue.PartlySealedState, error) {
	cause := seal()
	if cause == nil || ctx.Err() != nil || st == nil {
		return nil, cause
	}

	partly, lowestPos, err := c.checkpointer.Sealer.SealPartly(ctx, ws, st)
	switch {
	case err != nil:
		return nil, cause
	case partly == nil:
		return nil, seal() // all files could be sealed this time
	}

	c.checkpointer.Logger.Warn("a checkpoint leaves out what cannot be sealed", "err", cause, guard.Stack(cause))
	c.lowestPos, c.unsealedErr = min(c.lowestPos, lowestPos), errors.Join(c.unsealedErr, cause)

	return partly, nil
}

func sortedByView(m map[uint32]*catalogue.Snapshot) []*catalogue.Snapshot {
	out := slices.Collect(maps.Values(m))
	slices.SortFunc(out, func(a, b *catalogue.Snapshot) int { return int(a.View) - int(b.View) })
	return out
}

// dropJournal drops the journal before a checkpoint, up to the first byte that an unsealed state
// needs.
func (p *Checkpointer) dropJournal(c *Checkpoint) error {
	position := min(c.record.Position, c.lowestPos)
	scan := &journalScan{lowestPos: live.NoPos}

	for range 2 { // the first pass may take long; the second visits the changes in that time
		var states []*tree.State
		p.Forest.WithLock(func(tx *live.Tx) {
			states = p.unsealedStates()
			for _, view := range tx.ChangedViews().Changed(live.ForCheckpoint) { // all other views are sealed
				if st, err := tx.Capture(view); err == nil {
					states = append(states, st)
				}
			}
		})
		for _, st := range states {
			scan.visitFrozen(st)
		}
	}

	p.Forest.WithLock(func(tx *live.Tx) {
		position = min(position, scan.lowest(tx, p.unsealedStates()))
	})
	p.lowestNeededPos.Store(position)

	return p.Log.DropBefore(position)
}

// unsealedStates returns the states of snapshots without an id, and the states that are being read. The
// caller holds the lock of the forest.
func (p *Checkpointer) unsealedStates() []*tree.State {
	states := p.Pins.states()
	for _, sn := range p.Catalogue.Unsealed.All() {
		states = append(states, sn.State.Load())
	}
	return states
}

// ShrinkJournal frees the disk space of the journal before the first needed position.
func (p *Checkpointer) ShrinkJournal() {
	if err := p.Log.Shrink(p.lowestNeededPos.Load()); err != nil {
		p.Logger.Warn("the journal keeps its size", "err", err)
	}
}
