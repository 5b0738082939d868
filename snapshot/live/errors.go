package live

import "github.com/amberfs/amberfs/internal/errs"

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
