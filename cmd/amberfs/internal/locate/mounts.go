package locate

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const FSType = "fuse.amberfs"

// Mount is one row of the mount table (proc(5), /proc/PID/mountinfo).
type Mount struct {
	Device string // major:minor, equal for all mounts of one file system
	Root   string // the path inside the file system that is mounted
	Point  string // where, in this process's namespace
	FSType string
	Source string // for amberfs: the store's directory
	// ReadOnly is of the whole file system, wherever it is mounted.
	ReadOnly bool
}

// Mounts reads the mount table of this process, in the order of mounting.
func Mounts() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	defer f.Close()
	return Parse(f)
}

func Parse(r io.Reader) ([]Mount, error) {
	rows, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	out := make([]Mount, len(rows))
	for i, m := range rows {
		out[i] = Mount{
			Device: fmt.Sprintf("%d:%d", m.Major, m.Minor), Root: m.Root, Point: m.Mountpoint, FSType: m.FSType, Source: m.Source,
			ReadOnly: slices.Contains(strings.Split(m.VFSOptions, ","), "ro"),
		}
	}
	return out, nil
}

// At gives the mount that path (absolute and clean) lies on: the deepest mount
// point above it and, of several on one point, the last made.
func At(mounts []Mount, path string) (Mount, bool) {
	best, found := Mount{}, false
	for _, m := range mounts {
		if under(path, m.Point) && (!found || len(m.Point) >= len(best.Point)) {
			best, found = m, true
		}
	}
	return best, found
}

// On gives the amberfs mount whose mount point is exactly path.
func On(mounts []Mount, path string) (Mount, bool) {
	m, ok := At(mounts, path)
	return m, ok && m.FSType == FSType && m.Point == path
}

// OfStore returns the mounts of the whole file system of a store, in the order of mounting.
func OfStore(mounts []Mount, store string) []Mount {
	var out []Mount
	for _, m := range mounts {
		if m.FSType == FSType && m.Source == store && m.Root == "/" {
			out = append(out, m)
		}
	}
	return out
}

// SameNamespace reports whether a process has the mount table that this one has.
func SameNamespace(pid int) bool {
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false
	}
	other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	return err == nil && other == mine
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

// What a process can use of a mount.
var (
	Everything = []string{"cwd", "root", "exe", "fd"}
	Places     = []string{"cwd", "root"}
)

// Users finds the processes that use a node of a store's mount, in whatever mount
// namespace they are. match decides by the inode number; nil is any. Nothing is asked
// of the mount. Processes that this user may not look into, and this one, are left out.
func Users(store string, what []string, match func(ino uint64) bool) []User {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []User
	for _, d := range procs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p := process{dir: filepath.Join("/proc", d.Name()), store: store, match: match}
		if u, ok := p.uses(what); ok {
			u.PID = pid
			comm, _ := os.ReadFile(filepath.Join(p.dir, "comm"))
			u.Command = strings.TrimSpace(string(comm))
			if out = append(out, u); len(out) == maxUsers {
				break
			}
		}
	}
	return out
}

type process struct {
	dir    string // below /proc
	store  string
	match  func(ino uint64) bool
	mounts map[int]bool // ids of the store's mounts in its namespace, once read
}

func (p *process) uses(what []string) (User, bool) {
	for _, what := range what {
		if what == "fd" {
			fds, _ := os.ReadDir(filepath.Join(p.dir, "fd"))
			for _, fd := range fds {
				info, err := os.ReadFile(filepath.Join(p.dir, "fdinfo", fd.Name()))
				if err == nil && p.is(info) {
					return User{Path: p.path("fd/" + fd.Name())}, true
				}
			}
			continue
		}
		// A path alone: the file system is not asked.
		fd, err := unix.Open(filepath.Join(p.dir, what), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		_ = unix.Close(fd)
		if err == nil && p.is(info) {
			return User{Path: p.path(what)}, true
		}
	}
	return User{}, false
}

func (p *process) path(link string) string {
	path, _ := os.Readlink(filepath.Join(p.dir, link))
	return strings.TrimSuffix(path, " (deleted)")
}

// is reports whether a file that fdinfo describes is one of those looked for.
func (p *process) is(fdinfo []byte) bool {
	if p.match != nil {
		ino, err := strconv.ParseUint(infoField(fdinfo, "ino:"), 10, 64)
		if err != nil || !p.match(ino) {
			return false
		}
	}
	id, err := strconv.Atoi(infoField(fdinfo, "mnt_id:"))
	return err == nil && p.ofStore()[id]
}

// ofStore are the ids of the store's mounts, as the process sees them.
func (p *process) ofStore() map[int]bool {
	if p.mounts != nil {
		return p.mounts
	}
	p.mounts = map[int]bool{}
	f, err := os.Open(filepath.Join(p.dir, "mountinfo"))
	if err != nil {
		return p.mounts
	}
	defer f.Close()
	rows, err := mountinfo.GetMountsFromReader(f, func(m *mountinfo.Info) (skip, stop bool) {
		return m.FSType != FSType || m.Source != p.store, false
	})
	for _, m := range rows {
		if err == nil {
			p.mounts[m.ID] = true
		}
	}
	return p.mounts
}

// infoField is a field of a file under /proc/PID/fdinfo.
func infoField(info []byte, name string) string {
	for s := bufio.NewScanner(bytes.NewReader(info)); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), name); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
