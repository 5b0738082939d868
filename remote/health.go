package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/amberfs/amberfs/remote/backend"
)

const (
	// slowAfter is how long a read takes before the remote is probed.
	slowAfter = 3 * time.Second
	// probeTime bounds one such question, and probeEvery is the pause to the next.
	probeTime  = 2 * time.Second
	probeEvery = time.Second
	// awayAfter is the number of probes without an answer until the remote is away.
	awayAfter = 3
	// tryAgain is the pause after a read that got no answer.
	tryAgain = 200 * time.Millisecond
)

// health finds out whether a remote answers.
//
// A read without an answer starts one goroutine that asks the remote every second. After
// three questions without an answer the remote is away: reads under way are cancelled, and
// all reads wait until the goroutine gets an answer. So an outage costs one request a
// second, and waiting reads continue within seconds of its end.
type health struct {
	ask     func(ctx context.Context) error // a small request
	timeout time.Duration                   // of a read; 0: none
	note    func(away bool, since time.Time)

	mu     sync.Mutex
	asking bool
	since  time.Time          // when it went away; zero while it answers
	back   chan struct{}      // closed when it answers again, nil while it does
	here   context.Context    // of reads under way: ends when it goes away
	gone   context.CancelFunc // ends here
	closed context.Context    // ends when the remote is closed
	close  context.CancelFunc
}

func (h *health) init() {
	h.closed, h.close = context.WithCancel(context.Background())
	h.here, h.gone = context.WithCancel(h.closed)
}

func (r *Remote) Away() time.Time {
	r.health.mu.Lock()
	defer r.health.mu.Unlock()
	return r.health.since
}

// try calls fn until it has an answer, or the time is over. Errors: backend.ErrAway; ctx's.
func (h *health) try(ctx context.Context, fn func(context.Context) error) error {
	caller := ctx
	if h.timeout > 0 {
		began := time.Now()
		h.mu.Lock()
		if !h.since.IsZero() { // a read that begins during an outage waits from its beginning on
			began = h.since
		}
		h.mu.Unlock()
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(h.timeout))
		defer cancel()
	}
	for {
		err := h.attempt(ctx, fn)
		switch {
		case err == nil:
			return nil
		case caller.Err() != nil:
			return caller.Err()
		case h.closed.Err() != nil:
			return errClosed
		case ctx.Err() == nil && (!errors.Is(err, backend.ErrAway) || errors.Is(err, backend.ErrUntrusted)):
			return err
		}
		h.doubt()
		if pause(ctx, tryAgain) != nil && caller.Err() == nil {
			return fmt.Errorf("%w for %v", backend.ErrAway, h.timeout)
		}
	}
}

var errClosed = fmt.Errorf("%w: the store is being closed", backend.ErrAway)

// attempt waits while the remote is away, and calls fn once. A call that was cancelled because the
// remote went away counts as not answered.
func (h *health) attempt(ctx context.Context, fn func(context.Context) error) error {
	h.mu.Lock()
	here, back := h.here, h.back
	h.mu.Unlock()
	if back != nil {
		select {
		case <-back:
			return h.attempt(ctx, fn)
		case <-h.closed.Done():
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(here, cancel)()
	slow := time.AfterFunc(slowAfter, h.doubt)
	defer slow.Stop()
	err := fn(ctx)
	if err != nil && here.Err() != nil {
		return backend.ErrAway
	}
	return err
}

// doubt starts the goroutine that asks the remote, unless it runs.
func (h *health) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.asking && h.closed.Err() == nil {
		h.asking = true
		go h.keepAsking()
	}
}

func (h *health) keepAsking() {
	began := time.Now()
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(h.closed, probeTime)
		err := h.ask(ctx)
		late := ctx.Err() != nil
		cancel()
		if h.closed.Err() != nil {
			return
		}
		if !late && !errors.Is(err, backend.ErrAway) {
			h.answered()
			return
		}
		if n == awayAfter {
			h.away(began)
		}
		if pause(h.closed, probeEvery) != nil {
			return
		}
	}
}

func (h *health) away(since time.Time) {
	h.mu.Lock()
	h.since, h.back = since, make(chan struct{})
	h.gone()
	h.mu.Unlock()
	h.note(true, since)
}

func (h *health) answered() {
	h.mu.Lock()
	since, back := h.since, h.back
	h.asking, h.since, h.back = false, time.Time{}, nil
	if back != nil {
		h.here, h.gone = context.WithCancel(h.closed)
		close(back)
	}
	h.mu.Unlock()
	if back != nil {
		h.note(false, since)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
