package cas

import (
	"context"

	"github.com/amberfs/amberfs/internal/errs"
)

// An Absent error says of an object that it is not on this machine, but elsewhere.
type Absent struct {
	Hash Hash
	// Fetch brings it here. It ends when ctx does.
	Fetch func(ctx context.Context) error
}

func (a *Absent) Error() string { return "object " + a.Hash.String() + " is elsewhere" }

// Unwrap gives it the kind of what is not damaged.
func (a *Absent) Unwrap() error { return errs.Away }
