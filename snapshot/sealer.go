package snapshot

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/cas/guard"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// sealWorkers is how many goroutines cut and hash file contents.
	sealWorkers = 2
	// sealDelay is how long after a capture its seal begins in the background,
	// so that whoever made it has its answer first: the workers would take the
	// processors that the answer and the program need. Who waits for the seal
	// does not wait for this.
	sealDelay = 10 * time.Millisecond
)

// sealQueue holds the snapshots that have no id yet, oldest first.
type sealQueue struct {
	mu     sync.Mutex
	queue  []*snap
	signal chan struct{}
	one    sync.Mutex // one seal at a time, oldest first, so that each builds on the one before
}

func (q *sealQueue) init() { q.signal = make(chan struct{}, 1) }

func (q *sealQueue) push(sn *snap) {
	if sn.Sealed {
		return
	}
	q.mu.Lock()
	q.queue = append(q.queue, sn)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *sealQueue) first() *snap {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nil
	}
	return q.queue[0]
}

func (q *sealQueue) done(sn *snap) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, x := range q.queue {
		if x == sn {
			q.queue = append(q.queue[:i:i], q.queue[i+1:]...)
			return
		}
	}
}

func (q *sealQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

// sealLoop seals snapshots in the background.
func (s *Store) sealLoop() {
	for {
		for s.ctx.Err() == nil { // also what was left by a panic
			more, err := s.sealFirst(s.ctx)
			if err != nil {
				if s.ctx.Err() == nil {
					s.logger.Warn("sealing", "error", err, guard.Stack(err))
					s.pause(5 * time.Second)
				}
				continue
			}
			if !more {
				break
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.seal.signal:
		}
		s.pause(sealDelay)
	}
}

func (s *Store) pause(d time.Duration) {
	select {
	case <-s.ctx.Done():
	case <-time.After(d):
	}
}

// sealFirst seals the oldest snapshot that is not. It reports whether there
// was one.
func (s *Store) sealFirst(ctx context.Context) (bool, error) {
	s.seal.one.Lock()
	defer s.seal.one.Unlock()
	sn := s.seal.first()
	if sn == nil {
		return false, nil
	}
	// Held from before the look on: gc must not mark in between, without a
	// snapshot that is removed just then, what its seal takes over.
	defer s.puts.enter()()
	var gone bool
	var name string
	s.look(func(*live.Tx) {
		gone, name = s.cat.snaps[sn.View] != sn && !sn.wanted, sn.Name
	})
	if gone {
		// Removed before it was sealed: nobody needs its chunks.
		s.seal.done(sn)
		close(sn.done)
		return true, nil
	}
	id, added, err := s.sealState(ctx, sn.state.Load())
	if err != nil {
		return true, fmt.Errorf("snapshot %s: %w", name, err)
	}
	s.alter(func(*live.Tx) {
		sn.id, sn.ID, sn.Sealed, sn.UniqueBytes = id, id.String(), true, added
		s.cat.touchSnap(sn.View)
	})
	s.seal.done(sn)
	close(sn.done)
	return true, nil
}

// sealState seals a frozen state and returns its id and how many bytes that
// added to the store, those of others at the same time included. The caller
// holds puts.
func (s *Store) sealState(ctx context.Context, st *tree.State) (cas.Hash, int64, error) {
	start, before := time.Now(), s.cas.Stats().Bytes
	z := &tree.Sealer{Src: s.src, Objects: yielding{s.cas}, Workers: sealWorkers, Lossy: s.lossy.Load(), OnLost: func(n int64) {
		s.lossy.Store(true)
		s.logger.Error("bytes of a file are lost: they were damaged on disk before they were sealed", "bytes", n)
	}}
	var id cas.Hash
	err := guard.Do(func() (err error) {
		id, _, err = z.Seal(ctx, st)
		return err
	})
	if err != nil {
		return id, 0, err
	}
	added := max(0, s.cas.Stats().Bytes-before)
	s.figures.sealed(time.Since(start), added)
	return id, added, nil
}

// yielding goes through Go's scheduler after each object. Who does not keeps a
// processor for 10 ms, and a request that was read waits for it as long.
type yielding struct{ tree.ObjectStore }

func (y yielding) Put(k cas.Kind, b []byte) (cas.Hash, error) {
	h, err := y.ObjectStore.Put(k, b)
	runtime.Gosched()
	return h, err
}

// waitSeal returns when a snapshot is sealed, and helps with it.
func (s *Store) waitSeal(ctx context.Context, sn *snap) error {
	for {
		select {
		case <-sn.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if _, err := s.sealFirst(ctx); err != nil {
			return err
		}
	}
}
