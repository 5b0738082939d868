// Package mounts reads mount tables, and unmounts. It sends no request to the mounted file systems,
// because their daemons may have ended.
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

// TopmostAt returns the topmost mount at an absolute path without symlinks; nil if there is none.
func TopmostAt(path string) (*mountinfo.Info, error) {
	all, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	if len(all) == 0 {
		return nil, nil
	}

	return all[len(all)-1], nil
}

// The time for reading mount tables is limited, because any user can create many and large ones.
const (
	maxTableTime  = 50 * time.Millisecond  // for one table
	maxTablesTime = 500 * time.Millisecond // for all tables
)

// lastPoints is the last result of PointsOn.
var lastPoints struct {
	sync.Mutex
	major, minor int
	readAt       time.Time
	paths        []string
}

// PointsOn returns the mount points that lie on the file system with the device number major:minor, as paths
// from the root of that file system. It reads the tables of the mount namespaces in /proc for up to
// maxTablesTime. Concurrent calls share a result.
func PointsOn(major, minor int) []string {
	calledAt, l := time.Now(), &lastPoints
	l.Lock()
	defer l.Unlock()

	if l.major != major || l.minor != minor || l.readAt.Before(calledAt) {
		l.major, l.minor, l.readAt, l.paths = major, minor, time.Now(), nil
		readTables(time.Now, func(text []byte) {
			for _, m := range pointsIn(text, major, minor) {
				l.paths = append(l.paths, m.path)
			}
		})
	}

	return l.paths
}

// readTables calls fn with the mount table of this process, then with the tables of other mount
// namespaces. The tables of other users' processes come last, because their namespaces are not known. It
// calls the function now, which returns the time, before each page that it reads.
func readTables(now func() time.Time, fn func(text []byte)) {
	processes, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer processes.Close()

	names, err := processes.Readdirnames(-1)
	if err != nil {
		return
	}

	end := now().Add(maxTablesTime)
	read := func(name string) {
		stop := now().Add(maxTableTime)
		if stop.After(end) {
			stop = end
		}
		if text := readTable("/proc/"+name, now, stop); text != nil {
			fn(text)
		}
	}

	read("self")
	seen, unknown := make(map[string]bool), []string{}
	ownNS, _ := os.Readlink("/proc/self/ns/mnt")
	seen[ownNS] = true

	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}

		switch ns, err := os.Readlink("/proc/" + name + "/ns/mnt"); {
		case err != nil:
			unknown = append(unknown, name) // the process belongs to another user, so its mount namespace is not known
		case !seen[ns]:
			seen[ns] = true
			read(name)
		}
	}

	for _, name := range unknown {
		read(name)
	}
}

