package locate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// FSType is the type that amberfs mounts carry in the mount table.
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

// Mounts reads this process's mount table, in the order in which mounts were
// made.
func Mounts() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads a mount table.
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

// OfStore gives the amberfs mounts of a store's whole file system, in the order
// in which they were made.
func OfStore(mounts []Mount, store string) []Mount {
	var out []Mount
	for _, m := range mounts {
		if m.FSType == FSType && m.Source == store && m.Root == "/" {
			out = append(out, m)
		}
	}
	return out
}

// InOtherNamespaces finds a mount of a workspace that other processes see and this one
// does not, by its store or its mount point.
func InOtherNamespaces(path string) (Mount, bool) {
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return Mount{}, false
	}
	seen := map[string]bool{mine: true}
	namespaces, _ := filepath.Glob("/proc/[0-9]*/ns/mnt")
	for _, name := range namespaces {
		ns, err := os.Readlink(name)
		if err != nil || seen[ns] {
			continue // another user's, or gone
		}
		seen[ns] = true
		f, err := os.Open(filepath.Join(filepath.Dir(filepath.Dir(name)), "mountinfo"))
		if err != nil {
			continue
		}
		mounts, err := Parse(f)
		f.Close()
		for _, m := range mounts {
			if err == nil && m.FSType == FSType && m.Root == "/" && (m.Source == path || m.Point == path) {
				return m, true
			}
		}
	}
	return Mount{}, false
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

// under says whether path is dir or lies below it; both absolute and clean.
func under(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
