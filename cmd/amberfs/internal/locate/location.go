package locate

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/naming"
)

// A Location is a directory inside an amberfs file system.
type Location struct {
	Mount Mount
	Store string
	// Workspace has the names of the forks on the way from main to the workspace; it is empty for main.
	Workspace []string
	// Snapshot is the name of the snapshot if the location is inside .snapshots/NAME/, else "".
	Snapshot string
	// Path is the path in the tree of the workspace or snapshot, "" for its root.
	Path   string
	dir    string // the absolute path
	mounts []Mount
}

// InFork returns p with a fork of its workspace as the workspace. For the name "" it returns p itself.
func (p Location) InFork(name string) Location {
	if name != "" {
		p.Workspace = append(slices.Clone(p.Workspace), name)
	}
	return p
}

// ErrNotMounted is the error of Find for a directory on another file system.
var ErrNotMounted = errors.New("not inside an amberfs mount")

// ErrOutside is the error of Rel for a path that is not in the workspace.
var ErrOutside = errors.New("is outside the workspace")

// WorkingDir returns the working directory by getcwd(2). os.Getwd would also stat $PWD, which is
// a request to the file system.
func WorkingDir() (string, error) {
	wd, err := unix.Getwd()
	if errors.Is(err, unix.ENOENT) {
		err = errors.New("it was removed, or its file system was unmounted")
	}
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}

	return wd, nil
}

// ErrOverlaid is the error for a directory for which IsOverlaid reports true: control files have no effect there.
var ErrOverlaid = errors.New("is an overlay over an amberfs workspace: snapshots and restores do nothing in it")

// overlayTypes are the types of file systems that write changes to an upper layer.
var overlayTypes = []string{"overlay", "aufs", "fuse.fuse-overlayfs", "fuse.unionfs"}

// IsOverlaid reports whether a directory shows a workspace through an overlay. The control files are
// visible there, but writes to them go into the overlay's upper layer.
func IsOverlaid(mounts []Mount, dir string) bool {
	dir = Resolve(mounts, dir)
	m, ok := MountOf(mounts, dir)
	if !ok || !slices.Contains(overlayTypes, m.FSType) {
		return false
	}

	for ; naming.IsUnder(dir, m.Mountpoint); dir = path.Dir(dir) {
		if _, err := os.Lstat(path.Join(dir, naming.SnapshotsDir, "call")); err == nil {
			return true
		}
		if dir == "/" {
			break
		}
	}

	return false
}

// Find returns the location of a directory. Errors: ErrNotMounted, ErrForeign.
func Find(mounts []Mount, dir string) (Location, error) {
	dir = Resolve(mounts, dir)
	m, ok := MountOf(mounts, dir)
	if !ok || m.FSType != FSType {
		return Location{}, fmt.Errorf("%s: %w", dir, ErrNotMounted)
	}
	if !IsTrusted(m) {
		return Location{}, foreignError(dir, m)
	}

	p := Location{Mount: m, Store: m.Source, dir: dir, mounts: mounts}
	inside := path.Join(m.Root, strings.TrimPrefix(dir[len(strings.TrimSuffix(m.Mountpoint, "/")):], "/"))
	p.Workspace, p.Snapshot, p.Path = splitPath(inside)
	return p, nil
}

// Root returns the absolute path of the workspace's root. ok is false if the mount shows only a part of
// the workspace.
func (p Location) Root() (root string, ok bool) {
	inside := "/"
	for _, fork := range p.Workspace {
		inside = path.Join(inside, naming.ForksDir, fork)
	}
	if !naming.IsUnder(inside, path.Clean(p.Mount.Root)) {
		return "", false
	}

	return path.Join(p.Mount.Mountpoint, strings.TrimPrefix(inside, path.Clean(p.Mount.Root))), true
}

// Device returns the device number of the mount, "" for a Location that Find did not make.
func (p Location) Device() string {
	if p.dir == "" {
		return ""
	}
	return Device(p.Mount)
}

// splitPath splits a path inside the file system. It returns the names of forks, the name of a snapshot ("" if there
// is none), and the path in the tree of the workspace or snapshot.
func splitPath(inside string) (forks []string, snapshot, rest string) {
	parts := strings.Split(strings.Trim(inside, "/"), "/")
	for len(parts) >= 2 && parts[0] == naming.ForksDir {
		forks = append(forks, parts[1])
		parts = parts[2:]
	}
	if len(parts) >= 2 && parts[0] == naming.SnapshotsDir {
		return forks, parts[1], strings.Join(parts[2:], "/")
	}

	return forks, "", strings.Join(parts, "/")
}

// Rel returns the path from the root of the workspace to name, a path that is absolute or relative to the
// location. For the root it returns "". Errors: ErrOutside.
func (p Location) Rel(name string) (string, error) {
	abs := name
	if !filepath.IsAbs(name) {
		abs = filepath.Join(p.dir, name)
	}

	q, err := Find(p.mounts, abs)
	if err != nil || q.Mount.Major != p.Mount.Major || q.Mount.Minor != p.Mount.Minor || q.Store != p.Store ||
		strings.Join(q.Workspace, "/") != strings.Join(p.Workspace, "/") {
		return "", fmt.Errorf("%s %w", name, ErrOutside)
	}
	if top, _, _ := strings.Cut(q.Path, "/"); naming.IsControlDir(top) || q.Snapshot != p.Snapshot {
		return "", fmt.Errorf("%s %w", name, ErrOutside)
	}

	return q.Path, nil
}

// Resolve makes an absolute path clean and follows symbolic links up to the first amberfs
// mount point. It sends no request to an amberfs file system.
func Resolve(table []Mount, p string) string {
	points := map[string]bool{}
	for _, m := range table {
		points[m.Mountpoint] = points[m.Mountpoint] || m.FSType == FSType
	}

	const maxLinks = 40 // the kernel's limit
	remaining, resolved := strings.Split(path.Clean(p), "/"), "/"
	for links := 0; len(remaining) > 0 && links < maxLinks; {
		next := path.Join(resolved, remaining[0])
		remaining = remaining[1:]
		if points["/"] || points[next] {
			return path.Join(next, path.Join(remaining...))
		}

		target, err := os.Readlink(next)
		if err != nil { // next is no link, or does not exist
			resolved = next
			continue
		}

		links++
		if path.IsAbs(target) {
			resolved = "/"
		}

		remaining = append(strings.Split(target, "/"), remaining...)
	}

	return path.Join(resolved, path.Join(remaining...))
}
