package cas

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/errs"
)

// An AbsentError reports that an object is only on a remote, not on this machine. The call that
// needed the object has had no effect. The caller releases its locks, calls Fetch, which may take long,
// and repeats the call.
type AbsentError struct {
	Hash Hash
	// Fetch downloads the object into the store. It fails when ctx ends.
	Fetch func(ctx context.Context) error
}

func (a *AbsentError) Error() string { return "object " + a.Hash.String() + " is elsewhere" }

// Unwrap makes the error one of kind errs.Unreachable, so that callers do not take the object for damaged.
func (a *AbsentError) Unwrap() error { return errs.Unreachable }

// Await implements DelayError: it calls Fetch.
func (a *AbsentError) Await(ctx context.Context) error { return a.Fetch(ctx) }

// A DelayError is the error of a call that has had no effect and must be repeated later. The caller
// releases its locks, calls Await, and repeats the call.
type DelayError interface {
	error
	Await(ctx context.Context) error
}

// Retry calls fn until fn returns nil or an error that is not a DelayError. Before it calls fn again, it
// waits with the DelayError's Await. If Await fails, Retry returns that error.
func Retry(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		d, ok := errors.AsType[DelayError](err)
		if !ok {
			return err
		}
		if err := d.Await(ctx); err != nil {
			return err
		}
	}
}
