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
	// sealWorkers is the number of goroutines that cut and hash the contents of a state.
	sealWorkers = 2
	// sealDelay is the time between a capture and its seal in the background, so that the answer
	// to the caller of the capture gets a processor first. It does not delay seals that a
	// caller waits for.
	sealDelay = 10 * time.Millisecond
	// maxForkSeals is the number of seals of forks at a time.
	maxForkSeals = 2
	// turnBytes is the number of bytes that a seal processes before it lets waiting seals run.
	turnBytes = 8 << 20
	// removedCheckInterval is how often a seal checks whether its snapshot was removed.
	removedCheckInterval = 100 * time.Millisecond
	// sealRetryDelay is the time before a failed seal is tried again in the background.
	sealRetryDelay = 5 * time.Second
)

// SealerParts are the components of the store that a Sealer uses. Source and Objects may be set
// later.
type SealerParts struct {
	Source     *tree.Source
	Objects    *cas.Store
	Catalogue  Catalogue
	Pacer      *Pacer
	Puts       *loops.Barrier // see Collector.Puts
	Loops      *loops.Group
	Metrics    *info.Recorder
	Incomplete *atomic.Bool // set when bytes are lost
	Logger     *slog.Logger
}

// A Catalogue gives a Sealer access to the workspaces and snapshots of the store. Its methods take
// the lock of the forest.
type Catalogue interface {
	// TurnSemaphore returns the semaphore of main, or of the fork of main that contains a workspace.
	TurnSemaphore(workspace uint32) *semaphore.Weighted
	// NeedsSeal returns the name of a snapshot and reports whether it still must be sealed.
	NeedsSeal(sn *catalogue.Snapshot) (name string, needed bool)
	// SetSealed sets the id of a snapshot and the bytes that its seal added to the store.
	SetSealed(sn *catalogue.Snapshot, id cas.Hash, added int64)
}

// A Sealer seals snapshots, oldest first. In main, and in each fork of main including the forks in
// it, only one seal runs at a time, because each seal reuses the result of the seal before it. At
// most maxForkSeals seals of different forks of main run at a time.
type Sealer struct {
	SealerParts

	forkSlots   *semaphore.Weighted
	turnWaiters atomic.Int32 // number of callers that wait for a turn

	mu      sync.Mutex // guards queue, Snapshot.RetryAt and Snapshot.AddedBytes
	queue   []*catalogue.Snapshot
	signals [2]loops.Signal // wakes Loop and ForkLoop, see loopOf
}

// NewSealer returns a Sealer with an empty queue.
func NewSealer(p SealerParts) *Sealer {
	return &Sealer{SealerParts: p, signals: [2]loops.Signal{loops.NewSignal(), loops.NewSignal()}, forkSlots: semaphore.NewWeighted(maxForkSeals)}
}

// acquireTurn waits until a state of a workspace may be sealed. The caller calls end after the seal.
func (q *Sealer) acquireTurn(ctx context.Context, ws uint32) (end func(), err error) {
	q.turnWaiters.Add(1)
	defer q.turnWaiters.Add(-1)

	tenant := q.Catalogue.TurnSemaphore(ws)
	if err := tenant.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if ws == live.MainView {
		return func() { tenant.Release(1) }, nil
	}

	if err := q.forkSlots.Acquire(ctx, 1); err != nil {
		tenant.Release(1)
		return nil, err
	}

	return func() {
		q.forkSlots.Release(1)
		tenant.Release(1)
	}, nil
}

// Push adds a snapshot to the queue, unless it is sealed.
func (q *Sealer) Push(sn *catalogue.Snapshot) {
	if sn.Sealed {
		return
	}
	q.mu.Lock()
	q.queue = append(q.queue, sn)
	q.mu.Unlock()
	q.signals[loopOf(sn)].Send()
}

// loopOf returns the index of the loop that seals a snapshot: 0 (Loop) for main, so that main never
// waits for forks, and 1 (ForkLoop) for forks.
func loopOf(sn *catalogue.Snapshot) int {
	if sn.WS == live.MainView {
		return 0
	}
	return 1
}

// nextSnapshot returns the first snapshot in the queue of a loop, or nil if the queue has none. It skips
// snapshots that delayRetry delays. If upTo is not nil, it considers only the snapshots of upTo's workspace,
// and returns upTo if none of them is before upTo in the queue.
func (q *Sealer) nextSnapshot(loop int, upTo *catalogue.Snapshot) *catalogue.Snapshot {
	q.mu.Lock()
	defer q.mu.Unlock()

	for _, sn := range q.queue {
		if sn == upTo || loopOf(sn) == loop && (upTo == nil || sn.WS == upTo.WS) && (sn.RetryAt.IsZero() || time.Now().After(sn.RetryAt)) {
			return sn
		}
	}

	return upTo
}

