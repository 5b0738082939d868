// Package mounts reports mounts without a request to the file systems, whose daemons may
// have ended, and whether this process may mount.
package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

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

// How long mount tables are read: any user can make many, and large ones.
const (
	maxTable  = 50 * time.Millisecond // one
	maxTables = 500 * time.Millisecond
)

// lastOn is the newest answer of On.
var lastOn struct {
	sync.Mutex
	major, minor int
	began        time.Time
	paths        []string
}

// On returns where something is mounted on a file system: paths from its root, in the mount
// namespaces that /proc shows, as many as can be read in maxTables.
func On(major, minor int) []string {
	asked, l := time.Now(), &lastOn
	l.Lock()
	defer l.Unlock()
	if l.major != major || l.minor != minor || l.began.Before(asked) {
		l.major, l.minor, l.began, l.paths = major, minor, time.Now(), nil
		tables(time.Now, func(text []byte) { l.paths = append(l.paths, on(text, major, minor)...) })
	}
	return l.paths
}

// tables calls fn with the mount table of this process, and then with those of others in
// the order of their ids. It asks the clock before each page that it reads.
func tables(now func() time.Time, fn func(text []byte)) {
	processes, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer processes.Close()
	names, err := processes.Readdirnames(-1)
	if err != nil {
		return
	}
	end := now().Add(maxTables)
	read := func(name string) {
		stop := now().Add(maxTable)
		if stop.After(end) {
			stop = end
		}
		if text := table("/proc/"+name, now, stop); text != nil {
			fn(text)
		}
	}
	read("self")
	seen, unnamed := make(map[string]bool), []string{}
	own, _ := os.Readlink("/proc/self/ns/mnt")
	seen[own] = true
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		switch ns, err := os.Readlink("/proc/" + name + "/ns/mnt"); {
		case err != nil:
			unnamed = append(unnamed, name) // another user's
		case !seen[ns]:
			seen[ns] = true
			read(name)
		}
	}
	for _, name := range unnamed {
		read(name)
	}
}

// table reads the mount table of a process, the lines that can be read until a time; nil if it has ended.
func table(proc string, now func() time.Time, stop time.Time) []byte {
	f, err := os.Open(proc + "/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	text, page := []byte{}, make([]byte, 4096)
	for err == nil && now().Before(stop) {
		var n int
		n, err = f.Read(page)
		text = append(text, page[:n]...)
	}
	return text[:bytes.LastIndexByte(text, '\n')+1]
}

// on is On for one mount table.
func on(text []byte, major, minor int) (paths []string) {
	for _, m := range upon(text, major, minor) {
		paths = append(paths, m.path)
	}
	return paths
}

// A point is where something is mounted on a file system, as a path from its root.
type point struct {
	path string
	self bool // it is the same file or directory, as a sandbox mounts it to protect it
}

// upon returns where something is mounted on a file system, by one mount table.
func upon(text []byte, major, minor int) (points []point) {
	if !bytes.Contains(text, fmt.Appendf(nil, " %d:%d ", major, minor)) {
		return nil
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		return nil
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
				path := filepath.Join(on.Root, rel)
				points = append(points, point{path, ours[m.ID] != nil && m.Root == path})
			}
		}
	}
	return points
}

// Covered returns where a process that has another mount namespace than this one sees something else
// than a file system has there: paths from its root.
func Covered(pid, major, minor int) (paths []string) {
	proc := fmt.Sprint("/proc/", pid)
	own, _ := os.Readlink("/proc/self/ns/mnt")
	if of, err := os.Readlink(proc + "/ns/mnt"); pid <= 0 || err == nil && of == own {
		return nil
	}
	for _, m := range upon(table(proc, time.Now, time.Now().Add(maxTable)), major, minor) {
		if !m.self {
			paths = append(paths, m.path)
		}
	}
	return paths
}

// OverlayOn reports whether an overlay in a mount namespace that /proc shows has a layer on a
// file system, or a layer of which that cannot be told. A layer behind a symlink is not found.
func OverlayOn(major, minor int) (found bool) {
	tables(time.Now, func(text []byte) { found = found || overlayOn(text, major, minor) })
	return found
}

// overlayOn is OverlayOn for one mount table. The layers of an overlay at the root are named by
// paths outside of a container.
func overlayOn(text []byte, major, minor int) bool {
	if !bytes.Contains(text, []byte(" - overlay ")) {
		return false
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		return true
	}
	for _, m := range all {
		if m.FSType != "overlay" || m.Mountpoint == "/" {
			continue
		}
		for _, layer := range layers(m.VFSOptions) {
			on := mountOf(all, layer)
			if on == nil || on.Major == major && on.Minor == minor {
				return true
			}
		}
	}
	return false
}

// layers returns the directories in the options of an overlay, as the kernel shows them.
func layers(options string) (dirs []string) {
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "lowerdir":
			dirs = append(dirs, slices.DeleteFunc(strings.Split(value, ":"), func(dir string) bool { return dir == "" })...)
		case "lowerdir+", "datadir+", "upperdir", "workdir":
			dirs = append(dirs, value)
		}
	}
	return dirs
}

// mountOf returns the mount that a path leads to, nil if the path is relative or has characters
// that the kernel escapes.
func mountOf(all []*mountinfo.Info, path string) (on *mountinfo.Info) {
	if !filepath.IsAbs(path) || strings.Contains(path, `\`) {
		return nil
	}
	path = filepath.Clean(path)
	for _, m := range all {
		at := m.Mountpoint
		if at != "/" && path != at && !strings.HasPrefix(path, at+"/") {
			continue
		}
		if on == nil || len(at) >= len(on.Mountpoint) {
			on = m
		}
	}
	return on
}

// Privileged reports whether this process may mount without a helper.
func Privileged() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	_ = unix.Capget(&hdr, &data[0]) // of this process it does not fail
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

func Helper() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("mounting needs root, a user namespace (amberfs run) or fusermount3 of the package fuse3")
}

// Abort ends the connection of a FUSE mount although a dead daemon has the device: a thread of it
// may wait for a lock of a program that waits for an answer. The mount stays, and fails with
// ENOTCONN: without it programs would write to the directory below. It does nothing if the
// topmost mount at the point has another source.
func Abort(point, source string) error {
	m, err := At(point)
	if err != nil || m == nil || m.Source != source {
		return err // it is gone
	}
	// umount(2) first ends the requests, and then finds the mount in use, as it is open here.
	root, err := unix.Open(point, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err = unix.Unmount(point, unix.MNT_FORCE); errors.Is(err, unix.EBUSY) {
		return nil
	}
	// A user that may not unmount owns this file.
	return os.WriteFile(fmt.Sprintf("/sys/fs/fuse/connections/%d/abort", m.Minor), []byte("1"), 0)
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
