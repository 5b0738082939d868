package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// sealWorkers is how many goroutines cut and hash file contents.
	sealWorkers = 2
	// sealDelay is how long after a capture its seal begins in the background. Before, the
	// workers would take the processors that the answer to the caller needs. A caller that
	// waits for the seal does not wait for this.
	sealDelay = 10 * time.Millisecond
)

// sealForks is how many seals of forks go on at a time.
const sealForks = 2

// turnBytes is how much work a seal does before it gives way to others that wait.
const turnBytes = 8 << 20

// removedCheckInterval is how often a seal checks whether its snapshot was removed.
const removedCheckInterval = 100 * time.Millisecond

// retrySeal is how long a seal that failed is left alone, unless it is waited for.
const retrySeal = 5 * time.Second

// SealerParts are what a Sealer uses of the store. Source and Objects may be set later.
type SealerParts struct {
	Source     *tree.Source
	Objects    *cas.Store
	Catalogue  Catalogue
	Pacer      *Pacer
	Puts       *loops.Barrier // gc waits for those that put objects
	Loops      *loops.Group
	Metrics    *info.Recorder
	Incomplete *atomic.Bool // set when bytes are lost
	Logger     *slog.Logger
}

// A Catalogue is that of the store. Its methods take the lock of the forest.
type Catalogue interface {
	// Turns returns the turns of main, or of the fork of main that a workspace is in.
	Turns(workspace uint32) *semaphore.Weighted
	// Needed reports whether a snapshot is still to be sealed.
	Needed(sn *catalogue.Snapshot) (name string, needed bool)
	// Sealed notes the id of a snapshot and how many bytes its seal added to the store.
	Sealed(sn *catalogue.Snapshot, id cas.Hash, added int64)
}

// A Sealer seals snapshots, oldest first. In main, and in each fork of main with the forks in it,
// one seal at a time is under way: each builds on the one before. Seals of different forks do not
// wait for each other, up to sealForks.
type Sealer struct {
	SealerParts

	forks   *semaphore.Weighted
	waiting atomic.Int32 // callers for a turn

	mu     sync.Mutex // guards queue, Snapshot.Retry and Snapshot.Added
	queue  []*catalogue.Snapshot
	signal [2]loops.Wake // to the loops, see loopOf
}

func New(p SealerParts) *Sealer {
	return &Sealer{SealerParts: p, signal: [2]loops.Wake{loops.NewWake(), loops.NewWake()}, forks: semaphore.NewWeighted(sealForks)}
}

// sealTurn waits until a state of a workspace may be sealed.
func (q *Sealer) sealTurn(ctx context.Context, ws uint32) (end func(), err error) {
	q.waiting.Add(1)
	defer q.waiting.Add(-1)
	tenant := q.Catalogue.Turns(ws)
	if err := tenant.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if ws == live.MainView {
		return func() { tenant.Release(1) }, nil
	}
	if err := q.forks.Acquire(ctx, 1); err != nil {
		tenant.Release(1)
		return nil, err
	}
	return func() {
		q.forks.Release(1)
		tenant.Release(1)
	}, nil
}

// Push queues a snapshot, unless it is sealed.
func (q *Sealer) Push(sn *catalogue.Snapshot) {
	if sn.Sealed {
		return
	}
	q.mu.Lock()
	q.queue = append(q.queue, sn)
	q.mu.Unlock()
	q.signal[loopOf(sn)].Up()
}

// loopOf returns the loop that seals a snapshot: 0 for main, which waits for no fork, or 1.
func loopOf(sn *catalogue.Snapshot) int {
	if sn.WS == live.MainView {
		return 0
	}
	return 1
}

// next returns the oldest snapshot of a loop whose seal did not fail just now; with upTo, the
// oldest of its workspace, or upTo itself.
func (q *Sealer) next(loop int, upTo *catalogue.Snapshot) *catalogue.Snapshot {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, sn := range q.queue {
		if sn == upTo || loopOf(sn) == loop && (upTo == nil || sn.WS == upTo.WS) && (sn.Retry.IsZero() || time.Now().After(sn.Retry)) {
			return sn
		}
	}
	return upTo
}

// failed has the loops skip a snapshot for retrySeal.
func (q *Sealer) failed(sn *catalogue.Snapshot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	sn.Retry = time.Now().Add(retrySeal)
}

