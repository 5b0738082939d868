package control

import (
	"container/list"
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

const (
	// maxRenderings limits how many files of a tenant are rendered at the same time. The policy of main can set
	// a different limit for forks.
	maxRenderings = 4
	// maxCommands limits how many commands of a tenant run at the same time.
	maxCommands = 16
	// maxWaitingRequests limits how many requests of a tenant wait for renderings. The same limit holds for
	// requests that wait to run a command.
	maxWaitingRequests = 60
)

// A tenant is main, or a fork of main with all forks in it, which share limits.
type tenant struct {
	renderings, commands *limiter
	waiting              atomic.Int64 // the number of requests that wait for a rendering that another request has started

	// The tenant's part of the cache, which cache.mu guards.
	maxBytes      int64
	chargedBytes  int64      // the bytes of the nodes, plus reservedBytes
	reservedBytes int64      // bytes for contents that are being written
	nodes         *list.List // the elements are nodes; the most recently used node is the first
}

// A limiter lets a few requests run at a time.
type limiter struct {
	limit   int64
	sem     *semaphore.Weighted
	waiting atomic.Int64
}

func newLimiter(limit int) *limiter {
	return &limiter{limit: int64(limit), sem: semaphore.NewWeighted(int64(limit))}
}

// acquire waits until the request may run. It fails with errs.Quota if too many requests wait.
func (l *limiter) acquire(ctx context.Context) error {
	if l.sem.TryAcquire(1) {
		return nil
	}
	if err := countWaiting(&l.waiting); err != nil {
		return err
	}
	defer l.waiting.Add(-1)

	return l.sem.Acquire(ctx, 1)
}

func (l *limiter) release() { l.sem.Release(1) }

// countWaiting counts one more waiting request. It fails with errs.Quota if there are too many.
func countWaiting(waiting *atomic.Int64) error {
	if waiting.Add(1) > maxWaitingRequests {
		waiting.Add(-1)
		return errs.New(errs.Quota, "limit reached: %d requests of this kind are waiting already", maxWaitingRequests)
	}
	return nil
}

// tenantLocked returns the tenant of a workspace, and creates it if there is none.
func (c *cache) tenantLocked(ws *snapshot.Workspace) *tenant {
	ws = ws.Tenant()
	k, ok := c.mu.tenants[ws.View()]
	if !ok {
		k = &tenant{renderings: newLimiter(maxRenderings), commands: newLimiter(maxCommands), maxBytes: c.limits.mainBytes, nodes: list.New()}
		if ws.IsFork() {
			k.maxBytes = c.limits.forkBytes
		}

		c.mu.tenants[ws.View()] = k
	}

	return k
}

func (c *cache) tenant(ws *snapshot.Workspace) *tenant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dirLocked(ws).tenant
}

// A queue runs operations when their tenant may run more of them.
type queue struct {
	cache  *cache
	kernel Kernel
	turns  *turns.Turns
}

// renderLimiter returns the limiter for renderings of a workspace. For a fork, the limit is the one in the
// policy of main, if that policy has one.
func (q *queue) renderLimiter(ws *snapshot.Workspace) *limiter {
	limit := maxRenderings
	if n := q.cache.store.Main().Policy().Forks.Renderings; ws.IsFork() && n > 0 {
		limit = n
	}

	q.cache.mu.Lock()
	defer q.cache.mu.Unlock()

	k := q.cache.dirLocked(ws).tenant
	// A new limiter is needed, because renderings that run now will release the old one.
	if k.renderings.limit != int64(limit) {
		k.renderings = newLimiter(limit)
	}

	return k.renderings
}

// runLimited waits for the limiter and calls fn. During the call, other goroutines answer the kernel. The
// context of fn ends when the caller is killed.
func (q *queue) runLimited(l *limiter, r Request, fn func(ctx context.Context) error) (err error) {
	ctx, stop := r.Context()
	defer stop()

	q.kernel.CallBlocking(func() {
		if err = l.acquire(ctx); err != nil {
			return
		}
		defer l.release()
		err = fn(ctx)
	})

	return err
}

// compute calls fn, which uses much processor time. Before the call it waits for the tenant's limiter for
// renderings, and then for its turn among the tenants. The tenant main has priority.
func (q *queue) compute(ws *snapshot.Workspace, r Request, fn func(ctx context.Context) error) error {
	return q.runLimited(q.renderLimiter(ws), r, func(ctx context.Context) error {
		if !ws.IsFork() {
			ctx = turns.WithFastQueue(ctx)
		}
		return q.turns.Do(ctx, fn)
	})
}

// run calls fn, which runs the operation of args in the service. It waits while too many operations of the tenant run,
// cheap ones or others. For an operation that is not cheap, the service then waits for its turn among the tenants.
func (q *queue) run(ws *snapshot.Workspace, r Request, args any, fn func(context.Context) error) error {
	if service.OpOf(args).CostOf(ws, args) == service.Cheap {
		return q.runLimited(q.cache.tenant(ws).commands, r, fn)
	}
	return q.runLimited(q.renderLimiter(ws), r, fn)
}
