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
	// A read that takes longer than slowReadTime starts the probing.
	slowReadTime = 3 * time.Second
	// probeTimeout is the timeout of one probe, and probePause is the pause before the next probe.
	probeTimeout = 2 * time.Second
	probePause   = time.Second
	// maxFailedProbes is the number of probes without an answer after which the remote is away.
	maxFailedProbes = 3
	// retryDelay is the pause before a read that got no answer is repeated.
	retryDelay = 200 * time.Millisecond
)

// A healthTracker tracks whether a remote answers.
//
// A read without an answer starts one goroutine that probes the remote every second. After
// three probes without an answer the remote is away: reads under way are cancelled, and
// all reads wait until the goroutine gets an answer. So an outage costs one request a
// second, and waiting reads continue within seconds of its end.
type healthTracker struct {
	probe   func(ctx context.Context) error // a small request
	timeout time.Duration                   // timeout of a read; 0: none
	report  func(away bool, since time.Time)

	mu               sync.Mutex
	probing          bool
	awaySince        time.Time          // when the remote went away; zero while it answers
	recovered        chan struct{}      // closed when the remote answers again; nil while it answers
	reachableContext context.Context    // parent context of reads: ends when the remote goes away
	cancelReads      context.CancelFunc // ends reachableContext
	closedContext    context.Context    // ends when the remote is closed
	close            context.CancelFunc // ends closedContext
}

// makeContexts sets the contexts of a new healthTracker.
func (h *healthTracker) makeContexts() {
	h.closedContext, h.close = context.WithCancel(context.Background())
	h.reachableContext, h.cancelReads = context.WithCancel(h.closedContext)
}

// AwaySince returns the time since which the remote does not answer, or the zero time if it answers.
func (r *Remote) AwaySince() time.Time {
	r.health.mu.Lock()
	defer r.health.mu.Unlock()
	return r.health.awaySince
}

// retry calls fn until fn gets an answer, or until the timeout. Errors: the error of fn if the remote answered;
// backend.ErrAway after the timeout; errClosed; the error of ctx.
func (h *healthTracker) retry(ctx context.Context, fn func(context.Context) error) error {
	callerCtx := ctx

	if h.timeout > 0 {
		began := time.Now()
		h.mu.Lock()
		if !h.awaySince.IsZero() { // the timeout of a read during an outage begins with the outage
			began = h.awaySince
		}

		h.mu.Unlock()

		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(h.timeout))
		defer cancel()
	}

	for {
		err := h.tryOnce(ctx, fn)
		switch {
		case err == nil:
			return nil
		case callerCtx.Err() != nil:
			return callerCtx.Err()
		case h.closedContext.Err() != nil:
			return errClosed
		case ctx.Err() == nil && (!errors.Is(err, backend.ErrAway) || errors.Is(err, backend.ErrUntrusted)):
			return err
		}

		// The remote did not answer.
		h.startProbing()
		if pause(ctx, retryDelay) != nil && callerCtx.Err() == nil {
			return fmt.Errorf("%w for %v", backend.ErrAway, h.timeout)
		}
	}
}

// errClosed is the error of reads after Remote.Close.
var errClosed = fmt.Errorf("%w: the store is being closed", backend.ErrAway)

// tryOnce waits while the remote is away, then calls fn once. It returns backend.ErrAway if fn was
// cancelled because the remote went away.
func (h *healthTracker) tryOnce(ctx context.Context, fn func(context.Context) error) error {
	h.mu.Lock()
	reachable, recovered := h.reachableContext, h.recovered
	h.mu.Unlock()

	if recovered != nil {
		select {
		case <-recovered:
			return h.tryOnce(ctx, fn)
		case <-h.closedContext.Done():
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(reachable, cancel)()

	slow := time.AfterFunc(slowReadTime, h.startProbing)
	defer slow.Stop()

	err := fn(ctx)
	if err != nil && reachable.Err() != nil {
		return backend.ErrAway
	}

	return err
}

// startProbing starts the goroutine that probes the remote, unless it runs.
func (h *healthTracker) startProbing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.probing && h.closedContext.Err() == nil {
		h.probing = true
		go h.probeUntilAnswered()
	}
}

// probeUntilAnswered probes the remote until the remote answers or is closed. It calls setAway and setAnswered.
func (h *healthTracker) probeUntilAnswered() {
	began := time.Now()

	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(h.closedContext, probeTimeout)
		err := h.probe(ctx)
		late := ctx.Err() != nil
		cancel()
		if h.closedContext.Err() != nil {
			return
		}

		if !late && !errors.Is(err, backend.ErrAway) {
			h.setAnswered()
			return
		}

		if n == maxFailedProbes {
			h.setAway(began)
		}
		if pause(h.closedContext, probePause) != nil {
			return
		}
	}
}

// setAway cancels the reads under way and makes new ones wait.
func (h *healthTracker) setAway(since time.Time) {
	h.mu.Lock()
	h.awaySince, h.recovered = since, make(chan struct{})
	h.cancelReads()
	h.mu.Unlock()
	h.report(true, since)
}

// setAnswered ends the probing, and an outage.
func (h *healthTracker) setAnswered() {
	h.mu.Lock()
	since, recovered := h.awaySince, h.recovered
	h.probing, h.awaySince, h.recovered = false, time.Time{}, nil
	if recovered != nil {
		h.reachableContext, h.cancelReads = context.WithCancel(h.closedContext)
		close(recovered)
	}

	h.mu.Unlock()
	if recovered != nil {
		h.report(false, since)
	}
}

// pause waits for d. It returns the error of ctx if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
