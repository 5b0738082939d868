package engine

import (
	"context"
	"sync/atomic"
)

type limitKey struct{}

// A limit ends a context when the seals that use it have processed a number of bytes.
type limit struct {
	bytesLeft atomic.Int64
	cancel    func()
}

// WithLimit returns a context that ends with the given cause when the seals with this context have
// processed the given number of bytes.
func WithLimit(ctx context.Context, bytes int64, cause error) (limited context.Context, stop func()) {
	limited, cancel := context.WithCancelCause(ctx)
	l := &limit{cancel: func() { cancel(cause) }}
	l.bytesLeft.Store(bytes)
	return context.WithValue(limited, limitKey{}, l), func() { cancel(nil) }
}

func limitOf(ctx context.Context) *limit {
	l, _ := ctx.Value(limitKey{}).(*limit)
	return l
}

func (l *limit) spend(n int64) {
	if l != nil && l.bytesLeft.Add(-n) < 0 {
		l.cancel()
	}
}
