package engine

import (
	"context"
	"errors"
	"sync"
)

// maxAttempts is the number of attempts at a checkpoint. The last attempt also seals workspaces and
// snapshots that are removed while it runs.
const maxAttempts = 8

var errRemoved = errors.New("a workspace or snapshot was removed while it was being sealed")

// A runningCheckpoint is a checkpoint between BeginCheckpoint and the end of Commit.
type runningCheckpoint struct {
	*Checkpoint
	endOnce sync.Once
	removed chan struct{} // closed when a workspace or snapshot was removed before its seal
}

// commitCheckpoint begins and commits a checkpoint. It begins again when a workspace or snapshot
// of the checkpoint was removed before its seal.
func (p *Checkpointer) commitCheckpoint(ctx context.Context) (*Checkpoint, error) {
	defer p.running.Store(nil)
	for attempt := 1; ; attempt++ {
		c, err := p.BeginCheckpoint()
		if err != nil {
			return nil, err
		}

		sealing, stop := p.running.Load().sealContext(ctx, attempt < maxAttempts, p.gcWaits.channel())
		err = func() error {
			done := false
			defer func() {
				stop()
				if !done { // also after a panic
					c.markChangedAgain()
				}
			}()

			err := c.Commit(sealing)
			done = err == nil

			return err
		}()
		if err == nil {
			return c, nil
		}

		switch cause := context.Cause(sealing); {
		case errors.Is(cause, ErrNoCheckpoint):
			return nil, cause
		case ctx.Err() != nil || !errors.Is(cause, errRemoved):
			return nil, err
		}
	}
}

// HandleRemovedView is called when a workspace or snapshot is removed. If a checkpoint is running that has not
// sealed its state yet, the checkpoint begins again. It cannot just skip the state, because journal records after
// the checkpoint may refer to inodes of the state. The caller holds the lock of the forest.
func (p *Checkpointer) HandleRemovedView(view uint32) {
	r := p.running.Load()
	if r == nil {
		return
	}

	sn, ok := r.snapshots[view]
	unneeded := ok && !sn.Sealed
	if w, ok := r.workspaces[view]; ok {
		_, sealed := w.state.ID()
		unneeded = unneeded || !sealed
	}

	if unneeded {
		r.endOnce.Do(func() { close(r.removed) })
	}
}

// sealContext returns the context of the seals. The context ends when ctx ends or a gc waits. If mayRestart is set,
// it also ends when a workspace or snapshot was removed before its seal.
func (r *runningCheckpoint) sealContext(ctx context.Context, mayRestart bool, gcWaits <-chan struct{}) (sealing context.Context, stop func()) {
	sealing, cancel := context.WithCancelCause(ctx)
	removed := r.removed
	if !mayRestart {
		removed = nil
	}

	go func() {
		select {
		case <-removed:
			cancel(errRemoved)
		case <-gcWaits:
			cancel(ErrNoCheckpoint)
		case <-sealing.Done():
		}
	}()

	return sealing, func() { cancel(nil) }
}

// maxGCSealBytes limits the bytes that a checkpoint for a gc seals. The journal's size is no such limit, because
// several files may share the same bytes of the journal.
const maxGCSealBytes = busyCheckpointBytes

// gcWaitFlag shows whether a gc waits for the running checkpoint. There is one gc at a time.
type gcWaitFlag struct {
	mu      sync.Mutex
	waiting chan struct{} // closed while a gc waits
}

func (g *gcWaitFlag) channel() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

func (g *gcWaitFlag) begin() { close(g.waiting) }

func (g *gcWaitFlag) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = make(chan struct{})
}

// CheckpointForGC makes a checkpoint for a gc, and calls fn before the next checkpoint can begin. If another
// checkpoint is running, it ends that checkpoint. The new checkpoint does not repeat the finished seals.
// checkpointErr is the error of the new checkpoint: ErrNoCheckpoint if the checkpoint would seal more than
// MaxGCSealBytes. fn is called even if the new checkpoint fails. err is the error of fn.
func (p *Checkpointer) CheckpointForGC(ctx context.Context, fn func() error) (checkpointErr, err error) {
	p.gcWaits.begin()
	err = p.mu.Acquire(ctx, 1)
	p.gcWaits.end()
	if err != nil {
		return nil, err
	}
	defer p.mu.Release(1)

	checkpointErr = p.checkpointWithinLimit(ctx)
	return checkpointErr, fn()
}

// checkpointWithinLimit makes a checkpoint, which fails with ErrNoCheckpoint if it would seal more than
// MaxGCSealBytes. The caller holds mu.
func (p *Checkpointer) checkpointWithinLimit(ctx context.Context) error {
	limited, stop := WithByteLimit(ctx, p.MaxGCSealBytes, ErrNoCheckpoint)
	defer stop()
	return p.checkpoint(limited)
}
