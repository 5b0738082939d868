package hostdir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/env"
)

// lockPoll is the time between two attempts to take a lock.
const lockPoll = 20 * time.Millisecond

// A dirLock keeps other processes of this user from changing or reading a directory. It is a file
// in the user's state directory, named by the device and the inode of the directory. A lock of the
// directory itself could be taken by every user who can read it.
type dirLock struct{ file *os.File }

// lockDir locks an open directory for LOCK_EX or LOCK_SH. The lock is nil if the user has no state
// directory, or its file system has no locks. waiting, if set, is called once if another process has the lock.
func lockDir(ctx context.Context, fd, how int, waiting func()) (*dirLock, error) {
	name, err := lockName(fd)
	if err != nil {
		return nil, nil
	}

	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, nil
		}

		l := &dirLock{f}
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil && l.named():
			return l, nil
		case err == nil || errors.Is(err, unix.EINTR): // another process has released its lock, and removed the file
			f.Close()
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, nil
		}

		f.Close()

		if waiting != nil {
			waiting()
			waiting = nil
		}

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

func lockName(fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}

	state, err := env.StateDir()
	if err != nil {
		return "", err
	}

	locks := filepath.Join(state, "locks")
	return filepath.Join(locks, fmt.Sprintf("%x-%x", st.Dev, st.Ino)), os.MkdirAll(locks, 0o700)
}

// named reports whether the file of the lock was not removed.
func (l *dirLock) named() bool {
	var st unix.Stat_t
	return unix.Fstat(int(l.file.Fd()), &st) == nil && st.Nlink > 0
}

// release ends the lock, which may be nil. The last process with the lock removes the file.
func (l *dirLock) release() {
	if l == nil {
		return
	}
	if unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && l.named() {
		_ = os.Remove(l.file.Name()) // an empty file that stays does no harm
	}

	l.file.Close()
}
