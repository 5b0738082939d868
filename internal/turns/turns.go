// Package turns shares a few processors between computations that take long.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// slice is how long a computation runs while others wait.
	slice = 10 * time.Millisecond
	// lease is how long a turn lasts that is not given up. Its computation waits for something
	// else then, perhaps for another one that waits for a turn.
	lease = 250 * time.Millisecond
)

// Turns lets a few computations run at a time. The one that waits longest is next, by turns
// of those that come first and of all others.
type Turns struct {
	mu      sync.Mutex
	free    int
	running []*turn
	waiting [2][]*turn // by turn.first
	last    int        // the line that a turn was given to last
}

func New(atOnce int) *Turns { return &Turns{free: atOnce} }

type turn struct {
	of    *Turns
	first int
	began time.Time     // under of.mu
	ready chan struct{} // closed when it is its turn
}

type (
	key      struct{}
	firstKey struct{}
)

// First makes Do wait in a line of its own, which few are in.
func First(ctx context.Context) context.Context { return context.WithValue(ctx, firstKey{}, 1) }

// Do runs fn when it is its turn. The error is that of ctx or of fn, whose context makes
// Yield give way to others. Within fn, another Do is part of the turn.
func (t *Turns) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if mine, ok := ctx.Value(key{}).(*turn); ok && mine.of == t {
		return fn(ctx)
	}
	mine := &turn{of: t}
	mine.first, _ = ctx.Value(firstKey{}).(int)
	if err := mine.take(ctx); err != nil {
		return err
	}
	defer mine.give()
	return fn(context.WithValue(ctx, key{}, mine))
}

// Yield ends the caller's turn for those that wait, if it has lasted long enough, and
// waits for another one. Without a turn it does nothing. The error is that of ctx.
func Yield(ctx context.Context) error {
	if mine, ok := ctx.Value(key{}).(*turn); ok && mine.over() {
		mine.give()
		_ = mine.take(context.WithoutCancel(ctx)) // Do gives it up, also when ctx has ended
	}
	return ctx.Err()
}

func (w *turn) over() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return time.Since(w.began) >= slice
}

// take waits for a turn.
func (w *turn) take(ctx context.Context) error {
	t := w.of
	w.ready = make(chan struct{})
	t.mu.Lock()
	t.waiting[w.first] = append(t.waiting[w.first], w)
	t.nextLocked()
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
			i := slices.Index(t.waiting[w.first], w)
			if i >= 0 {
				t.waiting[w.first] = slices.Delete(t.waiting[w.first], i, i+1)
			}
			t.mu.Unlock()
			if i < 0 { // it was given at the same time
				w.give()
			}
			return ctx.Err()
		}
	}
}

// give ends a turn, unless it has expired.
func (w *turn) give() {
	t := w.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.running, w); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
		t.free++
		t.nextLocked()
	}
}

func (t *Turns) expireLocked() {
	had := len(t.running)
	t.running = slices.DeleteFunc(t.running, func(w *turn) bool { return time.Since(w.began) >= lease })
	t.free += had - len(t.running)
	t.nextLocked()
}

func (t *Turns) nextLocked() {
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
