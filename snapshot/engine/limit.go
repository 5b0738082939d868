package engine

import (
	"context"
	"sync/atomic"
)

type limitKey struct{}

// A byteLimit ends a context when the seals that use it have processed a number of bytes.
type byteLimit struct {
	bytesLeft atomic.Int64
	cancel    func()
}

// WithByteLimit returns a context that ends with the given cause when the seals with this context have
// processed the given number of bytes.
func WithByteLimit(ctx context.Context, bytes int64, cause error) (limited context.Context, stop func()) {
	limited, cancel := context.WithCancelCause(ctx)
	l := &byteLimit{cancel: func() { cancel(cause) }}
	l.bytesLeft.Store(bytes)
	return context.WithValue(limited, limitKey{}, l), func() { cancel(nil) }
}

func byteLimitOf(ctx context.Context) *byteLimit {
	l, _ := ctx.Value(limitKey{}).(*byteLimit)
	return l
}

func (l *byteLimit) spend(n int64) {
	if l != nil && l.bytesLeft.Add(-n) < 0 {
		l.cancel()
	}
}