// readTable returns the lines of a process's mount table that can be read until stop. It returns nil if
// the process has ended.
func readTable(proc string, now func() time.Time, stop time.Time) []byte {
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

// A point is a mount point on a file system.
type point struct {
	path       string // from the root of the file system
	isSelfBind bool   // a bind mount of the file or directory onto itself, by which sandboxes protect it
}

// pointsIn returns the mount points on a file system in a mount table.
func pointsIn(text []byte, major, minor int) (points []point) {
	if !bytes.Contains(text, fmt.Appendf(nil, " %d:%d ", major, minor)) {
		return nil
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		return nil
	}

	onDevice := make(map[int]*mountinfo.Info)
	for _, m := range all {
		if m.Major == major && m.Minor == minor {
			onDevice[m.ID] = m
		}
	}

	for _, m := range all {
		parent := onDevice[m.Parent]
		if parent == nil || m == parent {
			continue
		}

		rel, err := filepath.Rel(parent.Mountpoint, m.Mountpoint)
		if err != nil || rel == "." {
			continue
		}

		path := filepath.Join(parent.Root, rel)
		points = append(points, point{path, onDevice[m.ID] != nil && m.Root == path})
	}

	return points
}

// CoveringPoints returns the mount points that hide files of a file system from a process, as paths from the
// root of the file system. It returns none if the process is in the mount namespace of this process.
func CoveringPoints(pid, major, minor int) (paths []string) {
	proc := fmt.Sprint("/proc/", pid)
	ownNS, _ := os.Readlink("/proc/self/ns/mnt")
	if processNS, err := os.Readlink(proc + "/ns/mnt"); pid <= 0 || err == nil && processNS == ownNS {
		return nil
	}

	for _, m := range pointsIn(readTable(proc, time.Now, time.Now().Add(maxTableTime)), major, minor) {
		if !m.isSelfBind {
			paths = append(paths, m.path)
		}
	}

	return paths
}

// HasOverlayOn reports whether an overlay in any mount namespace in /proc has a layer on a file system, or a
// layer on an unknown file system. It does not resolve symlinks in the paths of layers.
func HasOverlayOn(major, minor int) (found bool) {
	readTables(time.Now, func(text []byte) { found = found || tableHasOverlayOn(text, major, minor) })
	return found
}

// tableHasOverlayOn does the work of HasOverlayOn for one mount table. It skips an overlay at the root of a
// container: the paths of its layers are paths outside of the container.
func tableHasOverlayOn(text []byte, major, minor int) bool {
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

		for _, layer := range layersOf(m.VFSOptions) {
			mount := MountOf(all, layer)
			escaped := strings.Contains(layer, `\`) // the kernel escapes some characters of its path
			if escaped || mount == nil || mount.Major == major && mount.Minor == minor {
				return true
			}
		}
	}

	return false
}

// layersOf returns the directories in the options of an overlay, as the kernel shows them.
func layersOf(options string) (dirs []string) {
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

// MountOf returns the mount that a path lies on: the mount with the deepest mount point above the path. If several
// have this mount point, it is the last one made. It returns nil for a relative path.
func MountOf(all []*mountinfo.Info, path string) (found *mountinfo.Info) {
	for _, m := range all {
		rel, err := filepath.Rel(m.Mountpoint, path)
		if err == nil && filepath.IsLocal(rel) && (found == nil || len(m.Mountpoint) >= len(found.Mountpoint)) {
			found = m
		}
	}
	return found
}

// Privileged reports whether this process may mount without a helper.
func Privileged() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	_ = unix.Capget(&hdr, &data[0]) // it cannot fail for this process
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// MountHelper returns the path of the program that mounts and unmounts for other users than root.
func MountHelper() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("mounting needs root, a user namespace (amberfs run) or fusermount3 of the package fuse3")
}

// Abort ends the connection of a FUSE mount. The kernel does not do so by itself as long as a thread of
// a dead daemon keeps the device open: the thread may wait for a lock of a program that waits for an
// answer. The mount stays and fails with ENOTCONN, so that programs do not write to the directory
// below. Abort does nothing if the topmost mount at the point has another source.
func Abort(point, source string) error {
	m, err := TopmostAt(point)
	if err != nil || m == nil || m.Source != source {
		return err
	}

	// umount(2) with MNT_FORCE first ends the requests. Then it fails with EBUSY, because root is open, so the mount
	// stays.
	root, err := unix.Open(point, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)

	if err = unix.Unmount(point, unix.MNT_FORCE); errors.Is(err, unix.EBUSY) {
		return nil
	}

	// This user is not allowed to call umount(2), but owns this file. A write to it also ends the requests.
	return os.WriteFile(fmt.Sprintf("/sys/fs/fuse/connections/%d/abort", m.Minor), []byte("1"), 0)
}

// Unmount unmounts the mount at point. It starts fusermount3 if this process may not unmount it. If lazy is set, the
// mount is removed from the directory tree now, and ends when no program uses it. Otherwise Unmount fails with EBUSY
// if a program uses the mount.
func Unmount(point string, lazy bool) error {
	flags, args := unix.UMOUNT_NOFOLLOW, []string{"-u", "--", point}
	if lazy {
		flags, args = flags|unix.MNT_DETACH, []string{"-u", "-z", "--", point}
	}

	err := unix.Unmount(point, flags)
	if !errors.Is(err, unix.EPERM) {
		return err
	}

	helper, err := MountHelper()
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
