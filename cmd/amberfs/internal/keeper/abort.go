package keeper

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/mounts"
)

// abort ends a connection although a dead daemon has the device: a thread of it may wait for a
// lock of a program that waits for an answer. The mount stays, and fails with ENOTCONN: without it
// programs would write to the directory below.
func (c *Connection) abort() error {
	m, err := mounts.At(c.Mountpoint)
	if err != nil || m == nil || m.Source != c.Store {
		return err // it is gone
	}
	// umount(2) first ends the requests, and then finds the mount in use, as it is open here.
	root, err := unix.Open(c.Mountpoint, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err = unix.Unmount(c.Mountpoint, unix.MNT_FORCE); errors.Is(err, unix.EBUSY) {
		return nil
	}
	// A user that may not unmount owns this file.
	return os.WriteFile(fmt.Sprintf("/sys/fs/fuse/connections/%d/abort", m.Minor), []byte("1"), 0)
}
