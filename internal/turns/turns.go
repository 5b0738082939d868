// Package turns shares a few processors among long computations.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// slice is the time after which Yield gives up a turn.
	slice = 10 * time.Millisecond
	// lease is the time after which a turn expires. A computation that does not call Yield for this long
	// is blocked, perhaps by another computation that waits for a turn.
	lease = 250 * time.Millisecond
)

// Turns limits the number of computations that run at a time. Waiting computations are in two queues, one
// of them for contexts of First. The two queues get turns alternately. In each queue, the computation that
// has waited longest is next.
type Turns struct {
	mu      sync.Mutex
	free    int
	running []*turn
	waiting [2][]*turn // by turn.queue
	last    int        // the queue that got the last turn
}

// New returns Turns for atOnce computations at a time.
func New(atOnce int) *Turns { return &Turns{free: atOnce} }

// A turn is the turn of one computation, which it gives up and takes again.
type turn struct {
	turns *Turns
	queue int
	began time.Time     // guarded by turns.mu
	ready chan struct{} // closed when the turn begins
}

type (
	turnKey  struct{} // context key of the computation's turn
	queueKey struct{} // context key of the number of the queue
)

// First returns a context with which Do waits in the second queue. The queues get turns alternately, so this queue is
// the faster one if it has few computations.
func First(ctx context.Context) context.Context { return context.WithValue(ctx, queueKey{}, 1) }

// Do waits for a turn, runs fn in it and returns the error of fn. If ctx ends before, it returns the
// error of ctx. fn calls Yield with its context from time to time. A Do within fn is part of the turn.
func (t *Turns) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if mine, ok := ctx.Value(turnKey{}).(*turn); ok && mine.turns == t {
		return fn(ctx)
	}

	mine := &turn{turns: t}
	mine.queue, _ = ctx.Value(queueKey{}).(int)
	if err := mine.wait(ctx); err != nil {
		return err
	}
	defer mine.giveUp()

	return fn(context.WithValue(ctx, turnKey{}, mine))
}

// Yield gives up the turn in ctx if it has lasted a slice, and waits for the next one. Without a turn
// it does nothing. It returns the error of ctx.
func Yield(ctx context.Context) error {
	if mine, ok := ctx.Value(turnKey{}).(*turn); ok && mine.isOver() {
		mine.giveUp()
		_ = mine.wait(context.WithoutCancel(ctx)) // the caller has a turn after Yield in any case
	}
	return ctx.Err()
}

func (w *turn) isOver() bool {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	return time.Since(w.began) >= slice
}

// wait waits until the turn begins. While it waits, it ends the turns of others that have expired.
func (w *turn) wait(ctx context.Context) error {
	t := w.turns
	w.ready = make(chan struct{})
	t.mu.Lock()
	t.waiting[w.queue] = append(t.waiting[w.queue], w)
	t.startLocked()
	t.mu.Unlock()
	expired := time.NewTicker(lease)
	defer expired.Stop()

	for {
		select {
		case <-w.ready:
			return nil
		case <-expired.C:
			t.mu.Lock()
			t.expireLocked()
			t.mu.Unlock()
		case <-ctx.Done():
			t.mu.Lock()
			i := slices.Index(t.waiting[w.queue], w)
			if i >= 0 {
				t.waiting[w.queue] = slices.Delete(t.waiting[w.queue], i, i+1)
			}
			t.mu.Unlock()
			if i < 0 { // the turn began before t.mu was locked
				w.giveUp()
			}
			return ctx.Err()
		}
	}
}

// giveUp ends the turn, unless it has expired.
func (w *turn) giveUp() {
	t := w.turns
	t.mu.Lock()
	defer t.mu.Unlock()

	if i := slices.Index(t.running, w); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
		t.free++
		t.startLocked()
	}
}

// expireLocked ends the turns that are older than the lease.
func (t *Turns) expireLocked() {
	had := len(t.running)
	t.running = slices.DeleteFunc(t.running, func(w *turn) bool { return time.Since(w.began) >= lease })
	t.free += had - len(t.running)
	t.startLocked()
}

// startLocked starts turns while there are free ones and computations that wait.
func (t *Turns) startLocked() {
	for t.free > 0 && len(t.waiting[0])+len(t.waiting[1]) > 0 {
		if t.last = 1 - t.last; len(t.waiting[t.last]) == 0 {
			t.last = 1 - t.last
		}

		w := t.waiting[t.last][0]
		t.waiting[t.last] = t.waiting[t.last][1:]
		w.began = time.Now()
		t.running = append(t.running, w)
		t.free--
		close(w.ready)
	}
}
