// Package mounts reports mounts without a request to the file systems, whose daemons may
// have ended, and whether this process may mount.
package mounts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// At returns the topmost mount at an absolute path without symlinks; nil if there is none.
func At(path string) (*mountinfo.Info, error) {
	all, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all[len(all)-1], nil
}

// On returns where something is mounted on a file system: paths from its root, in the mount
// namespaces of all processes that /proc shows.
func On(major, minor int) (paths []string) {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	seen := make(map[string]bool)
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		// The namespaces of other users' processes have no name here.
		if ns, err := os.Readlink("/proc/" + p.Name() + "/ns/mnt"); err == nil {
			if seen[ns] {
				continue
			}
			seen[ns] = true
		}
		all, err := mountinfo.PidMountInfo(pid)
		if err != nil {
			continue // it has ended
		}
		ours := make(map[int]*mountinfo.Info)
		for _, m := range all {
			if m.Major == major && m.Minor == minor {
				ours[m.ID] = m
			}
		}
		for _, m := range all {
			if on := ours[m.Parent]; on != nil && m != on {
				if rel, err := filepath.Rel(on.Mountpoint, m.Mountpoint); err == nil && rel != "." {
					paths = append(paths, filepath.Join(on.Root, rel))
				}
			}
		}
	}
	return paths
}

// Privileged reports whether this process may mount without a helper.
func Privileged() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.Geteuid() == 0
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Helper returns the path of fusermount3.
func Helper() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("mounting needs root, a user namespace (amberfs run) or fusermount3 of the package fuse3")
}

// Unmount unmounts, with fusermount3 if this process may not. If lazy, the mount leaves the
// directory tree now and ends when no program uses it; else a mount in use is EBUSY.
func Unmount(point string, lazy bool) error {
	flags, args := unix.UMOUNT_NOFOLLOW, []string{"-u", "--", point}
	if lazy {
		flags, args = flags|unix.MNT_DETACH, []string{"-u", "-z", "--", point}
	}
	err := unix.Unmount(point, flags)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	helper, err := Helper()
	if err != nil {
		return err
	}
	out, err := exec.Command(helper, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	msg := strings.TrimSpace(string(out))
	if strings.Contains(msg, "busy") {
		return fmt.Errorf("%w: %s", unix.EBUSY, msg)
	}
	return fmt.Errorf("%s: %w: %s", helper, err, msg)
}
