package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/await"
)

// TestSealQueue: what is sealed leaves a queue at the same cost however long that is,
// after a mount with very many forks, for one.
func TestSealQueue(t *testing.T) {
	const runs = 1000
	q := NewSealer(SealerParts{})
	all := make([]*catalogue.Snapshot, 2*runs+2)
	for i := range all {
		all[i] = &catalogue.Snapshot{SealedSignal: make(chan struct{})}
		q.Push(all[i])
	}
	if n := testing.AllocsPerRun(runs, func() { q.finishSnapshot(q.nextSnapshot(0, nil)) }); n > 0 {
		t.Errorf("%v allocations for each", n)
	}
	left := q.Len()
	q.finishSnapshot(all[len(all)-1])
	q.finishSnapshot(all[0]) // it is gone already, and sealed
	if q.Len() != left-1 || q.nextSnapshot(0, nil) != all[len(all)-left] {
		t.Errorf("%d are left, or others", q.Len())
	}
}

type fakeCatalogue struct{ removed atomic.Bool }

func (c *fakeCatalogue) TurnSemaphore(uint32) *semaphore.Weighted       { return semaphore.NewWeighted(1) }
func (c *fakeCatalogue) NeedsSeal(*catalogue.Snapshot) (string, bool)   { return "", !c.removed.Load() }
func (c *fakeCatalogue) SetSealed(*catalogue.Snapshot, cas.Hash, int64) {}

// TestMainFirst: main's snapshots have a loop of their own, whatever forks have.
func TestMainFirst(t *testing.T) {
	q := NewSealer(SealerParts{})
	fork, main := &catalogue.Snapshot{SealedSignal: make(chan struct{})}, &catalogue.Snapshot{SealedSignal: make(chan struct{})}
	fork.WS, main.WS = live.MainView+1, live.MainView
	q.Push(fork)
	q.Push(main)
	if q.nextSnapshot(0, nil) != main || q.nextSnapshot(1, nil) != fork || q.nextSnapshot(0, main) != main {
		t.Error("they wait for each other")
	}
	for i, signal := range q.signals {
		select {
		case <-signal:
		default:
			t.Errorf("loop %d was not woken", i)
		}
	}
}

// TestSealEndsWithItsSnapshot: a seal is cancelled when its snapshot is removed.
func TestSealEndsWithItsSnapshot(t *testing.T) {
	c := new(fakeCatalogue)
	q := NewSealer(SealerParts{Catalogue: c})
	sealing, stop := q.neededContext(context.Background(), &catalogue.Snapshot{})
	defer stop()
	if sealing.Err() != nil {
		t.Error("it has ended already")
	}
	c.removed.Store(true)
	await.Receive(t, "the seal ends", sealing.Done())
}

// TestGaveWay: snapshots of a workspace whose seal gave way come behind those of others, in
// their order.
func TestGaveWay(t *testing.T) {
	q := NewSealer(SealerParts{})
	var all []*catalogue.Snapshot
	for _, ws := range []uint32{2, 3, 2, 4} {
		sn := &catalogue.Snapshot{WS: ws, SealedSignal: make(chan struct{})}
		all = append(all, sn)
		q.Push(sn)
	}
	q.delayRetry(all[0])
	q.requeue(all[0], 5)
	q.requeue(all[0], 6)
	if all[0].AddedBytes != 11 {
		t.Errorf("%d bytes were added", all[0].AddedBytes)
	}
	for i, want := range []*catalogue.Snapshot{all[1], all[3], all[0], all[2]} {
		if got := q.nextSnapshot(1, nil); got != want {
			t.Errorf("%d: workspace %d", i, got.WS)
		}
		q.finishSnapshot(q.nextSnapshot(1, nil))
	}
}

// TestLimit: a context ends when its seals have done too much.
func TestLimit(t *testing.T) {
	cause := errors.New("enough")
	ctx, stop := WithByteLimit(t.Context(), 100, cause)
	defer stop()
	q := NewSealer(SealerParts{Puts: new(loops.Barrier), Pacer: new(Pacer), Source: new(tree.Source)})
	for i, over := range []bool{false, false, true} {
		q.newTurnSealer(ctx, nil).Spend(50)
		if got := errors.Is(context.Cause(ctx), cause); got != over {
			t.Errorf("after %d: %v", i+1, got)
		}
	}
}