// gaveWay moves the snapshots of a workspace behind those of others.
func (q *Sealer) gaveWay(sn *catalogue.Snapshot, added int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	sn.Retry, sn.Added = time.Time{}, sn.Added+added
	same := func(other *catalogue.Snapshot) int {
		if other.WS == sn.WS {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(q.queue, func(a, b *catalogue.Snapshot) int {
		return cmp.Compare(same(a), same(b))
	})
}

// done removes a snapshot from the queue and wakes its waiters. Two callers may have sealed it at
// once: after the end of its fork they have no common turn.
func (q *Sealer) done(sn *catalogue.Snapshot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-sn.Done:
	default:
		close(sn.Done)
	}
	if i := slices.Index(q.queue, sn); i == 0 { // nearly always
		q.queue[0] = nil
		q.queue = q.queue[1:]
	} else if i > 0 {
		q.queue = slices.Delete(q.queue, i, i+1)
	}
}

// Len is how many snapshots have no id yet.
func (q *Sealer) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

// Loop seals snapshots of main in the background, ForkLoop those of forks.
func (q *Sealer) Loop() { q.loop(0) }

func (q *Sealer) ForkLoop() { q.loop(1) }

func (q *Sealer) loop(loop int) {
	for q.Loops.Context.Err() == nil {
		for sn := q.next(loop, nil); sn != nil && q.Loops.Context.Err() == nil; sn = q.next(loop, nil) {
			err := q.sealSnapshot(q.Loops.Context, sn)
			if err != nil && q.Loops.Context.Err() == nil && !errors.Is(err, content.ErrTurnOver) {
				q.Logger.Warn("sealing", "err", err, guard.Stack(err))
			}
		}
		again := loops.Forever
		if q.Len() > 0 { // what failed, also because of a panic
			again = retrySeal
		}
		q.Loops.Await(q.signal[loop], nil, again)
		q.Loops.Pause(sealDelay)
		q.Pacer.AwaitRest(q.Loops)
	}
}

// sealSnapshot seals a snapshot, unless that was done meanwhile. It returns
// content.ErrTurnOver if it gave way before the end.
func (q *Sealer) sealSnapshot(ctx context.Context, sn *catalogue.Snapshot) error {
	end, err := q.sealTurn(ctx, sn.WS)
	if err != nil {
		return err
	}
	defer end()
	select {
	case <-sn.Done:
		return nil
	default:
	}
	// Entered before the check: else a gc could begin in between, without the snapshot if that is
	// removed then, and collect what its seal refers to.
	defer q.Puts.Enter()()
	name, needed := q.Catalogue.Needed(sn)
	if !needed {
		// Removed before it was sealed: its chunks are not needed.
		q.done(sn)
		return nil
	}
	q.failed(sn) // until it is done
	sealing, stop := q.whileNeeded(ctx, sn)
	id, added, err := q.sealState(sealing, sn.WS, sn.State.Load())
	stop()
	if errors.Is(err, content.ErrTurnOver) {
		q.gaveWay(sn, added)
	}
	if _, needed := q.Catalogue.Needed(sn); err != nil && !needed {
		q.done(sn)
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", name, err)
	}
	q.Catalogue.Sealed(sn, id, sn.Added+added)
	q.done(sn)
	return nil
}

// whileNeeded returns a context that ends when a snapshot is removed, so that others need not wait
// for the rest of its seal.
func (q *Sealer) whileNeeded(ctx context.Context, sn *catalogue.Snapshot) (sealing context.Context, stop func()) {
	return loops.While(ctx, removedCheckInterval, context.Canceled, func() bool {
		_, needed := q.Catalogue.Needed(sn)
		return needed
	})
}

// InTurn seals a state that is not a snapshot's when its workspace has its turn. The caller makes
// sure that a gc meanwhile finds the state (see Pins.Hold).
func (q *Sealer) InTurn(ctx context.Context, ws uint32, st *tree.State) (id cas.Hash, err error) {
	err = q.turns(ctx, ws, func() error {
		id, _, err = q.sealState(ctx, ws, st)
		return err
	})
	return id, err
}

// Without is InTurn for a state with files that cannot be sealed. Their bytes that are in the
// journal are stored as they are; low is from where on the journal is needed all the same. The
// result is nil if there are no such files.
func (q *Sealer) Without(ctx context.Context, ws uint32, st *tree.State) (p *catalogue.Partly, low int64, err error) {
	low = live.NoPos
	err = q.turns(ctx, ws, func() error {
		objects := q.Pacer.Objects(q.Objects)
		id, left, err := tree.SealWithout(ctx, q.Source, q.turnSealer(ctx, objects), st)
		if err != nil || len(left) == 0 {
			return err
		}
		for ino, c := range left {
			if err := guard.Do(func() error { return q.sealer(objects).Spill(ctx, c) }); err != nil {
				q.Logger.Warn("a file that cannot be sealed needs the journal", "inode", ino, "err", err, guard.Stack(err))
			}
			low = min(low, c.MinPos())
		}
		files, err := tree.PutContents(objects, left)
		p = &catalogue.Partly{State: id, Files: files}
		return cmp.Or(err, ctx.Err())
	})
	return p, low, err
}

// turns calls fn when a workspace has its turn, and again if it gave way.
func (q *Sealer) turns(ctx context.Context, ws uint32, fn func() error) error {
	for {
		end, err := q.sealTurn(ctx, ws)
		if err != nil {
			return err
		}
		leave := q.Puts.Enter()
		err = fn()
		leave()
		end()
		if !errors.Is(err, content.ErrTurnOver) {
			return err
		}
	}
}

// sealState seals a frozen state of a workspace and returns its id and how many bytes
// that added to the store. For a fork these are the bytes that it put itself, and the
// work is the same, whether others have them or not. The caller holds puts. The error is
// content.ErrTurnOver if others are to have their turn first; some bytes were added then.
func (q *Sealer) sealState(ctx context.Context, ws uint32, st *tree.State) (cas.Hash, int64, error) {
	start := time.Now()
	var added atomic.Int64
	objects := cas.CountingStore{Store: q.Objects, Bytes: &added, Apart: ws != live.MainView}
	id, err := q.sealTo(ctx, q.turnSealer(ctx, q.Pacer.Objects(objects)), st)
	if err != nil {
		return id, added.Load(), err
	}
	q.Metrics.Note(func(m *info.Metrics) { m.Stored++; m.LastStoreMs = info.MsSince(start); m.PackedBytes += added.Load() })
	return id, added.Load(), nil
}

// Edited is InTurn for the state of an edit. Its workspace waits for that, so it does not give way
// to writers.
func (q *Sealer) Edited(ctx context.Context, ws uint32, st *tree.State) (id cas.Hash, err error) {
	err = q.turns(ctx, ws, func() error {
		id, err = q.sealTo(ctx, q.turnSealer(ctx, q.Objects), st)
		return err
	})
	return id, err
}

func (q *Sealer) sealTo(ctx context.Context, z *content.Sealer, st *tree.State) (id cas.Hash, err error) {
	err = guard.Do(func() error {
		id, err = tree.Seal(ctx, q.Source, z, st)
		return err
	})
	return id, err
}

func (q *Sealer) sealer(objects content.ObjectStore) *content.Sealer {
	return &content.Sealer{Src: q.Source.Files, Objects: objects, Workers: sealWorkers, Pace: q.Pacer.Throttled, OnDamage: func(n int64) {
		q.Incomplete.Store(true)
		q.Logger.Error("bytes of a file are lost: they were damaged on disk before they were sealed", "bytes", n)
	}}
}

// turnSealer returns a sealer that fails with content.ErrTurnOver after turnBytes if others wait.
func (q *Sealer) turnSealer(ctx context.Context, objects content.ObjectStore) *content.Sealer {
	z, spent, limit := q.sealer(objects), new(atomic.Int64), limitOf(ctx)
	z.Spend = func(n int64) bool {
		limit.spend(n)
		return spent.Add(n) >= turnBytes && (q.waiting.Load() > 0 || q.Puts.Waited() || q.Len() > 1)
	}
	return z
}

// Wait returns when a snapshot is sealed, and helps with it: those before it in its
// workspace come first. One of these that fails is left out.
func (q *Sealer) Wait(ctx context.Context, sn *catalogue.Snapshot) error {
	for {
		select {
		case <-sn.Done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		next := q.next(loopOf(sn), sn)
		if err := q.sealSnapshot(ctx, next); err != nil && next == sn && !errors.Is(err, content.ErrTurnOver) {
			return err
		}
	}
}
