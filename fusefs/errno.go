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

// errno returns the code that a process gets for an error: the code of the error's kind
// (errs.KindOf), else the code of a wrapped system call, else EIO.
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

	if code, ok := errs.KindOf(err).Errno(); ok {
		return code
	}

	var code syscall.Errno
	if errors.As(err, &code) && code != 0 {
		return code
	}

	return syscall.EIO
}

// status returns the errno of an error as the status of an answer to the kernel. An error of the store,
// rather than of the request, is logged, because EIO alone does not name the damaged chunk. A cas.DelayError
// becomes the status with which the reader parks the request.
func (r *replies) status(op string, id live.NodeID, err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if delay, ok := errors.AsType[cas.DelayError](err); ok {
		return r.parking.addDelay(delay)
	}

	code := errno(err)
	storeFailed := code == syscall.EIO || code == syscall.ENOSPC
	// If a remote does not answer, package remote logs it, so it is not logged here.
	if storeFailed && errs.KindOf(err) != errs.Unreachable {
		r.log.Error("request failed", "op", op, "node", uint64(id), "err", err)
	}

	return fuse.Status(code)
}
