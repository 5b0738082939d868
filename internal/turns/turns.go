// Package turns shares a few processors fairly between tenants.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slice is how long a computation goes on while another tenant waits.
const slice = 10 * time.Millisecond

// Turns lets a few computations run at a time. Tenants that wait take turns: each
// release goes to the tenant that waited longest since its last turn, however many
// computations another tenant has queued.
type Turns struct {
	mu      sync.Mutex
	free    int
	waiting []*queue // the tenant whose turn is next comes first
}

// A queue is the computations of one tenant that wait.
type queue struct {
	tenant any
	ready  []chan struct{}
}

// New returns turns of which so many are taken at a time.
func New(atOnce int) *Turns { return &Turns{free: atOnce} }

// A turn is what a computation holds while it runs.
type turn struct {
	of     *Turns
	tenant any
	began  time.Time
}

type key struct{}

// Do runs fn when it is the tenant's turn. The error is that of ctx or of fn, whose
// context makes Yield give way to others.
func (t *Turns) Do(ctx context.Context, tenant any, fn func(ctx context.Context) error) error {
	mine := &turn{of: t, tenant: tenant}
	if err := mine.take(ctx); err != nil {
		return err
	}
	defer t.release()
	// Yield takes a turn again even when ctx has ended, so there is always one to release.
	return fn(context.WithValue(ctx, key{}, mine))
}

// Yield lets another tenant have its turn if the caller's has lasted long enough. Without
// a turn it does nothing. The error is that of ctx.
func Yield(ctx context.Context) error {
	if mine, ok := ctx.Value(key{}).(*turn); ok && time.Since(mine.began) >= slice {
		if mine.of.othersWait(mine.tenant) {
			mine.of.release()
			_ = mine.take(context.WithoutCancel(ctx)) // cannot fail
		}
		mine.began = time.Now()
	}
	return ctx.Err()
}

func (m *turn) take(ctx context.Context) error {
	err := m.of.take(ctx, m.tenant)
	m.began = time.Now()
	return err
}

func (t *Turns) othersWait(tenant any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.waiting, func(q *queue) bool { return q.tenant != tenant })
}

func (t *Turns) take(ctx context.Context, tenant any) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	t.queueLocked(tenant, ready)
	t.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaveLocked(ready) {
		return ctx.Err()
	}
	return nil // the turn came at the same time
}

func (t *Turns) queueLocked(tenant any, ready chan struct{}) {
	for _, q := range t.waiting {
		if q.tenant == tenant {
			q.ready = append(q.ready, ready)
			return
		}
	}
	t.waiting = append(t.waiting, &queue{tenant, []chan struct{}{ready}})
}

func (t *Turns) leaveLocked(ready chan struct{}) bool {
	for i, q := range t.waiting {
		if at := slices.Index(q.ready, ready); at >= 0 {
			if q.ready = slices.Delete(q.ready, at, at+1); len(q.ready) == 0 {
				t.waiting = slices.Delete(t.waiting, i, i+1)
			}
			return true
		}
	}
	return false
}

// release hands a turn to the next tenant, which then goes to the end of the line.
func (t *Turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	q := t.waiting[0]
	t.waiting = t.waiting[1:]
	close(q.ready[0])
	if q.ready = q.ready[1:]; len(q.ready) > 0 {
		t.waiting = append(t.waiting, q)
	}
}
