// Package budget limits the memory that many requests use together, and shares it fairly between
// tenants.
package budget

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
)

// A Budget is the share of one tenant in a pool of memory. A request reserves memory before it uses it,
// and waits while other requests have reserved too much. The nil Budget has no bounds.
type Budget struct {
	pool   *pool
	tenant any
}

// New returns a budget with a new pool of size bytes, for the tenant nil.
func New(size int64) *Budget { return &Budget{pool: &pool{size: size, takenBy: make(map[any]int64)}} }

// WithNewPool returns a budget with another pool of the same size.
func (b *Budget) WithNewPool() *Budget {
	if b == nil {
		return nil
	}
	return New(b.pool.size)
}

// ForTenant returns the budget of a tenant, with the same pool. No tenant can reserve the whole pool.
func (b *Budget) ForTenant(tenant any) *Budget {
	if b == nil {
		return nil
	}
	return &Budget{b.pool, tenant}
}

// Fits reports whether a tenant could reserve bytes if there were no other requests.
func (b *Budget) Fits(bytes int64) bool { return b == nil || bytes <= b.pool.maxPerTenant() }

// Take waits until bytes can be reserved, and reserves them. If bytes are more than one tenant can have, it reserves
// as many as one tenant can have. The caller must call release. The error is the error of ctx.
func (b *Budget) Take(ctx context.Context, bytes int64) (release func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	bytes = min(bytes, b.pool.maxPerTenant())
	if err := b.pool.take(ctx, b.tenant, bytes, false); err != nil {
		return nil, err
	}

	return func() { b.pool.release(b.tenant, bytes, false) }, nil
}

// chargeStep is the number of bytes that a Charge reserves at a time.
const chargeStep = 1 << 20

// A Charge is the growing reservation of one request, which does not know beforehand how much memory it
// needs. It is not safe for concurrent use. The nil Charge has no bounds.
type Charge struct {
	budget    *Budget
	used      int64 // bytes that the request uses
	reserved  int64 // bytes that are reserved in the pool
	tryFailed bool  // a call of TryAdd failed
	unlimited bool  // RemoveLimit was called: the charge has no bounds
}

// NewCharge returns a charge without reserved memory. The caller calls Release.
func (b *Budget) NewCharge() *Charge {
	if b == nil {
		return nil
	}
	return &Charge{budget: b}
}

// Add reserves further bytes. The first call waits until chargeStep bytes are free. Later calls do not wait, and fail
// with errs.Quota if chargeStep bytes are not free: if two requests with reserved memory waited, they could wait for
// each other.
func (c *Charge) Add(ctx context.Context, bytes int64) error {
	if c == nil {
		return nil
	}
	p := c.budget.pool

	for c.used += bytes; c.used > c.reserved && !c.unlimited; {
		n := min(chargeStep, p.maxPerTenant())
		if c.reserved == 0 {
			if err := p.take(ctx, c.budget.tenant, n, false); err != nil {
				return err
			}
		} else if !p.tryTake(c.budget.tenant, n) {
			return errs.New(errs.Quota, "limit reached: this takes more than is left of %d MiB; name paths, to have it in parts", p.size>>20)
		}

		c.reserved += n
	}

	return nil
}

// TryAdd reserves further bytes without waiting, chargeStep bytes at a time. The first chargeStep bytes need no
// reservation. TryAdd fails with errs.Quota if chargeStep bytes are not free, unless RemoveLimit was called.
func (c *Charge) TryAdd(bytes int64) error {
	if c == nil {
		return nil
	}
	p := c.budget.pool
	for c.used += bytes; c.used > c.reserved+chargeStep && !c.unlimited; c.reserved += chargeStep {
		if !p.tryTake(c.budget.tenant, chargeStep) {
			c.tryFailed = true
			return errs.New(errs.Quota, "limit reached: others take what is left of %d MiB", p.size>>20)
		}
	}

	return nil
}

// TryFailed reports whether a call of TryAdd has failed since the last call of RemoveLimit.
func (c *Charge) TryFailed() bool { return c != nil && c.tryFailed }

// RemoveLimit removes the bounds of the charge. It releases the reserved memory and waits until the tenant has
// no other memory reserved, and no other charge of the pool is without bounds.
func (c *Charge) RemoveLimit(ctx context.Context) error {
	c.Release()
	if err := c.budget.pool.take(ctx, c.budget.tenant, 0, true); err != nil {
		return err
	}
	c.unlimited = true
	return nil
}

