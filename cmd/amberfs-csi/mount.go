package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/snapshot/naming"
)

const readOnlyAttribute = uint64(unix.MOUNT_ATTR_RDONLY)

// mountAttributes converts the mount flags of a volume to attributes for mount_setattr(2).
func mountAttributes(flags []string) (attributes uint64, err error) {
	known := map[string]uint64{
		"ro": readOnlyAttribute, "rw": 0, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC,
	}
	for _, f := range flags {
		bit, ok := known[f]
		if !ok {
			return 0, invalidArgument("there is no mount flag %q; known are ro, rw, nosuid, nodev and noexec", f)
		}
		attributes |= bit
	}

	return attributes, nil
}

// forkRoot returns the path of a volume below the mount point. In /proc/self/mountinfo, it is also the root of
// the mounts by which the volume is published.
func forkRoot(id string) string { return "/" + naming.ForksDir + "/" + id }

// publications returns the mounts of a volume, including the mounts of a daemon that has ended.
func publications(id string) ([]*mountinfo.Info, error) {
	return mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return i.Root != forkRoot(id) || i.FSType != "fuse.amberfs", false
	})
}

// publicationAt returns the mount of a volume at a path, nil if there is none.
func publicationAt(path, id string) (*mountinfo.Info, error) {
	list, err := publications(id)
	if err != nil {
		return nil, err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}

	for _, m := range list {
		if m.Mountpoint == path {
			return m, nil
		}
	}

	return nil, nil
}

// bindVolume mounts a volume, whose directory is dir, at target, unless it is already mounted there. It replaces the
// mount of a daemon that has ended.
func bindVolume(dir, target, id string, attributes uint64) error {
	want, err := os.Stat(dir)
	if err != nil {
		return status.Errorf(codes.Unavailable, "the volume %s cannot be reached: %v", id, err)
	}

	mounted, err := publicationAt(target, id)
	if err != nil {
		return err
	}

	if mounted != nil {
		if got, err := os.Stat(target); err == nil && os.SameFile(want, got) {
			return checkAccessMode(target, attributes)
		}
		if err := unbindVolume(target, id); err != nil {
			return err
		}
	}

	if err := makeTargetDir(target); err != nil {
		return err
	}

	return attachMount(dir, target, attributes)
}

// targetMark is an extended attribute, by which the driver recognizes the directories that it made.
const targetMark = "trusted.amberfs.csi"

// makeTargetDir makes a directory for a mount, unless it exists.
func makeTargetDir(path string) error {
	err := os.Mkdir(path, 0o750)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = unix.Setxattr(path, targetMark, []byte("1"), 0)
	}
	if errors.Is(err, unix.ENOTSUP) {
		return nil // without the mark, removeTargetDir leaves the directory to the kubelet
	}

	return err
}

// removeTargetDir removes a directory with the mark, if the directory is empty. It keeps other directories.
func removeTargetDir(path string) error {
	if n, err := unix.Lgetxattr(path, targetMark, nil); err != nil || n <= 0 {
		return nil
	}
	if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("removing %s: %w", path, err)
	}

	return nil
}

// checkAccessMode returns an error if the volume is published at target with another access mode.
func checkAccessMode(target string, attributes uint64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return err
	}
	if (st.Flags&unix.ST_RDONLY != 0) != (attributes&readOnlyAttribute != 0) {
		return status.Errorf(codes.AlreadyExists, "the volume is published at %s with another access mode", target)
	}

	return nil
}

// attachMount mounts the directory dir at target. The mount has its attributes from the beginning, because between a
// bind mount and a remount with the attributes, a pod could write to a read-only volume.
func attachMount(dir, target string, attributes uint64) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree %s: %w", dir, err)
	}
	defer unix.Close(tree)

	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("mount_setattr %s: %w", target, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount %s: %w", target, err)
	}

	return nil
}

// unbindVolume unmounts a volume from target. It does not unmount other volumes.
func unbindVolume(target, id string) error {
	for {
		mounted, err := publicationAt(target, id)
		if err != nil || mounted == nil {
			return err
		}

		if err := unix.Unmount(mounted.Mountpoint, unix.UMOUNT_NOFOLLOW); err != nil {
			if !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.EBUSY) {
				return fmt.Errorf("unmounting %s: %w", target, err)
			}
			return status.Errorf(codes.FailedPrecondition, "unmounting %s: %v", target, err)
		}
	}
}
