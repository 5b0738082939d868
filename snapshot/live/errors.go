package live

import "github.com/amberfs/amberfs/internal/errs"

// Errors that say more than their kind.
var (
	ErrReadOnly = errs.New(errs.ReadOnly, "snapshots are read-only")
	ErrFailed   = errs.New(errs.Failed, "a change failed half-way; unmount and mount again")
)
