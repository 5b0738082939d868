package snapshot

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
	*checkpoint
	once  sync.Once
	ended chan struct{} // closed when something that it has no id of was removed
}

// committed returns a checkpoint that was committed.
func (p *checkpointer) committed(ctx context.Context) (*checkpoint, error) {
	defer p.running.Store(nil)
	for begun := 1; ; begun++ {
		c, err := p.beginCheckpoint()
		if err != nil {
			return nil, err
		}
		sealing, stop := p.running.Load().whileNeeded(ctx, begun < beginAnew)
		err = func() error {
			defer stop()
			return p.commit(sealing, c)
		}()
		if err == nil {
			return c, nil
		}
		p.giveUp(c)
		if ctx.Err() != nil || !errors.Is(context.Cause(sealing), errRemoved) {
			return nil, err
		}
	}
}

// removed ends the checkpoint under way if it has yet to seal what was removed: the journal
// behind it may still refer to that, so it cannot be left out. The checkpoint begins anew, and
// does not have it. The lock is held.
func (p *checkpointer) removed(view uint32) {
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

// whileNeeded returns the context of the seals, which ends with the checkpoint's, or, if it
// may begin anew, when one of them is needless.
func (r *running) whileNeeded(ctx context.Context, anew bool) (sealing context.Context, stop func()) {
	sealing, cancel := context.WithCancelCause(ctx)
	if !anew {
		return sealing, func() { cancel(nil) }
	}
	go func() {
		select {
		case <-r.ended:
			cancel(errRemoved)
		case <-sealing.Done():
		}
	}()
	return sealing, func() { cancel(nil) }
}
