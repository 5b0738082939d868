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

// Place is a directory inside an amberfs file system.
type Place struct {
	Mount Mount
	Store string
	// Workspace names the forks that lead to the workspace: none for main.
	Workspace []string
	// Snapshot is set when the place is inside .snapshots/NAME/.
	Snapshot string
	// Path is the place's path in the workspace's tree, "" for its root.
	Path   string
	dir    string
	mounts []Mount
}

// ErrNotMounted is the error of Find for a directory on another file system.
var ErrNotMounted = errors.New("not inside an amberfs mount")

// ErrOutside is the error of Rel for a path that is not in the workspace.
var ErrOutside = errors.New("is outside the workspace")

// Getwd is the working directory as the kernel knows it. os.Getwd asks the
// file system whether $PWD is the same directory; this asks nothing of it.
func Getwd() (string, error) {
	wd, err := unix.Getwd()
	if errors.Is(err, unix.ENOENT) {
		err = errors.New("it was removed, or its file system was unmounted")
	}
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}

	return wd, nil
}

// ErrOverlaid is the reason why nothing works where Overlaid is true.
var ErrOverlaid = errors.New("is an overlay over an amberfs workspace: snapshots and restores do nothing in it")

// overlays are the types of file systems that write beside what they show.
var overlays = []string{"overlay", "aufs", "fuse.fuse-overlayfs", "fuse.unionfs"}

// Overlaid reports whether a directory shows a workspace below an overlay: the control files are
// visible there, and what is written to them goes into the overlay's upper layer.
func Overlaid(mounts []Mount, dir string) bool {
	dir = Resolve(mounts, dir)
	m, ok := At(mounts, dir)
	if !ok || !slices.Contains(overlays, m.FSType) {
		return false
	}

	for ; under(dir, m.Mountpoint); dir = path.Dir(dir) {
		if _, err := os.Lstat(path.Join(dir, naming.SnapshotsDir, "call")); err == nil {
			return true
		}
		if dir == "/" {
			break
		}
	}

	return false
}

// Find returns the place of a directory. Errors: ErrNotMounted, ErrForeign.
func Find(mounts []Mount, dir string) (Place, error) {
	dir = Resolve(mounts, dir)
	m, ok := At(mounts, dir)
	if !ok || m.FSType != FSType {
		return Place{}, fmt.Errorf("%s: %w", dir, ErrNotMounted)
	}
	if !Believed(m) {
		return Place{}, foreign(dir, m)
	}

	p := Place{Mount: m, Store: m.Source, dir: dir, mounts: mounts}
	inside := path.Join(m.Root, strings.TrimPrefix(dir[len(strings.TrimSuffix(m.Mountpoint, "/")):], "/"))
	p.Workspace, p.Snapshot, p.Path = split(inside)
	return p, nil
}

// Root is the root of the workspace; ok is false if the mount shows only a part of it.
func (p Place) Root() (root string, ok bool) {
	inside := "/"
	for _, fork := range p.Workspace {
		inside = path.Join(inside, naming.ForksDir, fork)
	}
	if !under(inside, path.Clean(p.Mount.Root)) {
		return "", false
	}

	return path.Join(p.Mount.Mountpoint, strings.TrimPrefix(inside, path.Clean(p.Mount.Root))), true
}

// Device of the mount, "" for a place that Find did not return.
func (p Place) Device() string {
	if p.dir == "" {
		return ""
	}
	return Device(p.Mount)
}

func split(inside string) (forks []string, name, rest string) {
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

// Rel makes a path of the user relative to the root of the workspace, which is "". Errors:
// ErrOutside.
func (p Place) Rel(name string) (string, error) {
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
// mount point. It asks nothing of an amberfs mount.
func Resolve(table []Mount, p string) string {
	points := map[string]bool{}
	for _, m := range table {
		points[m.Mountpoint] = points[m.Mountpoint] || m.FSType == FSType
	}

	const maxLinks = 40 // as the kernel
	rest, at := strings.Split(path.Clean(p), "/"), "/"
	for links := 0; len(rest) > 0 && links < maxLinks; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		if points["/"] || points[next] {
			return path.Join(next, path.Join(rest...))
		}

		target, err := os.Readlink(next)
		if err != nil { // it is no link, or does not exist yet
			at = next
			continue
		}

		links++
		if path.IsAbs(target) {
			at = "/"
		}

		rest = append(strings.Split(target, "/"), rest...)
	}

	return path.Join(at, path.Join(rest...))
}
