package gitbridge

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// setAttrs gives a file its owner, extended attributes, permissions and time.
func (a *applying) setAttrs(dir int, name string, s *applyStep) error {
	c := s.change
	if err := a.own(dir, name, s); err != nil {
		return err
	}
	if !c.B.IsSymlink() {
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		proc := "/proc/self/fd/" + strconv.Itoa(fd)
		a.setXattrs(proc, c)
		if err := unix.Chmod(proc, c.B.Mode&0o7777); err != nil {
			return err
		}
	}
	return setMtime(dir, name, c.B.Mtime)
}

// own gives a file its owner: root that of the snapshot, other users the group
// that the file had.
func (a *applying) own(dir int, name string, s *applyStep) error {
	n := s.change.B
	if os.Geteuid() == 0 {
		return unix.Fchownat(dir, name, int(n.UID), int(n.GID), unix.AT_SYMLINK_NOFOLLOW)
	}
	if s.seen.exists {
		// It may be none of the user's groups: then the file gets the user's.
		_ = unix.Fchownat(dir, name, -1, int(s.seen.st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	return nil
}

// setXattrs makes the extended attributes those of the snapshot, as far as the
// directory's file system takes them.
func (a *applying) setXattrs(proc string, c tree.Change) {
	if c.A != nil {
		for _, x := range c.A.Xattrs {
			if !slices.ContainsFunc(c.B.Xattrs, func(y tree.Xattr) bool { return x.Name == y.Name }) {
				_ = unix.Removexattr(proc, x.Name) // it may be gone already
			}
		}
	}
	for _, x := range c.B.Xattrs {
		if err := unix.Setxattr(proc, x.Name, x.Value, 0); err != nil {
			a.skip(c.Path, "extended attribute "+x.Name+": "+err.Error())
		}
	}
}

func setMtime(dir int, name string, mtime int64) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, filetime.Timespec(mtime)}
	return unix.UtimesNanoAt(dir, name, times, unix.AT_SYMLINK_NOFOLLOW)
}

func (a *applying) setTime(s *applyStep) error {
	c := s.change
	dir, name, err := a.entry(s)
	if err == nil {
		err = setMtime(dir, name, c.B.Mtime)
	}
	if errors.Is(err, unix.EPERM) {
		return nil // another user's, and only its time
	}
	if err != nil {
		return fmt.Errorf("setting the time of %q: %w", c.Path.Short(), err)
	}
	return nil
}
