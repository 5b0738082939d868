package cas

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/errs"
)

// An Absent error says of an object that it is not on this machine, but elsewhere. The call
// that needed it has changed nothing: its caller fetches the object, which may take long, and
// makes the call again. So no process waits for a network with a lock held.
type Absent struct {
	Hash Hash
	// Fetch brings it here. It ends when ctx does.
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
