package live

import (
	"fmt"

	"github.com/amberfs/amberfs/internal/errs"
)

// The errors of the forest, one for each answer that a program can get.
var (
	ErrNotExist     = errs.NotExist
	ErrExist        = errs.Exist
	ErrNotDir       = errs.NotDir
	ErrIsDir        = errs.IsDir
	ErrNotEmpty     = errs.NotEmpty
	ErrReadOnly     = errs.New(errs.ReadOnly, "snapshots are read-only")
	ErrNameTooLong  = errs.NameTooLong
	ErrInvalid      = errs.Invalid
	ErrNoData       = errs.NoData
	ErrNoAttr       = errs.NoAttr
	ErrStale        = errs.Stale
	ErrTooManyLinks = errs.TooManyLinks
	ErrTooBig       = errs.TooBig
	ErrNoSpace      = errs.NoSpace
	ErrQuota        = errs.New(errs.Quota, "the store's byte limit is reached")
	ErrPerm         = errs.Perm
	ErrCrossDevice  = errs.CrossDevice
	ErrNotSupported = errs.NotSupported
	ErrDamaged      = errs.Damaged
	ErrRange        = errs.Range
	ErrFailed       = errs.New(errs.Failed, "a change failed half-way; unmount and mount again")
)

// loadError is the answer to a program for an error in reading the tree. What has
// no kind, such as an object that is missing, is damage: callers hold names that
// exist.
func loadError(err error) error {
	if err == nil || errs.Of(err) != "" {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
