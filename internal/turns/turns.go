// Package turns shares a few processors among long computations.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// minTurn is the time after which Yield gives up a turn.
	minTurn = 10 * time.Millisecond
	// maxTurn is the time after which a turn expires. A computation that does not call Yield for this long may be
	// blocked by another one that waits for a turn. Without the expiry, both would wait forever.
	maxTurn = 250 * time.Millisecond
)

// Turns limits the number of computations that run at a time. Waiting computations are in two queues, one
// of them for contexts of WithFastQueue. The two queues get turns alternately. In each queue, the computation that
// has waited longest is next.
type Turns struct {
	mu        sync.Mutex
	free      int
	running   []*turn
	waiting   [2][]*turn // by turn.queue
	lastQueue int        // the queue that got the last turn
}

// New returns Turns for atOnce computations at a time.
func New(atOnce int) *Turns { return &Turns{free: atOnce} }

// A turn belongs to one computation, which can give it up and wait for it again.
type turn struct {
	turns *Turns
	queue int
	start time.Time     // guarded by turns.mu
	begun chan struct{} // closed when the turn begins
}

type (
	turnKey  struct{} // context key of the computation's turn
	queueKey struct{} // context key of the number of the queue
)

// WithFastQueue returns a context with which Do waits in the second queue. The queues get turns alternately, so this
// queue is the faster one if it has few computations.
func WithFastQueue(ctx context.Context) context.Context { return context.WithValue(ctx, queueKey{}, 1) }

// Do waits for a turn, runs fn in it and returns the error of fn. If ctx ends before the turn begins, Do returns the
// error of ctx. fn calls Yield with its context from time to time. A Do within fn is part of the turn.
func (t *Turns) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if current, ok := ctx.Value(turnKey{}).(*turn); ok && current.turns == t {
		return fn(ctx)
	}

	current := &turn{turns: t}
	current.queue, _ = ctx.Value(queueKey{}).(int)
	if err := current.wait(ctx); err != nil {
		return err
	}
	defer current.giveUp()

	return fn(context.WithValue(ctx, turnKey{}, current))
}

// Yield gives up the turn in ctx if it has lasted minTurn, and waits for the next one. Without a turn
// it does nothing. It returns the error of ctx.
func Yield(ctx context.Context) error {
	if current, ok := ctx.Value(turnKey{}).(*turn); ok && current.isOver() {
		current.giveUp()
		_ = current.wait(context.WithoutCancel(ctx)) // not canceled with ctx, so that the caller has a turn when Yield returns
	}
	return ctx.Err()
}

func (w *turn) isOver() bool {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	return time.Since(w.start) >= minTurn
}

// wait waits until the turn begins. While it waits, it ends the expired turns of other computations.
func (w *turn) wait(ctx context.Context) error {
	t := w.turns
	w.begun = make(chan struct{})
	t.mu.Lock()
	t.waiting[w.queue] = append(t.waiting[w.queue], w)
	t.startLocked()
	t.mu.Unlock()
	expired := time.NewTicker(maxTurn)
	defer expired.Stop()

	for {
		select {
		case <-w.begun:
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

// expireLocked ends the turns that have lasted maxTurn.
func (t *Turns) expireLocked() {
	before := len(t.running)
	t.running = slices.DeleteFunc(t.running, func(w *turn) bool { return time.Since(w.start) >= maxTurn })
	t.free += before - len(t.running)
	t.startLocked()
}

// startLocked starts turns while there are free ones and computations that wait.
func (t *Turns) startLocked() {
	for t.free > 0 && len(t.waiting[0])+len(t.waiting[1]) > 0 {
		if t.lastQueue = 1 - t.lastQueue; len(t.waiting[t.lastQueue]) == 0 {
			t.lastQueue = 1 - t.lastQueue
		}

		w := t.waiting[t.lastQueue][0]
		t.waiting[t.lastQueue] = t.waiting[t.lastQueue][1:]
		w.start = time.Now()
		t.running = append(t.running, w)
		t.free--
		close(w.begun)
	}
}
