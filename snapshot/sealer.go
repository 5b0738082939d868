package snapshot

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/loops"
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
	// sealWait is how long it then waits, at most, for the writers to rest. They
	// do while they write less than restBytes in restTick.
	sealWait  = 5 * time.Second
	restTick  = 20 * time.Millisecond
	restBytes = 256 << 10
	// Beside writers a seal rests after each sealTurn: for as long if there is one
	// processor, or else for turnRest, in which Go's scheduler gives its turn (P) to
	// requests that wait for one.
	sealTurn = 2 * time.Millisecond
	turnRest = 50 * time.Microsecond
)

// sealForks is how many seals of forks go on at a time.
const sealForks = 2

// retrySeal is how long a seal that failed is left alone, unless it is waited for.
const retrySeal = 5 * time.Second

// sealer has the snapshots that have no id yet, oldest first. One seal at a time goes
// on in main, and one in each fork of main with the forks in it: there each builds on
// the one before, and none waits for other tenants.
type sealer struct {
	main   *semaphore.Weighted
	forks  *semaphore.Weighted
	mu     sync.Mutex // guards queue and snap.retry
	queue  []*snap
	signal loops.Wake

	waiting atomic.Int32 // who waits for a seal
	looked  atomic.Int64 // ns, when a seal last looked
	seen    atomic.Int64 // end of the journal then
	busy    atomic.Int64 // bytes by which it had grown since the look before
	rested  atomic.Int64 // ns, when one last rested
}

func (q *sealer) init() {
	q.signal = loops.NewWake()
	q.main, q.forks = semaphore.NewWeighted(1), semaphore.NewWeighted(sealForks)
}

// sealTurn waits until a state of a workspace may be sealed.
func (s *Store) sealTurn(ctx context.Context, ws uint32) (end func(), err error) {
	if ws == live.MainView {
		if err := s.seal.main.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		return func() { s.seal.main.Release(1) }, nil
	}
	tenant := semaphore.NewWeighted(1) // of a fork that has ended
	if u := s.usageOf(ws); u != nil {
		tenant = u.fork.sealing
	}
	if err := tenant.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := s.seal.forks.Acquire(ctx, 1); err != nil {
		tenant.Release(1)
		return nil, err
	}
	return func() {
		s.seal.forks.Release(1)
		tenant.Release(1)
	}, nil
}

func (q *sealer) push(sn *snap) {
	if sn.Sealed {
		return
	}
	q.mu.Lock()
	q.queue = append(q.queue, sn)
	q.mu.Unlock()
	q.signal.Up()
}

// next returns the oldest snapshot whose seal did not fail just now; with upTo, the
// oldest of its workspace, or upTo itself.
func (q *sealer) next(upTo *snap) *snap {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, sn := range q.queue {
		if sn == upTo || (upTo == nil || sn.ws == upTo.ws) && (sn.retry.IsZero() || time.Now().After(sn.retry)) {
			return sn
		}
	}
	return upTo
}

// failed leaves a snapshot alone for a while.
func (q *sealer) failed(sn *snap) {
	q.mu.Lock()
	defer q.mu.Unlock()
	sn.retry = time.Now().Add(retrySeal)
}

func (q *sealer) done(sn *snap) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.queue, sn); i == 0 { // nearly always
		q.queue[0] = nil
		q.queue = q.queue[1:]
	} else if i > 0 {
		q.queue = slices.Delete(q.queue, i, i+1)
	}
}

func (q *sealer) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

// sealLoop seals snapshots in the background.
func (s *Store) sealLoop() {
	for {
		for sn := s.seal.next(nil); sn != nil && s.loops.Context.Err() == nil; sn = s.seal.next(nil) {
			if err := s.sealSnapshot(s.loops.Context, sn); err != nil && s.loops.Context.Err() == nil {
				s.logger.Warn("sealing", "err", err, guard.Stack(err))
			}
		}
		var again <-chan time.Time
		if s.seal.len() > 0 { // what failed, also because of a panic
			again = time.After(retrySeal)
		}
		select {
		case <-s.loops.Context.Done():
			return
		case <-s.seal.signal:
		case <-again:
		}
		s.loops.Pause(sealDelay)
		s.awaitRest()
	}
}

// awaitRest returns when the writers rest: what they remove until then need not be
// sealed, if no snapshot has it. It does not wait for long, and not at all when the
// journal had better shrink.
func (s *Store) awaitRest() {
	for began := time.Now(); time.Since(began) < sealWait && !s.outgrown() && s.loops.Context.Err() == nil; {
		end := s.log.End()
		s.loops.Pause(restTick)
		if s.log.End()-end < restBytes {
			return
		}
	}
}

