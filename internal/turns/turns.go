// Package turns shares a few processors between computations that take long.
package turns

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// slice is how long a computation runs while others wait.
const slice = 10 * time.Millisecond

// Turns lets a few computations run at a time. The one that waits longest is next.
type Turns struct{ free *semaphore.Weighted }

func New(atOnce int) *Turns { return &Turns{semaphore.NewWeighted(int64(atOnce))} }

type turn struct {
	*Turns
	began time.Time
}

type key struct{}

// Do runs fn when it is its turn. The error is that of ctx or of fn, whose context makes
// Yield give way to others.
func (t *Turns) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if err := t.free.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.free.Release(1)
	return fn(context.WithValue(ctx, key{}, &turn{t, time.Now()}))
}

// Yield ends the caller's turn for those that wait, if it has lasted long enough, and
// waits for another one. Without a turn it does nothing. The error is that of ctx.
func Yield(ctx context.Context) error {
	if mine, ok := ctx.Value(key{}).(*turn); ok && time.Since(mine.began) >= slice {
		mine.free.Release(1)
		_ = mine.free.Acquire(context.WithoutCancel(ctx), 1) // Do releases it, also when ctx has ended
		mine.began = time.Now()
	}
	return ctx.Err()
}
