package hostdir

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// checkAttrsChangeable fails if an ordinary user cannot set the planned attributes of an existing file.
func (w *placer) checkAttrsChangeable(s *step) error {
	n, before, st, uid := s.change.After, s.dirVersion(), s.original.st, uint32(os.Geteuid())
	if uid == 0 {
		return nil
	}

	owner := before != nil && before.UID != n.UID && st.Uid != n.UID
	group := before != nil && before.GID != n.GID && st.Gid != n.GID && !inGroup(int(n.GID))
	if !owner && !group && (st.Uid == uid || w.changesOnlyUserXattrs(s, before)) {
		return nil
	}

	return withManualHint(fmt.Errorf("changing the owner, the mode or an attribute of %q: %w", s.change.Path.Short(), unix.EPERM))
}

// changesOnlyUserXattrs reports whether a step changes only extended attributes user.*, which requires just the right
// to write the file.
func (w *placer) changesOnlyUserXattrs(s *step, before *tree.Inode) bool {
	if before == nil || before.Mode != s.change.After.Mode || slices.ContainsFunc(threeway.ChangedXattrs(before, s.change.After), func(name string) bool { return !strings.HasPrefix(name, "user.") }) {
		return false
	}
	dir, err := w.host.parentFD(s.change.Path)
	return err == nil && unix.Faccessat(dir, nameOf(s.change.Path), unix.W_OK, unix.AT_EACCESS) == nil
}

func inGroup(gid int) bool {
	groups, err := os.Getgroups()
	return gid == os.Getegid() || err == nil && slices.Contains(groups, gid)
}

// setAttrs sets the owner, extended attributes, permissions and time of a file. If before is nil, for a new file, it
// sets all of them. Else it sets the attributes that differ between before and n.
func (w *placer) setAttrs(dir int, name string, p *tree.Path, before, n *tree.Inode) error {
	present, err := statAt(dir, name)
	if err == nil {
		err = setOwner(dir, name, before, n, present)
	}
	if err != nil {
		return err
	}

	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	proc, mode := procPath(fd), n.Mode&0o7777
	if before != nil && before.Mode == n.Mode {
		mode = present.st.Mode & 0o7777
	}
	if err := w.setXattrs(proc, p, before, n, present); err != nil {
		return err
	}

	if now, err := statAt(dir, name); !n.IsSymlink() && (err != nil || now.st.Mode&0o7777 != mode) {
		if err := unix.Chmod(proc, mode); err != nil {
			return err
		}
	}
	if before != nil && before.Mtime == n.Mtime {
		return nil
	}

	return setMtime(dir, name, n.Mtime)
}

// chmodIn changes the permissions of a file other than a symbolic link.
func chmodIn(dir int, name string, mode uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(procPath(fd), mode)
}

// setOwner sets the owner and group of a file. A new file of an ordinary user keeps the user as its owner.
func setOwner(dir int, name string, before, n *tree.Inode, present hostEntry) error {
	uid, gid, root := -1, -1, os.Geteuid() == 0
	if (root || before != nil) && n.UID != present.st.Uid && (before == nil || before.UID != n.UID) {
		uid = int(n.UID)
	}
	if n.GID != present.st.Gid && (before == nil || before.GID != n.GID) {
		gid = int(n.GID)
	}
	if uid < 0 && gid < 0 {
		return nil
	}

	err := unix.Fchownat(dir, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	if !root && before == nil && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)) {
		return nil // the user may not set this group, so the file keeps the group that it was created with
	}

	return err
}