// sealSnapshot seals a snapshot, unless that was done meanwhile.
func (s *Store) sealSnapshot(ctx context.Context, sn *snap) error {
	end, err := s.sealTurn(ctx, sn.ws)
	if err != nil {
		return err
	}
	defer end()
	select {
	case <-sn.done:
		return nil
	default:
	}
	// Held from before the look on: gc must not mark in between, without a
	// snapshot that is removed just then, what its seal takes over.
	defer s.gc.puts.Enter()()
	var gone bool
	var name string
	s.look(func(*live.Tx) {
		gone, name = s.cat.snaps[sn.View] != sn && !sn.wanted, sn.Name
	})
	if gone {
		// Removed before it was sealed: nobody needs its chunks.
		s.seal.done(sn)
		close(sn.done)
		return nil
	}
	s.seal.failed(sn) // until it is done
	id, added, err := s.sealState(ctx, sn.ws, sn.state.Load())
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", name, err)
	}
	s.alter(func(*live.Tx) {
		sn.id, sn.ID, sn.Sealed, sn.UniqueBytes = id, id.String(), true, added
		s.cat.touchSnap(sn.View)
	})
	s.seal.done(sn)
	close(sn.done)
	return nil
}

// sealInTurn is sealState of what is no snapshot, when its workspace has its turn.
func (s *Store) sealInTurn(ctx context.Context, ws uint32, st *tree.State) (cas.Hash, error) {
	end, err := s.sealTurn(ctx, ws)
	if err != nil {
		return cas.Hash{}, err
	}
	defer end()
	id, _, err := s.sealState(ctx, ws, st)
	return id, err
}

// sealState seals a frozen state of a workspace and returns its id and how many bytes
// that added to the store. For a fork these are the bytes that it put itself, and the
// work is the same, whether others have them or not. The caller holds puts.
func (s *Store) sealState(ctx context.Context, ws uint32, st *tree.State) (cas.Hash, int64, error) {
	start := time.Now()
	var added atomic.Int64
	objects := cas.Counting{Store: s.cas, Bytes: &added, Apart: ws != live.MainView}
	id, err := s.sealTo(ctx, yielding{objects, s}, st)
	if err != nil {
		return id, 0, err
	}
	s.figures.sealed(time.Since(start), added.Load())
	return id, added.Load(), nil
}

// sealTo seals a frozen state into objects of the store. The caller holds puts.
func (s *Store) sealTo(ctx context.Context, objects content.ObjectStore, st *tree.State) (id cas.Hash, err error) {
	z := &content.Sealer{Src: s.src.Files, Objects: objects, Workers: sealWorkers, Pace: s.pace, OnDamage: func(n int64) {
		s.salvage.incomplete.Store(true)
		s.logger.Error("bytes of a file are lost: they were damaged on disk before they were sealed", "bytes", n)
	}}
	err = guard.Do(func() error {
		id, err = tree.Seal(ctx, s.src, z, st)
		return err
	})
	return id, err
}

// yielding gives way to writers after each object.
type yielding struct {
	content.ObjectStore
	store *Store
}

func (y yielding) Put(k cas.Kind, b []byte) (cas.Hash, error) {
	h, err := y.ObjectStore.Put(k, b)
	y.store.giveWay()
	return h, err
}

// pace reports whether a seal had better leave a processor to writers: while they write.
// If they write much it does not when somebody waits for the seal or the journal had
// better shrink.
func (s *Store) pace() (alone bool) {
	q, now, end := &s.seal, time.Now().UnixNano(), s.log.End()
	if since := now - q.looked.Load(); since > int64(restTick) {
		q.looked.Store(now)
		q.busy.Store(end - q.seen.Swap(end))
	}
	busy := max(q.busy.Load(), end-q.seen.Load())
	return busy > 0 && (busy < restBytes || q.waiting.Load() == 0 && !s.outgrown())
}

// giveWay goes through Go's scheduler: who does not keeps a processor for 10 ms, and a
// request that was read waits for it as long. A seal that is alone has a thread of its
// own, which lets those go first that wait for its processor, and rests now and then.
func (s *Store) giveWay() {
	if !s.pace() {
		runtime.Gosched()
		return
	}
	rest := turnRest
	if runtime.GOMAXPROCS(0) == 1 {
		rest = sealTurn
	}
	q, now := &s.seal, time.Now()
	if now.UnixNano()-q.rested.Load() < int64(sealTurn) {
		syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
		return
	}
	q.rested.Store(now.Add(rest).UnixNano())
	time.Sleep(rest)
}

// urgent has seals go on without a rest until the function it returns is called.
func (q *sealer) urgent() (done func()) {
	q.waiting.Add(1)
	return func() { q.waiting.Add(-1) }
}

// waitSeal returns when a snapshot is sealed, and helps with it: those before it in its
// workspace come first. One of these that fails is left out.
func (s *Store) waitSeal(ctx context.Context, sn *snap) error {
	for {
		select {
		case <-sn.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		next := s.seal.next(sn)
		if err := s.sealSnapshot(ctx, next); err != nil && next == sn {
			return err
		}
	}
}
