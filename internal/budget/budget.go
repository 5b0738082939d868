// Package budget bounds the memory that many together take.
package budget

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/internal/errs"
)

// A Budget is an amount of memory of which each takes what it needs, and waits when
// others have it. The nil Budget has no bounds.
type Budget struct {
	size  int64
	taken *semaphore.Weighted
}

// New returns a budget of so many bytes.
func New(size int64) *Budget { return &Budget{size, semaphore.NewWeighted(size)} }

// Holds reports whether so many bytes could ever be taken.
func (b *Budget) Holds(bytes int64) bool { return b == nil || bytes <= b.size }

// Take waits until so many bytes can be taken; of more than Holds has found possible,
// all there are. release gives them back. The error is that of ctx.
func (b *Budget) Take(ctx context.Context, bytes int64) (release func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	bytes = min(bytes, b.size)
	if err := b.taken.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { b.taken.Release(bytes) }, nil
}

// step is what a Charge takes at a time, in bytes.
const step = 1 << 20

// A Charge is what one request takes of a budget, of which it does not know beforehand
// how much that will be. It is not safe for concurrent use. The nil Charge is without
// bounds.
type Charge struct {
	of         *Budget
	used, held int64
	full       bool // Try found too little
	all        bool // it has the whole budget
}

// Charge begins with nothing.
func (b *Budget) Charge() *Charge {
	if b == nil {
		return nil
	}
	return &Charge{of: b}
}

// Add takes so many bytes more. The first ones are waited for; beyond, an errs.Quota
// tells that there are no more, because two that wait while they have some could wait
// for each other.
func (c *Charge) Add(ctx context.Context, bytes int64) error {
	if c == nil {
		return nil
	}
	for c.used += bytes; c.used > c.held && !c.all; {
		n := min(step, c.of.size)
		if c.held == 0 {
			if err := c.of.taken.Acquire(ctx, n); err != nil {
				return err
			}
		} else if !c.of.taken.TryAcquire(n) {
			return errs.New(errs.Quota, "limit reached: this takes more than the %d MiB that are for it; name paths, to have it in parts", c.of.size>>20)
		}
		c.held += n
	}
	return nil
}

// Try takes so many bytes more without waiting; the first step is free, so that what is
// small waits for nobody. Once it has failed, as an errs.Quota, it can be tried again
// after All.
func (c *Charge) Try(bytes int64) error {
	if c == nil {
		return nil
	}
	for c.used += bytes; c.used > c.held+step && !c.all; c.held += step {
		if !c.of.taken.TryAcquire(step) {
			c.full = true
			return errs.New(errs.Quota, "limit reached: others take what is left of %d MiB", c.of.size>>20)
		}
	}
	return nil
}

// Full reports whether a Try has failed, since All if that was called.
func (c *Charge) Full() bool { return c != nil && c.full }

// All gives everything back and waits for the whole budget. From then on there is no
// bound: nobody else has any of it.
func (c *Charge) All(ctx context.Context) error {
	c.Release()
	if err := c.of.taken.Acquire(ctx, c.of.size); err != nil {
		return err
	}
	c.held, c.all = c.of.size, true
	return nil
}

// Release gives everything back.
func (c *Charge) Release() {
	if c != nil {
		c.of.taken.Release(c.held)
		*c = Charge{of: c.of}
	}
}
