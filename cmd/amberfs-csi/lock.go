package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// locks exclude requests from each other, even if the requests are sent to different drivers of the store. A second
// driver may be part of a second DaemonSet, or a pod that was deleted by force and still runs. A lock is a byte of a
// file. If the driver is killed, the kernel unlocks the byte.
type locks struct{ path string }

// errLocked means that another request has the lock.
var errLocked = errors.New("locked")

// acquire locks the byte of a name. Several requests can have the lock if all of them set shared. If other requests
// have the lock, acquire waits for them or, if wait is false, returns errLocked.
func (l locks) acquire(name string, shared, wait bool) (unlock func(), err error) {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}

	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(h.Sum64() >> 2), Len: 1}
	if shared {
		lock.Type = unix.F_RDLCK
	}

	command := unix.F_OFD_SETLK
	if wait {
		command = unix.F_OFD_SETLKW
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.FcntlFlock(f.Fd(), command, &lock)
	}
	if err == nil {
		return func() { _ = f.Close() }, nil
	}

	_ = f.Close()
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, errLocked
	}

	return nil, fmt.Errorf("lock %s: %w", l.path, err)
}

// lockByID locks a volume or a snapshot, so that one request at a time changes it. Other requests fail, as CSI
// requires, and their callers try again.
func (d *driver) lockByID(id string) (unlock func(), err error) {
	unlock, err = d.locks.acquire(id, false, false)
	if errors.Is(err, errLocked) {
		return nil, status.Errorf(codes.Aborted, "another request for %s is not done yet", id)
	}
	return unlock, err
}
