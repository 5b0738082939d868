// Package mounts reports mounts without a request to the file systems, whose daemons may
// have ended, and whether this process may mount.
package mounts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

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

// Below returns the mounts at and below a path, in the order of mounting.
func Below(path string) ([]*mountinfo.Info, error) {
	all, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return all, nil
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
