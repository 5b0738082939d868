package hostdir

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/env"
)

// lockPollInterval is the time between two attempts to take a lock.
const lockPollInterval = 20 * time.Millisecond

// lockDir locks an open directory with F_RDLCK or F_WRLCK, until the returned file is closed. The lock keeps
// other processes of this user from reading or changing the directory. The lock is taken on a file in the
// user's state directory. A lock of the directory itself could be taken by every user who can read the
// directory, and would block the owner. The returned file is nil if the user has no state directory, or its
// file system has no locks. onWait, if set, is called once if another process has the lock.
func lockDir(ctx context.Context, fd int, lockType int16, onWait func()) (*os.File, error) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return nil, nil
	}

	state, err := env.StateDir()
	if err != nil || os.MkdirAll(state, 0o700) != nil {
		return nil, nil
	}
	f, err := os.OpenFile(filepath.Join(state, "applies.lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil
	}

	// Lock one byte of the file, chosen by the directory's inode. If two directories have the same byte,
	// their locks wait for each other.
	lock := unix.Flock_t{Type: lockType, Whence: io.SeekStart, Start: int64((st.Dev<<48 ^ st.Ino) * fibonacci >> 1), Len: 1}

	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, nil
		}

		if onWait != nil {
			onWait()
			onWait = nil
		}

		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(lockPollInterval):
		}
	}
}