// delayRetry makes the loops skip a snapshot for sealRetryDelay.
func (q *Sealer) delayRetry(sn *catalogue.Snapshot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	sn.RetryAt = time.Now().Add(sealRetryDelay)
}

// requeue moves the snapshots of sn's workspace behind the snapshots of other workspaces, after the
// seal of sn gave up its turn. added is the number of bytes that this seal added to the store.
func (q *Sealer) requeue(sn *catalogue.Snapshot, added int64) {
	q.mu.Lock()
	defer q.mu.Unlock()

	sn.RetryAt, sn.AddedBytes = time.Time{}, sn.AddedBytes+added
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

// finishSnapshot removes a snapshot from the queue and wakes its waiters. It may be called twice for a
// snapshot: after the snapshot's fork has ended, two callers can have their turns at a time.
func (q *Sealer) finishSnapshot(sn *catalogue.Snapshot) {
	q.mu.Lock()
	defer q.mu.Unlock()

	select {
	case <-sn.SealedSignal:
	default:
		close(sn.SealedSignal)
	}

	if i := slices.Index(q.queue, sn); i == 0 { // sn is nearly always the first of the queue
		q.queue[0] = nil
		q.queue = q.queue[1:]
	} else if i > 0 {
		q.queue = slices.Delete(q.queue, i, i+1)
	}
}

// Len returns the number of snapshots without an id.
func (q *Sealer) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

// Loop seals the snapshots of main in the background.
func (q *Sealer) Loop() { q.runLoop(0) }

// ForkLoop seals the snapshots of forks in the background.
func (q *Sealer) ForkLoop() { q.runLoop(1) }

// runLoop implements Loop and ForkLoop.
func (q *Sealer) runLoop(loop int) {
	for q.Loops.Context.Err() == nil {
		for sn := q.nextSnapshot(loop, nil); sn != nil && q.Loops.Context.Err() == nil; sn = q.nextSnapshot(loop, nil) {
			err := q.sealSnapshot(q.Loops.Context, sn)
			if err != nil && q.Loops.Context.Err() == nil && !errors.Is(err, content.ErrTurnOver) {
				q.Logger.Warn("sealing", "err", err, guard.Stack(err))
			}
		}

		retryIn := loops.Forever
		if q.Len() > 0 { // the seals of these snapshots failed or panicked
			retryIn = sealRetryDelay
		}

		q.Loops.Await(q.signals[loop], nil, retryIn)
		q.Loops.Pause(sealDelay)
		q.Pacer.AwaitIdle(q.Loops)
	}
}

// sealSnapshot seals a snapshot, unless another caller has sealed it. It returns
// content.ErrTurnOver if it gave up its turn before the end.
func (q *Sealer) sealSnapshot(ctx context.Context, sn *catalogue.Snapshot) error {
	end, err := q.acquireTurn(ctx, sn.WS)
	if err != nil {
		return err
	}
	defer end()

	select {
	case <-sn.SealedSignal:
		return nil
	default:
	}

	// Enter Puts before the check. Otherwise the snapshot could be removed and a gc begin between
	// the two, and the gc would remove objects that the seal references.
	defer q.Puts.Enter()()

	name, needed := q.Catalogue.NeedsSeal(sn)
	if !needed {
		q.finishSnapshot(sn)
		return nil
	}

	q.delayRetry(sn) // has an effect if the seal fails or panics
	sealing, stop := q.neededContext(ctx, sn)
	id, added, err := q.sealState(sealing, sn.WS, sn.State.Load())
	stop()
	if errors.Is(err, content.ErrTurnOver) {
		q.requeue(sn, added)
	}

	if _, needed := q.Catalogue.NeedsSeal(sn); err != nil && !needed {
		q.finishSnapshot(sn)
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", name, err)
	}

	q.Catalogue.SetSealed(sn, id, sn.AddedBytes+added)
	q.finishSnapshot(sn)

	return nil
}

// neededContext returns a context that ends when a snapshot is removed, so that other seals need not
// wait for the seal of this snapshot.
func (q *Sealer) neededContext(ctx context.Context, sn *catalogue.Snapshot) (sealing context.Context, stop func()) {
	return loops.WhileNeeded(ctx, removedCheckInterval, context.Canceled, func() bool {
		_, needed := q.Catalogue.NeedsSeal(sn)
		return needed
	})
}

// SealInTurn seals a state when its workspace has its turn. The state is not in the queue, so the
// caller must protect it from gc (see Pins.Hold).
func (q *Sealer) SealInTurn(ctx context.Context, ws uint32, st *tree.State) (id cas.Hash, err error) {
	err = q.runInTurn(ctx, ws, func() error {
		id, _, err = q.sealState(ctx, ws, st)
		return err
	})
	return id, err
}

// SealPartly seals a state without the files that cannot be sealed. It copies the bytes of those files from
// the journal into the store, unsealed. Bytes that cannot be copied must stay in the journal; lowestPos is
// their lowest position. p is nil if all files could be sealed. Like SealInTurn, SealPartly waits for the
// turn of the workspace, and the caller must protect the state from gc.
func (q *Sealer) SealPartly(ctx context.Context, ws uint32, st *tree.State) (p *catalogue.PartlySealedState, lowestPos int64, err error) {
	lowestPos = live.NoPos
	err = q.runInTurn(ctx, ws, func() error {
		objects := q.Pacer.Objects(q.Objects)
		id, unsealed, err := tree.SealReadable(ctx, q.Source, q.newTurnSealer(ctx, objects), st)
		if err != nil || len(unsealed) == 0 {
			return err
		}

		for ino, c := range unsealed {
			if err := guard.Do(func() error { return q.newContentSealer(objects).Spill(ctx, c) }); err != nil {
				q.Logger.Warn("a file that cannot be sealed needs the journal", "inode", ino, "err", err, guard.Stack(err))
			}
			lowestPos = min(lowestPos, c.MinJournalPos())
		}

		files, err := tree.PutContents(objects, unsealed)
		p = &catalogue.PartlySealedState{State: id, Files: files}

		return cmp.Or(err, ctx.Err())
	})

	return p, lowestPos, err
}

// runInTurn calls fn when a workspace has its turn, and again after each content.ErrTurnOver.
func (q *Sealer) runInTurn(ctx context.Context, ws uint32, fn func() error) error {
	for {
		end, err := q.acquireTurn(ctx, ws)
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

// sealState seals a frozen state of a workspace, and returns its id and the number of bytes that
// the seal added to the store. In a fork, the seal treats an object that exists already like a new one: it
// takes as long and counts as many bytes. So a fork cannot find out which objects another workspace uses.
// The caller has entered Puts. The error is content.ErrTurnOver if the turn ended before the seal;
// the number of bytes is valid also with this error.
func (q *Sealer) sealState(ctx context.Context, ws uint32, st *tree.State) (cas.Hash, int64, error) {
	start := time.Now()
	var added atomic.Int64
	objects := cas.CountingStore{Store: q.Objects, Bytes: &added, HideExisting: ws != live.MainView}
	id, err := q.sealWith(ctx, q.newTurnSealer(ctx, q.Pacer.Objects(objects)), st)
	if err != nil {
		return id, added.Load(), err
	}

	q.Metrics.Update(func(m *info.Metrics) { m.Stored++; m.LastStoreMs = info.MsSince(start); m.PackedBytes += added.Load() })

	return id, added.Load(), nil
}

// SealEdited seals the state of an edit as SealInTurn does, but does not yield to writers, because the
// workspace is blocked until the edit ends.
func (q *Sealer) SealEdited(ctx context.Context, ws uint32, st *tree.State) (id cas.Hash, err error) {
	err = q.runInTurn(ctx, ws, func() error {
		id, err = q.sealWith(ctx, q.newTurnSealer(ctx, q.Objects), st)
		return err
	})
	return id, err
}

// sealWith seals a state with z. It returns a panic as an error.
func (q *Sealer) sealWith(ctx context.Context, z *content.Sealer, st *tree.State) (id cas.Hash, err error) {
	err = guard.Do(func() error {
		id, err = tree.Seal(ctx, q.Source, z, st)
		return err
	})
	return id, err
}

func (q *Sealer) newContentSealer(objects content.ObjectStore) *content.Sealer {
	return &content.Sealer{Src: q.Source.Files, Objects: objects, Workers: sealWorkers, Pace: q.Pacer.IsThrottled, OnDamage: func(n int64) {
		q.Incomplete.Store(true)
		q.Logger.Error("bytes of a file are lost: they were damaged on disk before they were sealed", "bytes", n)
	}}
}

// newTurnSealer returns a sealer that fails with content.ErrTurnOver after turnBytes bytes if other
// seals or a gc wait.
func (q *Sealer) newTurnSealer(ctx context.Context, objects content.ObjectStore) *content.Sealer {
	z, spent, limit := q.newContentSealer(objects), new(atomic.Int64), byteLimitOf(ctx)
	z.Spend = func(n int64) bool {
		limit.spend(n)
		return spent.Add(n) >= turnBytes && (q.turnWaiters.Load() > 0 || q.Puts.HasWaiters() || q.Len() > 1)
	}
	return z
}

// EnsureSealed seals a snapshot, or waits until another goroutine has sealed it. It seals older snapshots
// of the workspace first, and ignores their errors.
func (q *Sealer) EnsureSealed(ctx context.Context, sn *catalogue.Snapshot) error {
	for {
		select {
		case <-sn.SealedSignal:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}

		next := q.nextSnapshot(loopOf(sn), sn)
		if err := q.sealSnapshot(ctx, next); err != nil && next == sn && !errors.Is(err, content.ErrTurnOver) {
			return err
		}
	}
}
