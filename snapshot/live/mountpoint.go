package live

import (
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Mount answers questions of the forest about the mount. Its functions must not call the forest.
type Mount struct {
	// IsHeld reports whether the kernel has a reference to a node: the node is open, otherwise in use, or only in
	// the kernel's cache.
	IsHeld func(NodeID) bool
	// MountPoints, if set, returns the paths in a view on which file systems are mounted, relative to the view's
	// root.
	MountPoints func(view uint32) []string
	// CoveredPaths, if set, returns the paths in a view that other mounts cover in the mount namespace of the
	// process pid, so that this process does not see the view's files there. The paths are relative to the view's
	// root.
	CoveredPaths func(view, pid uint32) []string
}

// SetMount sets the mount of the forest. From then on the forest keeps files without a name to which the
// kernel has references.
func (t Takeover) SetMount(m Mount) { t.trees.mount.Store(&m) }

// IsHeld reports whether the kernel has a reference to a node, see Mount.
func (t Takeover) IsHeld(id NodeID) bool { return t.trees.isHeld(id) }

func (t *trees) isHeld(id NodeID) bool {
	m := t.mount.Load()
	return m != nil && m.IsHeld(id)
}

// CoveredPaths returns the paths in a view at which a process does not see the view's files, see Mount.
func (t Takeover) CoveredPaths(view, pid uint32) []string {
	if m := t.trees.mount.Load(); m != nil && m.CoveredPaths != nil && pid != 0 {
		return m.CoveredPaths(view, pid)
	}
	return nil
}

// When the kernel drops a name, it unmounts the file systems that are mounted on the name. So if a name has
// such a mount, an edit keeps the inode of the name if possible, and else sets Entry.MountPoint.

// isMountPoint reports whether a file system is mounted on a name with the inode ino, or below it. The kernel has
// a reference to every inode above a mount, so for most names the mounts need not be read.
func (e *Edit) isMountPoint(name tree.Link, ino uint64) bool {
	if !e.trees.isHeld(Node(e.view.id, ino)) {
		return false
	}
	e.loadMountPoints()
	return e.mountPoints[name]
}

// loadMountPoints sets e.mountPoints to all names on the paths to mounts. It reads the mounts once in an edit.
func (e *Edit) loadMountPoints() {
	m := e.trees.mount.Load()
	if m == nil || m.MountPoints == nil || e.mountPoints != nil {
		return
	}

	e.mountPoints = make(map[tree.Link]bool)
	for _, path := range m.MountPoints(e.view.id) {
		n, err := e.view.state.Get(e.trees.waitingSrc, tree.RootIno)
		for _, name := range strings.Split(path, "/") {
			if err != nil || !n.IsDir() {
				break
			}
			e.mountPoints[tree.Link{Parent: n.Ino, Name: name}] = true
			n, err = e.view.state.Lookup(e.trees.waitingSrc, n, name)
		}
	}
}

// orphanBeneathMount returns the orphan that an earlier edit removed from a name, or 0. It returns the orphan only
// if a file system is still mounted on it, and if it has the same file type as replacement, the new inode of the
// name. The edit gives the name to the orphan instead, so that the mount is visible.
func (e *Edit) orphanBeneathMount(name tree.Link, replacement *tree.Inode) uint64 {
	ino, ok := e.view.mountOrphans[name]
	if !ok || !e.trees.isHeld(Node(e.view.id, ino)) {
		return 0
	}
	if e.loadMountPoints(); len(e.mountPoints) == 0 {
		return 0
	}
	if n, err := e.view.orphans.get(e.trees.waitingSrc, ino); err != nil || n.Type() != replacement.Type() {
		return 0
	}

	return ino
}
