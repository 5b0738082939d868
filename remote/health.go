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
	// probeTime bounds one probe, and probeEvery is the pause before the next one.
	probeTime  = 2 * time.Second
	probeEvery = time.Second
	// awayAfter is the number of probes without an answer until the remote is away.
	awayAfter = 3
	// retryDelay is the pause before a read that got no answer is repeated.
	retryDelay = 200 * time.Millisecond
)

// health finds out whether a remote answers.
//
// A read without an answer starts one goroutine that probes the remote every second. After
// three probes without an answer the remote is away: reads under way are cancelled, and
// all reads wait until the goroutine gets an answer. So an outage costs one request a
// second, and waiting reads continue within seconds of its end.
type health struct {
	probe   func(ctx context.Context) error // a small request
	timeout time.Duration                   // of a read; 0: none
	note    func(away bool, since time.Time)

	mu          sync.Mutex
	probing     bool
	since       time.Time          // when it went away; zero while it answers
	recovered   chan struct{}      // closed when it answers again, nil while it does
	reachable   context.Context    // of reads under way: ends when it goes away
	cancelReads context.CancelFunc // ends reachable
	closed      context.Context    // ends when the remote is closed
	close       context.CancelFunc
}

func (h *health) init() {
	h.closed, h.close = context.WithCancel(context.Background())
	h.reachable, h.cancelReads = context.WithCancel(h.closed)
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
		h.startProbing()
		if pause(ctx, retryDelay) != nil && caller.Err() == nil {
			return fmt.Errorf("%w for %v", backend.ErrAway, h.timeout)
		}
	}
}

var errClosed = fmt.Errorf("%w: the store is being closed", backend.ErrAway)

// attempt waits while the remote is away, and calls fn once. A call that was cancelled because the
// remote went away counts as not answered.
func (h *health) attempt(ctx context.Context, fn func(context.Context) error) error {
	h.mu.Lock()
	reachable, recovered := h.reachable, h.recovered
	h.mu.Unlock()
	if recovered != nil {
		select {
		case <-recovered:
			return h.attempt(ctx, fn)
		case <-h.closed.Done():
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(reachable, cancel)()
	slow := time.AfterFunc(slowAfter, h.startProbing)
	defer slow.Stop()
	err := fn(ctx)
	if err != nil && reachable.Err() != nil {
		return backend.ErrAway
	}
	return err
}

// startProbing starts the goroutine that probes the remote, unless it runs.
func (h *health) startProbing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.probing && h.closed.Err() == nil {
		h.probing = true
		go h.probeUntilAnswered()
	}
}

func (h *health) probeUntilAnswered() {
	began := time.Now()
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(h.closed, probeTime)
		err := h.probe(ctx)
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
	h.since, h.recovered = since, make(chan struct{})
	h.cancelReads()
	h.mu.Unlock()
	h.note(true, since)
}

func (h *health) answered() {
	h.mu.Lock()
	since, recovered := h.since, h.recovered
	h.probing, h.since, h.recovered = false, time.Time{}, nil
	if recovered != nil {
		h.reachable, h.cancelReads = context.WithCancel(h.closed)
		close(recovered)
	}
	h.mu.Unlock()
	if recovered != nil {
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
