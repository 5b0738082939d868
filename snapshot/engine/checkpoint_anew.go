package engine

import (
	"context"
	"errors"
	"sync"
)

// beginAnew is how often a checkpoint begins at most. The last one seals all that it has, also
// what is removed meanwhile.
const beginAnew = 8

var errRemoved = errors.New("what was being sealed was removed")

// running is a checkpoint that seals what it has.
type running struct {
	*Checkpoint
	once  sync.Once
	ended chan struct{} // closed when something that it has no id of was removed
}

// committed returns a checkpoint that was committed.
func (p *Checkpointer) committed(ctx context.Context) (*Checkpoint, error) {
	defer p.running.Store(nil)
	for begun := 1; ; begun++ {
		c, err := p.Begin()
		if err != nil {
			return nil, err
		}
		sealing, stop := p.running.Load().whileNeeded(ctx, begun < beginAnew, p.gcWaits.waits())
		err = func() error {
			done := false
			defer func() {
				stop()
				if !done { // also after a panic
					c.giveUp()
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

// Removed ends the checkpoint under way if it has yet to seal what was removed: the journal
// behind it may still refer to that, so it cannot be left out. The checkpoint begins anew, and
// does not have it. The lock is held.
func (p *Checkpointer) Removed(view uint32) {
	r := p.running.Load()
	if r == nil {
		return
	}
	sn, ok := r.snaps[view]
	needless := ok && !sn.Sealed
	if w, ok := r.workspaces[view]; ok {
		_, sealed := w.state.ID()
		needless = needless || !sealed
	}
	if needless {
		r.once.Do(func() { close(r.ended) })
	}
}

// whileNeeded returns the context of the seals, which ends with the checkpoint's, when a gc
// waits, or, if it may begin anew, when one of them is needless.
func (r *running) whileNeeded(ctx context.Context, anew bool, gcWaits <-chan struct{}) (sealing context.Context, stop func()) {
	sealing, cancel := context.WithCancelCause(ctx)
	ended := r.ended
	if !anew {
		ended = nil
	}
	go func() {
		select {
		case <-ended:
			cancel(errRemoved)
		case <-gcWaits:
			cancel(ErrNoCheckpoint)
		case <-sealing.Done():
		}
	}()
	return sealing, func() { cancel(nil) }
}

// gcWork is how much a checkpoint before a gc seals at most: as much as is journaled until one
// is made beside writers. Files that share bytes may take any time.
const gcWork = checkpointMost

// gcWaits is whether a gc waits for the checkpoint under way. There is one gc at a time.
type gcWaits struct {
	mu   sync.Mutex
	came chan struct{} // closed while one waits
}

func (g *gcWaits) waits() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.came
}

func (g *gcWaits) come() { close(g.came) }

func (g *gcWaits) gone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.came = make(chan struct{})
}

// Hold makes a checkpoint for a gc, and calls fn before the next one can begin. A checkpoint
// under way gives way; its next one goes on from there. full is why there is none:
// ErrNoCheckpoint if this one, too, would have to seal very much.
func (p *Checkpointer) Hold(ctx context.Context, fn func() error) (full, err error) {
	p.gcWaits.come()
	err = p.mu.Acquire(ctx, 1)
	p.gcWaits.gone()
	if err != nil {
		return nil, err
	}
	defer p.mu.Release(1)
	full = p.checkpointSoon(ctx)
	return full, fn()
}

// checkpointSoon is checkpoint with an end in sight.
func (p *Checkpointer) checkpointSoon(ctx context.Context) error {
	limited, stop := WithLimit(ctx, p.GCWork, ErrNoCheckpoint)
	defer stop()
	return p.checkpoint(limited)
}