// Release gives the memory of the charge back. The charge can then be used again. Release may be called
// twice.
func (c *Charge) Release() {
	if c != nil {
		c.budget.pool.release(c.budget.tenant, c.reserved, c.unlimited)
		*c = Charge{budget: c.budget}
	}
}

// maxUsedPerFree limits a grant: after it, the tenant may have at most maxUsedPerFree times the memory that is still
// free. So a single tenant gets at most three quarters of the pool, and a quarter is left for a second tenant.
const maxUsedPerFree = 3

// A pool is the memory of the budgets of all tenants. A request waits if too little is free. The waiting
// request of the tenant with the least memory is granted first. If two tenants have the same amount,
// the request whose tenant had less when it began to wait comes first.
type pool struct {
	size int64

	mu        sync.Mutex
	taken     int64
	takenBy   map[any]int64 // by tenant
	waiting   []*waiter
	unlimited bool // a Charge without bounds exists
}

// A waiter is a request for memory or, if unlimited is set, a request to have no bounds.
type waiter struct {
	tenant    any
	bytes     int64
	unlimited bool
	granted   chan struct{} // closed when the request is granted
}

// maxPerTenant returns the number of bytes that a tenant can have while no other tenant has memory.
func (p *pool) maxPerTenant() int64 { return p.size / (maxUsedPerFree + 1) * maxUsedPerFree }

// fitsLocked reports whether a request can be granted now.
func (p *pool) fitsLocked(w *waiter) bool {
	if w.unlimited {
		return !p.unlimited && p.takenBy[w.tenant] == 0
	}
	free := p.size - p.taken - w.bytes
	return free >= 0 && p.takenBy[w.tenant]+w.bytes <= maxUsedPerFree*free
}

func (p *pool) grantLocked(w *waiter) {
	p.taken += w.bytes
	p.takenBy[w.tenant] += w.bytes
	p.unlimited = p.unlimited || w.unlimited
}

// tryTake reserves bytes if they are free.
func (p *pool) tryTake(tenant any, bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	w := &waiter{tenant: tenant, bytes: bytes}
	if !p.fitsLocked(w) {
		return false
	}

	p.grantLocked(w)

	return true
}

// take waits for bytes or, if unlimited is set, until no other Charge is without bounds.
func (p *pool) take(ctx context.Context, tenant any, bytes int64, unlimited bool) error {
	w := &waiter{tenant, bytes, unlimited, make(chan struct{})}
	p.mu.Lock()
	position := slices.IndexFunc(p.waiting, func(o *waiter) bool { return p.takenBy[o.tenant] > p.takenBy[tenant] })
	if position < 0 {
		position = len(p.waiting)
	}

	p.waiting = slices.Insert(p.waiting, position, w)
	p.grantAllLocked()
	p.mu.Unlock()

	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}

	// The request is canceled, but it may have been granted before p.mu was locked.
	p.mu.Lock()
	defer p.mu.Unlock()

	i := slices.Index(p.waiting, w)
	if i < 0 {
		return nil
	}

	p.waiting = slices.Delete(p.waiting, i, i+1)
	p.grantAllLocked()

	return ctx.Err()
}

func (p *pool) release(tenant any, bytes int64, unlimited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.taken -= bytes
	if p.takenBy[tenant] -= bytes; p.takenBy[tenant] == 0 {
		delete(p.takenBy, tenant)
	}

	p.unlimited = p.unlimited && !unlimited
	p.grantAllLocked()
}

// grantAllLocked grants all requests that fit, in the order that the comment of pool describes.
func (p *pool) grantAllLocked() {
	for p.grantOneLocked() {
	}
}

// grantOneLocked grants the next request that fits, and reports whether there was one. It skips a request
// that does not fit if its tenant has memory, or if it is a request for no bounds. It does not skip the
// first request of a tenant: otherwise many small requests could keep a large one waiting.
func (p *pool) grantOneLocked() bool {
	order := slices.Clone(p.waiting)
	slices.SortStableFunc(order, func(a, b *waiter) int { return cmp.Compare(p.takenBy[a.tenant], p.takenBy[b.tenant]) })

	for _, next := range order {
		if p.fitsLocked(next) {
			p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool { return w == next })
			p.grantLocked(next)
			close(next.granted)
			return true
		}
		if !next.unlimited && p.takenBy[next.tenant] == 0 {
			return false
		}
	}

	return false
}