// setXattrs sets the extended attributes that the file has in the workspace. Attributes that the directory's
// file system refuses are listed in ApplyResult.Skipped.
func (w *placer) setXattrs(proc string, p *tree.Path, before, n *tree.Inode, present hostEntry) error {
	if before == nil {
		found, err := readXattrs(proc, make([]byte, 64<<10))
		if err != nil && !errors.Is(err, unix.EACCES) {
			return err
		}
		// The system gives a new file a security label, which is kept, and perhaps an ACL of its directory,
		// which is removed unless the workspace's file has it.
		before = &tree.Inode{Xattrs: slices.DeleteFunc(found, func(x tree.Xattr) bool {
			return !strings.HasPrefix(x.Name, "system.posix_acl") && !hasXattr(n, x.Name)
		})}
	}

	names := threeway.ChangedXattrs(before, n)
	if len(names) > 0 && !n.IsSymlink() && present.st.Mode&0o600 != 0o600 && os.Geteuid() != 0 {
		_ = unix.Chmod(proc, present.st.Mode&0o7777|0o600) // if it fails, the next call fails too, and reports it
	}

	for _, name := range names {
		var err error
		if v, ok := n.Xattr(name); !ok {
			err = errs.Ignore(unix.Removexattr(proc, name), unix.ENODATA)
		} else {
			err = unix.Setxattr(proc, name, v, 0)
		}

		if err != nil {
			w.res.addSkipped(p, "extended attribute "+name+": "+err.Error())
			w.res.Incomplete = true
		}
	}

	return nil
}

// isNewVersion reports whether a file that a step writes replaces another version of the same file.
func (s *step) isNewVersion() bool {
	n, before := s.change.After, s.file.before
	return before != nil && before.Type() == n.Type() && s.change.Before != nil && s.change.Before.Ino == before.Ino && s.original.exists && s.original.st.Mode&unix.S_IFMT == n.Type()
}

// setMtime sets the modification time of a file. The time of another user's file is set to the present time, if
// the user may write the file.
func setMtime(dir int, name string, mtime int64) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, filetime.Timespec(mtime)}
	err := unix.UtimesNanoAt(dir, name, times, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EPERM) {
		now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
		_ = unix.UtimesNanoAt(dir, name, now, unix.AT_SYMLINK_NOFOLLOW)
		return nil
	}

	return err
}

// setTime sets the modification time of a file or directory. If the apply keeps the file, and a program has changed or
// removed it since the step was planned, the newer time stays.
func (w *placer) setTime(s *step) error {
	c := s.change
	if s.action == keep && w.checkUnchanged(s) != nil {
		return nil
	}

	dir, name, err := w.host.entryOf(s)
	if err == nil {
		err = setMtime(dir, name, c.After.Mtime)
	}
	if err != nil {
		return fmt.Errorf("setting the time of %q: %w", c.Path.Short(), err)
	}

	return nil
}

// changeAttrs changes the attributes of an existing file.
func (w *placer) changeAttrs(s *step) error {
	before := s.dirVersion()
	if before == nil {
		return nil
	}

	if s.file != nil {
		s.file.attrsSet = true
	}

	dir, err := w.host.parentFD(s.change.Path)
	if err == nil {
		err = w.setAttrs(dir, s.change.Path.Name, s.change.Path, before, s.change.After)
	}
	if err != nil {
		return fmt.Errorf("changing the owner, the mode or an attribute of %q: %w", s.change.Path.Short(), err)
	}

	return nil
}

// setDirAttrs sets the attributes and time of a directory whose entries are complete.
func (w *placer) setDirAttrs(s *step) error {
	c := s.change
	if s.action == keep {
		if c.Before != nil && c.Before.Mtime == c.After.Mtime {
			return nil
		}
		return w.setTime(s)
	}

	var before *tree.Inode
	if s.action == changeAttributes {
		before = s.dirVersion()
	}

	n := *c.After
	if !s.original.isDir() && n.Mode&ownerAccess != ownerAccess {
		n.Mode |= openMode // until all files in the directory have their final names
	}

	dir, name, err := w.host.entryOf(s)
	if err == nil {
		err = w.setAttrs(dir, name, c.Path, before, &n)
	}
	if err != nil {
		return fmt.Errorf("setting the owner, mode and time of %q: %w", s.change.Path.Short(), err)
	}
	if o := w.host.openedDirs[s.original.st.Ino]; o != nil && s.original.isDir() && (before == nil || before.Mode != c.After.Mode) {
		o.modeSet = true
	}

	return nil
}
