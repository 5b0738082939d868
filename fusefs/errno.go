package fusefs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// errnos maps every error that a request can end with. The first match wins,
// so what is more precise stands above what wraps it.
var errnos = []struct {
	err  error
	code syscall.Errno
}{
	{live.ErrNotExist, syscall.ENOENT},
	{live.ErrExist, syscall.EEXIST},
	{live.ErrNotDir, syscall.ENOTDIR},
	{live.ErrIsDir, syscall.EISDIR},
	{live.ErrNotEmpty, syscall.ENOTEMPTY},
	{live.ErrReadOnly, syscall.EROFS},
	{live.ErrNameTooLong, syscall.ENAMETOOLONG},
	{live.ErrInvalid, syscall.EINVAL},
	{live.ErrNoData, syscall.ENXIO},
	{live.ErrNoAttr, syscall.ENODATA},
	{live.ErrStale, syscall.ESTALE},
	{live.ErrTooManyLinks, syscall.EMLINK},
	{live.ErrTooBig, syscall.EFBIG},
	{live.ErrNoSpace, syscall.ENOSPC},
	{live.ErrQuota, syscall.EDQUOT},
	{live.ErrPerm, syscall.EPERM},
	{live.ErrCrossDevice, syscall.EXDEV},
	{live.ErrNotSupported, syscall.EOPNOTSUPP},
	{live.ErrRange, syscall.E2BIG},
	{live.ErrDamaged, syscall.EIO},
	{snapshot.ErrNotFound, syscall.ENOENT},
	{snapshot.ErrNoFork, syscall.ENOENT},
	{snapshot.ErrNoPath, syscall.ENOENT},
	{snapshot.ErrInvalid, syscall.EINVAL},
	{snapshot.ErrClosed, syscall.ENODEV},
	{snapshot.ErrExists, syscall.EEXIST},
	{snapshot.ErrNameTooLong, syscall.ENAMETOOLONG},
	{snapshot.ErrBadName, syscall.EINVAL},
	{snapshot.ErrBusy, syscall.EBUSY},
	{snapshot.ErrProtected, syscall.EPERM},
	{snapshot.ErrQuota, syscall.EDQUOT},
	{context.Canceled, syscall.EINTR},
	{context.DeadlineExceeded, syscall.ETIMEDOUT},
}

// errno returns the code that a process gets for an error: that of the table,
// that of a system call inside, or EIO.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	var code syscall.Errno
	if errors.As(err, &code) && code != 0 {
		return code
	}
	return syscall.EIO
}

// status is errno for an answer to the kernel. What went wrong with the store
// rather than with the request is logged, because EIO alone tells nobody which
// chunk it was.
func (fs *filesystem) status(op string, id live.NodeID, err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	code := errno(err)
	if code == syscall.EIO || code == syscall.ENOSPC {
		fs.log.Error("request failed", "op", op, "node", uint64(id), "err", err)
	}
	return fuse.Status(code)
}
