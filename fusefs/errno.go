package fusefs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
)

// errno returns the code that a process gets for an error: that of its kind,
// that of a system call inside, or EIO.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}

	switch {
	case errors.Is(err, context.Canceled):
		return syscall.EINTR
	case errors.Is(err, context.DeadlineExceeded):
		return syscall.ETIMEDOUT
	}

	if code, ok := errs.Of(err).Errno(); ok {
		return code
	}

	var code syscall.Errno
	if errors.As(err, &code) && code != 0 {
		return code
	}

	return syscall.EIO
}

// status is errno for an answer to the kernel. What went wrong with the store
// rather than with the request is logged, because EIO alone does not say which
// chunk it was.
func (fs *filesystem) status(op string, id live.NodeID, err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if delay, ok := errors.AsType[cas.Delay](err); ok {
		return fs.aside.put(delay)
	}

	code := errno(err)
	if (code == syscall.EIO || code == syscall.ENOSPC) && errs.Of(err) != errs.Away { // which the remote reports once
		fs.opts.Logger.Error("request failed", "op", op, "node", uint64(id), "err", err)
	}

	return fuse.Status(code)
}
