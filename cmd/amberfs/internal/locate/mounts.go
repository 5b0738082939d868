package locate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/process"
)

const FSType = "fuse.amberfs"

// A Mount is one row of a mount table (proc(5), /proc/PID/mountinfo). Of amberfs, its source
// is the directory of the store.
type Mount = *mountinfo.Info

// Mounts reads the mount table of this process, in the order of mounting.
func Mounts() ([]Mount, error) {
	rows, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return rows, nil
}

// Device of a mount is the same for all binds of it, in whatever namespace, and differs from that
// of each other mount.
func Device(m Mount) string { return fmt.Sprintf("%d:%d", m.Major, m.Minor) }

// At returns the mount that path (absolute and clean) lies on: the deepest mount
// point above it and, of several on one point, the last made.
func At(mounts []Mount, path string) (best Mount, found bool) {
	for _, m := range mounts {
		if under(path, m.Mountpoint) && (best == nil || len(m.Mountpoint) >= len(best.Mountpoint)) {
			best = m
		}
	}
	return best, best != nil
}

// On returns the amberfs mount whose mount point is exactly path.
func On(mounts []Mount, path string) (Mount, bool) {
	m, ok := At(mounts, path)
	return m, ok && m.FSType == FSType && m.Mountpoint == path
}

// OfStore returns the mounts of the whole file system of a store, in the order of mounting.
func OfStore(mounts []Mount, store string) []Mount {
	var out []Mount
	for _, m := range mounts {
		if m.Source == store && m.Root == "/" && Believed(m) {
			out = append(out, m)
		}
	}

	return out
}

func under(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// User is a process that uses a mount.
type User struct {
	PID     int
	Command string
	Path    string // as the process sees it
}

const maxUsers = 20

// The links below /proc/PID by which a process uses a mount.
var (
	Everything = []string{"cwd", "root", "exe", "fd/*"}
	Places     = []string{"cwd", "root"}
	Roots      = []string{"root"}
)

// Users finds the processes that use a node of the file system of a mount, in whatever mount
// namespace they are. match decides by the inode number; nil is any. Processes that this
// user may not look into, and this one, are left out.
func Users(of Mount, what []string, match func(ino uint64) bool) (out []User) {
	seen := map[int]bool{os.Getpid(): true}

	for _, what := range what {
		links, _ := filepath.Glob(filepath.Join("/proc/[0-9]*", what)) // the pattern is well-formed
		for _, link := range links {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			if seen[pid] || len(out) == maxUsers || !uses(link, of, match) {
				continue
			}

			seen[pid] = true
			path, _ := os.Readlink(link)
			out = append(out, User{pid, process.Command(pid), strings.TrimSuffix(path, " (deleted)")})
		}
	}

	return out
}

// uses reports whether a link below /proc leads to a node of a file system. The flag and the
// empty mask keep the kernel from asking the file system, whose daemon may wait or be away.
func uses(link string, of Mount, match func(ino uint64) bool) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && int(st.Dev_major) == of.Major && int(st.Dev_minor) == of.Minor && (match == nil || match(st.Ino))
}
