package fusefs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount attaches a FUSE device to the mountpoint and returns its descriptor.
// go-fuse could do it, but leaves the device open in every program that the
// daemon starts, and a mount ends only when the last one closed it.
func mount(o *Options) (fd int, err error) {
	var st unix.Stat_t
	if err := unix.Stat(o.Mountpoint, &st); err != nil {
		return -1, fmt.Errorf("look at the mountpoint: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, fmt.Errorf("the mountpoint is not a directory")
	}
	fd, err = mountDirect(o)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return mountHelper(o)
	}
	return fd, err
}

// mountDirect is mount(2), for root and inside of a user namespace.
func mountDirect(o *Options) (int, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/fuse: %w", err)
	}
	var flags uintptr
	for _, f := range []struct {
		on   bool
		flag uintptr
	}{{!o.Suid, unix.MS_NOSUID}, {!o.Dev, unix.MS_NODEV}, {o.ReadOnly, unix.MS_RDONLY}} {
		if f.on {
			flags |= f.flag
		}
	}
	data := []string{
		"fd=" + strconv.Itoa(fd),
		"rootmode=40000",
		"user_id=" + strconv.Itoa(os.Geteuid()),
		"group_id=" + strconv.Itoa(os.Getegid()),
		"default_permissions",
		"max_read=" + strconv.Itoa(maxIO),
	}
	if o.AllowOther {
		data = append(data, "allow_other")
	}
	if err := unix.Mount(o.Store.Dir(), o.Mountpoint, "fuse.amberfs", flags, strings.Join(data, ",")); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount(2): %w", err)
	}
	return fd, nil
}

func unmount(mountpoint string) error {
	err := unix.Unmount(mountpoint, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EPERM) {
		return unmountHelper(mountpoint)
	}
	return err
}
