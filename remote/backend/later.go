package backend

import (
	"context"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
)

// ErrUntrusted: the user has not agreed that this remote is contacted. To a reader that
// is a remote that does not answer.
var ErrUntrusted = errs.New(errs.Away, "you have not agreed to contact this remote")

// Later returns the backend that a URL names. Each call asks allowed first, unless that is
// nil, so that nothing is contacted before. What cannot be opened now, for example because
// a file with credentials is not there, is tried again with each call.
func Later(raw string, allowed func(url string) error) Backend {
	l := &later{url: raw, allowed: allowed}
	if b, err := Open(raw); err == nil {
		l.opened, l.url = b, b.URL()
	}
	return l
}

type later struct {
	url     string
	allowed func(url string) error

	mu     sync.Mutex
	opened Backend
}

func (l *later) backend() (Backend, error) {
	if l.allowed != nil {
		if err := l.allowed(l.url); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		b, err := Open(l.url)
		if err != nil {
			return nil, errs.New(errs.Invalid, "%w", err)
		}
		l.opened = b
	}
	return l.opened, nil
}

func (l *later) Put(ctx context.Context, key string, data []byte, o PutOptions) (string, error) {
	b, err := l.backend()
	if err != nil {
		return "", err
	}
	return b.Put(ctx, key, data, o)
}

func (l *later) Get(ctx context.Context, key string) ([]byte, string, error) {
	b, err := l.backend()
	if err != nil {
		return nil, "", err
	}
	return b.Get(ctx, key)
}

func (l *later) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	b, err := l.backend()
	if err != nil {
		return nil, err
	}
	return b.GetRange(ctx, key, off, n)
}

func (l *later) Stat(ctx context.Context, key string) (Info, error) {
	b, err := l.backend()
	if err != nil {
		return Info{}, err
	}
	return b.Stat(ctx, key)
}

func (l *later) List(ctx context.Context, prefix string, fn func(Info) error) error {
	b, err := l.backend()
	if err != nil {
		return err
	}
	return b.List(ctx, prefix, fn)
}

func (l *later) Delete(ctx context.Context, key string) error {
	b, err := l.backend()
	if err != nil {
		return err
	}
	return b.Delete(ctx, key)
}

func (l *later) Collects() bool {
	b, err := l.backend()
	return err == nil && b.Collects()
}

func (l *later) URL() string { return l.url }

func (l *later) CloseIdleConnections() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.opened.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (l *later) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		return nil
	}
	return l.opened.Close()
}
