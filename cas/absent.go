package cas

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/errs"
)

// An Absent error reports that an object is not on this machine, but on a remote. The call
// that needed it has changed nothing: its caller releases its locks, fetches the object, which
// may take long, and makes the call again.
type Absent struct {
	Hash Hash
	// Fetch stores the object here, or fails when ctx ends.
	Fetch func(ctx context.Context) error
}

func (a *Absent) Error() string { return "object " + a.Hash.String() + " is elsewhere" }

// Unwrap gives it the kind of what is not damaged.
func (a *Absent) Unwrap() error { return errs.Away }

// Await calls fn, and again each time after an object that it lacked was fetched.
func Await(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		var a *Absent
		if !errors.As(err, &a) {
			return err
		}
		if err := a.Fetch(ctx); err != nil {
			return err
		}
	}
}
