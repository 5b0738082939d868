package fusefs

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

func TestErrno(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want syscall.Errno
	}{
		{nil, 0},
		{live.ErrNotExist, syscall.ENOENT},
		{live.ErrReadOnly, syscall.EROFS},
		{live.ErrNoAttr, syscall.ENODATA},
		{live.ErrNoData, syscall.ENXIO},
		{live.ErrQuota, syscall.EDQUOT},
		{fmt.Errorf("write: %w", live.ErrNoSpace), syscall.ENOSPC},
		{fmt.Errorf("%w: %w", live.ErrDamaged, errors.New("chunk")), syscall.EIO},
		{fmt.Errorf("snapshot x: %w", snapshot.ErrNotFound), syscall.ENOENT},
		{fmt.Errorf("snapshot x: %w", snapshot.ErrExists), syscall.EEXIST},
		{fmt.Errorf("snapshot x: %w", snapshot.ErrBadName), syscall.EINVAL},
		{fmt.Errorf("snapshot x: %w", snapshot.ErrBusy), syscall.EBUSY},
		{fmt.Errorf("restore: %w", context.Canceled), syscall.EINTR},
		{fmt.Errorf("open: %w", syscall.EMFILE), syscall.EMFILE},
		{errors.New("something else"), syscall.EIO},
	} {
		if got := errno(tc.err); got != tc.want {
			t.Errorf("errno(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
}

// A table entry that another one before it matches would never be found.
func TestErrnoTableOrder(t *testing.T) {
	for i, e := range errnos {
		if e.err == nil {
			t.Fatalf("entry %d has no error", i)
		}
		if got := errno(fmt.Errorf("wrapped: %w", e.err)); got != e.code {
			t.Errorf("entry %d (%v): a wrapped one gives %v, want %v", i, e.err, got, e.code)
		}
	}
}
