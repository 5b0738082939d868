package control

import (
	"container/list"
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot"
)

const (
	// maxRenderings is how many files of main are rendered at a time, or of a fork
	// whose policy has no limit; maxCommands is how many commands of a tenant that may
	// take long run.
	maxRenderings = 4
	maxCommands   = 16
	// maxWaiting is how many more requests of each kind may wait.
	maxWaiting = 60
)

// A tenant is what shares limits: a fork of main with all forks of its own, or main.
type tenant struct {
	renderings, commands *limiter
	waiting              atomic.Int64 // requests that wait for a rendering of another one

	// Its part of the cache, which Tree.mu guards.
	limit    int64
	bytes    int64      // of the nodes, and reserved
	reserved int64      // for contents that are being written
	nodes    *list.List // of *node, the one that was used last first
}

// A limiter lets a few requests run at a time.
type limiter struct {
	most    int64
	slots   *semaphore.Weighted
	waiting atomic.Int64
}

func newLimiter(most int) *limiter {
	return &limiter{most: int64(most), slots: semaphore.NewWeighted(int64(most))}
}

// take waits for a slot. Its error is an errs.Quota when too many requests wait.
func (l *limiter) take(ctx context.Context) error {
	if l.slots.TryAcquire(1) {
		return nil
	}
	if err := enter(&l.waiting); err != nil {
		return err
	}
	defer l.waiting.Add(-1)
	return l.slots.Acquire(ctx, 1)
}

func (l *limiter) done() { l.slots.Release(1) }

// enter counts a request that is going to wait.
func enter(waiting *atomic.Int64) error {
	if waiting.Add(1) > maxWaiting {
		waiting.Add(-1)
		return errs.New(errs.Quota, "limit reached: %d requests of this kind are waiting already", maxWaiting)
	}
	return nil
}

func (t *Tree) tenantLocked(ws *snapshot.Workspace) *tenant {
	ws = ws.Tenant()
	k, ok := t.mu.tenants[ws.View()]
	if !ok {
		k = &tenant{renderings: newLimiter(maxRenderings), commands: newLimiter(maxCommands), limit: t.limits.main, nodes: list.New()}
		if ws.IsFork() {
			k.limit = t.limits.fork
		}
		t.mu.tenants[ws.View()] = k
	}
	return k
}

func (t *Tree) tenant(ws *snapshot.Workspace) *tenant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dirLocked(ws).tenant
}

// renderings limits the renderings of a workspace: in a fork to as many at a time as
// the policy of main says.
func (t *Tree) renderings(ws *snapshot.Workspace) *limiter {
	most := maxRenderings
	if n := t.store.Main().Policy().Forks.Renderings; ws.IsFork() && n > 0 {
		most = n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.dirLocked(ws).tenant
	if k.renderings.most != int64(most) { // those that run keep the old one
		k.renderings = newLimiter(most)
	}
	return k.renderings
}

// limited runs fn when the limiter lets it. Meanwhile the kernel's other requests are
// answered. fn's context ends when the caller is killed.
func (t *Tree) limited(l *limiter, r Request, fn func(ctx context.Context) error) (err error) {
	ctx, stop := r.Context()
	defer stop()
	t.Kernel.Blocking(func() {
		if err = l.take(ctx); err == nil {
			defer l.done()
			err = fn(ctx)
		}
	})
	return err
}

// compute runs what keeps a processor busy: within the limit of its tenant, and in turn
// with that of others.
func (t *Tree) compute(ws *snapshot.Workspace, r Request, fn func(ctx context.Context) error) error {
	return t.limited(t.renderings(ws), r, func(ctx context.Context) error {
		if !ws.IsFork() {
			ctx = turns.First(ctx)
		}
		return t.Service.Turns.Do(ctx, fn)
	})
}
