package cas

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/errs"
)

// An Absent error reports that an object is only on a remote, not on this machine. The call that
// needed the object has had no effect. Its caller releases the caller's locks, calls Fetch, which
// may take long, and repeats the call.
type Absent struct {
	Hash Hash
	// Fetch downloads the object into the store. It fails when ctx ends.
	Fetch func(ctx context.Context) error
}

func (a *Absent) Error() string { return "object " + a.Hash.String() + " is elsewhere" }

// Unwrap makes the error one of kind errs.Away, so that callers do not take the object for damaged.
func (a *Absent) Unwrap() error { return errs.Away }

// Await implements Delay: it calls Fetch.
func (a *Absent) Await(ctx context.Context) error { return a.Fetch(ctx) }

// A Delay is the error of a call that has had no effect and must be repeated later. The caller
// releases its locks, calls Await, and repeats the call.
type Delay interface {
	error
	Await(ctx context.Context) error
}

// Await calls fn. After each Delay that fn returns, Await calls the Delay's Await and then fn again.
func Await(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		d, ok := errors.AsType[Delay](err)
		if !ok {
			return err
		}
		if err := d.Await(ctx); err != nil {
			return err
		}
	}
}
