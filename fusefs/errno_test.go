package fusefs

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
)

func TestErrno(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want syscall.Errno
	}{
		{nil, 0},
		{errs.NotExist, syscall.ENOENT},
		{live.ErrReadOnly, syscall.EROFS},
		{errs.NoAttr, syscall.ENODATA},
		{errs.NoData, syscall.ENXIO},
		{errs.Quota, syscall.EDQUOT},
		{fmt.Errorf("write: %w", errs.NoSpace), syscall.ENOSPC},
		{fmt.Errorf("%w: %w", errs.Damaged, errors.New("chunk")), syscall.EIO},
		{fmt.Errorf("snapshot x: %w", catalogue.ErrNotFound), syscall.ENOENT},
		{fmt.Errorf("snapshot x: %w", errs.Exist), syscall.EEXIST},
		{fmt.Errorf("snapshot x: %w", naming.ErrBadName), syscall.EINVAL},
		{fmt.Errorf("snapshot x: %w", errs.Busy), syscall.EBUSY},
		{fmt.Errorf("restore: %w", context.Canceled), syscall.EINTR},
		{fmt.Errorf("open: %w", syscall.EMFILE), syscall.EMFILE},
		{fmt.Errorf("%w: %w", errs.Damaged, errs.NotExist), syscall.EIO},
		{errs.New(errs.Damaged, "read: %w", context.Canceled), syscall.EINTR},
		{errs.Kind("of which nobody knows"), syscall.EIO},
		{errs.Fail(errs.Perm, "not for you"), syscall.EPERM},
		{errs.Fail(errs.NotExist, "finding: %w", errs.NameTooLong), syscall.ENAMETOOLONG},
		{errors.New("something else"), syscall.EIO},
	} {
		if got := errno(tc.err); got != tc.want {
			t.Errorf("errno(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
}
