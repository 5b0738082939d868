package locate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/internal/process"
)

const FSType = "fuse.amberfs"

// A Mount is one row of a mount table (proc(5), /proc/PID/mountinfo). The source of an amberfs mount is
// the directory of the store.
type Mount = *mountinfo.Info

// Mounts reads the mount table of this process, in the order of mounting.
func Mounts() ([]Mount, error) {
	rows, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return rows, nil
}

// Device returns the device number of a mounted file system. All bind mounts of the file system have it,
// in every mount namespace, and no other file system has it.
func Device(m Mount) string { return fmt.Sprintf("%d:%d", m.Major, m.Minor) }

// MountOf returns the mount that an absolute path lies on, see mounts.MountOf.
func MountOf(all []Mount, path string) (m Mount, found bool) {
	m = mounts.MountOf(all, path)
	return m, m != nil
}

// MountAt returns the amberfs mount whose mount point is exactly path.
func MountAt(mounts []Mount, path string) (Mount, bool) {
	m, ok := MountOf(mounts, path)
	return m, ok && m.FSType == FSType && m.Mountpoint == path
}

// StoreMounts returns the mounts of a store that show the whole file system, in the order of mounting.
func StoreMounts(mounts []Mount, store string) []Mount {
	var out []Mount
	for _, m := range mounts {
		if m.Source == store && m.Root == "/" && IsTrusted(m) {
			out = append(out, m)
		}
	}

	return out
}

// A UsingProcess is a process that uses a mount.
type UsingProcess struct {
	PID     int
	Command string
	Path    string // as the process sees it
}

// maxUsingProcesses is the largest number of processes that UsingProcesses returns.
const maxUsingProcesses = 20

// The links below /proc/PID that UsingProcesses can examine. A process uses a mount if such a link leads into the
// mount.
var (
	AllLinks  = []string{"cwd", "root", "exe", "fd/*"}
	DirLinks  = []string{"cwd", "root"}
	RootLinks = []string{"root"}
)

// UsingProcesses finds the processes that use a node of the file system of a mount by one of the links in kinds, in
// all mount namespaces. kinds is AllLinks, DirLinks or RootLinks. match selects nodes by their inode numbers; nil
// selects all. Not included are this process, and processes whose links this user may not read.
func UsingProcesses(m Mount, kinds []string, match func(ino uint64) bool) (out []UsingProcess) {
	seen := map[int]bool{os.Getpid(): true}

	for _, kind := range kinds {
		links, _ := filepath.Glob(filepath.Join("/proc/[0-9]*", kind)) // the pattern is well-formed
		for _, link := range links {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			if seen[pid] || len(out) == maxUsingProcesses || !usesMount(link, m, match) {
				continue
			}

			seen[pid] = true
			path, _ := os.Readlink(link)
			out = append(out, UsingProcess{pid, process.ProgramName(pid), strings.TrimSuffix(path, " (deleted)")})
		}
	}

	return out
}

// usesMount reports whether a link below /proc leads to a node of a file system. With AT_STATX_DONT_SYNC and
// an empty mask the kernel sends no request to the file system, whose daemon may hang or have ended.
func usesMount(link string, m Mount, match func(ino uint64) bool) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && int(st.Dev_major) == m.Major && int(st.Dev_minor) == m.Minor && (match == nil || match(st.Ino))
}
