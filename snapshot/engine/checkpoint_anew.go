package engine

import (
	"context"
	"errors"
	"sync"
)

// maxBegins is how often a checkpoint begins at most. The last time it also seals what is removed
// meanwhile.
const maxBegins = 8

var errRemoved = errors.New("what was being sealed was removed")

// running is a checkpoint under way.
type running struct {
	*Checkpoint
	once  sync.Once
	ended chan struct{} // closed when something that it has yet to seal was removed
}

// committed commits a checkpoint and returns it.
func (p *Checkpointer) committed(ctx context.Context) (*Checkpoint, error) {
	defer p.running.Store(nil)
	for begun := 1; ; begun++ {
		c, err := p.Begin()
		if err != nil {
			return nil, err
		}
		sealing, stop := p.running.Load().whileNeeded(ctx, begun < maxBegins, p.gcWaits.channel())
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

// Removed has the checkpoint under way begin again if it has yet to seal what was removed. That
// cannot simply be left out: records of the journal after the checkpoint may refer to it. The
// lock is held.
func (p *Checkpointer) Removed(view uint32) {
	r := p.running.Load()
	if r == nil {
		return
	}
	sn, ok := r.snaps[view]
	unneeded := ok && !sn.Sealed
	if w, ok := r.workspaces[view]; ok {
		_, sealed := w.state.ID()
		unneeded = unneeded || !sealed
	}
	if unneeded {
		r.once.Do(func() { close(r.ended) })
	}
}

// whileNeeded returns the context of the seals. It ends with ctx, when a gc waits and, with anew,
// when something that the checkpoint has yet to seal was removed.
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

// gcWork limits the seals of a checkpoint before a gc. Files that share bytes could take much
// longer than the journal's size suggests.
const gcWork = checkpointMost

// gcWaits shows whether a gc waits for the checkpoint under way. There is one gc at a time.
type gcWaits struct {
	mu      sync.Mutex
	waiting chan struct{} // closed while one waits
}

func (g *gcWaits) channel() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

func (g *gcWaits) begin() { close(g.waiting) }

func (g *gcWaits) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = make(chan struct{})
}

// Hold makes a checkpoint for a gc, and calls fn before the next one can begin. It ends a
// checkpoint under way, whose work is not lost. full is why there is no checkpoint:
// ErrNoCheckpoint if that would have to seal more than GCWork.
func (p *Checkpointer) Hold(ctx context.Context, fn func() error) (full, err error) {
	p.gcWaits.begin()
	err = p.mu.Acquire(ctx, 1)
	p.gcWaits.end()
	if err != nil {
		return nil, err
	}
	defer p.mu.Release(1)
	full = p.checkpointSoon(ctx)
	return full, fn()
}

// checkpointSoon is checkpoint within GCWork.
func (p *Checkpointer) checkpointSoon(ctx context.Context) error {
	limited, stop := WithLimit(ctx, p.GCWork, ErrNoCheckpoint)
	defer stop()
	return p.checkpoint(limited)
}
