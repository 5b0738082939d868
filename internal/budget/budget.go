// Package budget bounds the memory that many requests take together, and shares it fairly
// between tenants.
package budget

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
)

// A Budget is an amount of memory from which each request takes what it needs. Requests
// wait while others have it. The nil Budget has no bounds.
type Budget struct {
	pool   *pool
	tenant any
}

func New(size int64) *Budget { return &Budget{pool: &pool{size: size, of: make(map[any]int64)}} }

// Another returns a budget of the same size.
func (b *Budget) Another() *Budget {
	if b == nil {
		return nil
	}
	return New(b.pool.size)
}

// Of returns the budget for a tenant, which leaves a part to the others.
func (b *Budget) Of(tenant any) *Budget {
	if b == nil {
		return nil
	}
	return &Budget{b.pool, tenant}
}

// Holds reports whether so many bytes could ever be taken.
func (b *Budget) Holds(bytes int64) bool { return b == nil || bytes <= b.pool.most() }

// Take waits until so many bytes can be taken; if Holds is false for them, as many as one
// tenant can have. release gives them back. The error is that of ctx.
func (b *Budget) Take(ctx context.Context, bytes int64) (release func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	bytes = min(bytes, b.pool.most())
	if err := b.pool.take(ctx, b.tenant, bytes, false); err != nil {
		return nil, err
	}
	return func() { b.pool.give(b.tenant, bytes, false) }, nil
}

// step is what a Charge takes at a time, in bytes.
const step = 1 << 20

// A Charge is what one request takes of a budget, when it is not known beforehand how much
// that will be. It is not safe for concurrent use. The nil Charge is without bounds.
type Charge struct {
	of         *Budget
	used, held int64
	full       bool // Try found too little
	all        bool // it is without bounds
}

func (b *Budget) Charge() *Charge {
	if b == nil {
		return nil
	}
	return &Charge{of: b}
}

// Add takes so many bytes more. It waits for the first ones. Beyond, it fails with an
// errs.Quota if there are no more, because two requests that wait while they have some
// could wait for each other.
func (c *Charge) Add(ctx context.Context, bytes int64) error {
	if c == nil {
		return nil
	}
	p := c.of.pool
	for c.used += bytes; c.used > c.held && !c.all; {
		n := min(step, p.most())
		if c.held == 0 {
			if err := p.take(ctx, c.of.tenant, n, false); err != nil {
				return err
			}
		} else if !p.try(c.of.tenant, n) {
			return errs.New(errs.Quota, "limit reached: this takes more than is left of %d MiB; name paths, to have it in parts", p.size>>20)
		}
		c.held += n
	}
	return nil
}

// Try takes so many bytes more without waiting; the first step is free. Errors: errs.Quota,
// until All was called.
func (c *Charge) Try(bytes int64) error {
	if c == nil {
		return nil
	}
	p := c.of.pool
	for c.used += bytes; c.used > c.held+step && !c.all; c.held += step {
		if !p.try(c.of.tenant, step) {
			c.full = true
			return errs.New(errs.Quota, "limit reached: others take what is left of %d MiB", p.size>>20)
		}
	}
	return nil
}

// Full reports whether a Try has failed, since All if that was called.
func (c *Charge) Full() bool { return c != nil && c.full }

// All gives everything back and waits until it is the only Charge of its tenant, and the
// only one of all tenants that is without bounds. From then on this one is.
func (c *Charge) All(ctx context.Context) error {
	c.Release()
	if err := c.of.pool.take(ctx, c.of.tenant, 0, true); err != nil {
		return err
	}
	c.all = true
	return nil
}

func (c *Charge) Release() {
	if c != nil {
		c.of.pool.give(c.of.tenant, c.held, c.all)
		*c = Charge{of: c.of}
	}
}

// fraction of what is left after a grant that a tenant may have: one alone gets three
// quarters of the pool, and the next one finds a quarter free.
const fraction = 3

// A pool is what the budgets of all tenants take from. A tenant that finds too little
// waits. The tenant that has the least is next, and of two the one that had less when it
// began to wait.
type pool struct {
	size int64

	mu      sync.Mutex
	taken   int64
	of      map[any]int64 // what each tenant has taken
	waiting []*waiter
	all     bool // some Charge is without bounds
}

type waiter struct {
	tenant any
	bytes  int64
	all    bool
	ready  chan struct{}
}

// most is how much one tenant can have when there is no other.
func (p *pool) most() int64 { return p.size / (fraction + 1) * fraction }

func (p *pool) mayLocked(w *waiter) bool {
	if w.all {
		return !p.all && p.of[w.tenant] == 0
	}
	left := p.size - p.taken - w.bytes
	return left >= 0 && p.of[w.tenant]+w.bytes <= fraction*left
}

func (p *pool) grantLocked(w *waiter) {
	p.taken += w.bytes
	p.of[w.tenant] += w.bytes
	p.all = p.all || w.all
}

// try takes bytes if they are there.
func (p *pool) try(tenant any, bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{tenant: tenant, bytes: bytes}
	if !p.mayLocked(w) {
		return false
	}
	p.grantLocked(w)
	return true
}

// take waits for bytes or, if all, until no other Charge is without bounds.
func (p *pool) take(ctx context.Context, tenant any, bytes int64, all bool) error {
	w := &waiter{tenant, bytes, all, make(chan struct{})}
	p.mu.Lock()
	at := slices.IndexFunc(p.waiting, func(o *waiter) bool { return p.of[o.tenant] > p.of[tenant] })
	if at < 0 {
		at = len(p.waiting)
	}
	p.waiting = slices.Insert(p.waiting, at, w)
	p.nextLocked()
	p.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 {
		return nil // it was granted at the same time
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	p.nextLocked()
	return ctx.Err()
}

func (p *pool) give(tenant any, bytes int64, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= bytes
	if p.of[tenant] -= bytes; p.of[tenant] == 0 {
		delete(p.of, tenant)
	}
	p.all = p.all && !all
	p.nextLocked()
}

// nextLocked lets the requests go on that may, of the tenants with the least first. One that
// waits for its own tenant, or for another to be without bounds, holds up none behind it. One
// of a tenant that has nothing does: else small requests could keep a large one waiting.
func (p *pool) nextLocked() {
	for p.grantOneLocked() {
	}
}

func (p *pool) grantOneLocked() bool {
	order := slices.Clone(p.waiting)
	slices.SortStableFunc(order, func(a, b *waiter) int { return cmp.Compare(p.of[a.tenant], p.of[b.tenant]) })
	for _, next := range order {
		if p.mayLocked(next) {
			p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool { return w == next })
			p.grantLocked(next)
			close(next.ready)
			return true
		}
		if !next.all && p.of[next.tenant] == 0 {
			return false
		}
	}
	return false
}
