package budget

import (
	"context"
	"slices"
	"sync"
)

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

// give returns what was taken.
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

// nextLocked lets the requests go on that may, of the tenants with the least first.
func (p *pool) nextLocked() {
	for len(p.waiting) > 0 {
		next := slices.MinFunc(p.waiting, func(a, b *waiter) int { return int(p.of[a.tenant] - p.of[b.tenant]) })
		if !p.mayLocked(next) {
			return
		}
		p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool { return w == next })
		p.grantLocked(next)
		close(next.ready)
	}
}
