package live

import (
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// When the kernel drops a name, it unmounts the file systems on it. So an edit keeps the inode of a name
// with a mount if possible, and else sets Entry.MountPoint.

// isMountPoint reports whether a file system is mounted on the name at, whose inode is ino, or
// below it. The kernel has a reference to every inode above a mount, so for most names the mounts need
// not be read.
func (e *Edit) isMountPoint(at tree.Link, ino uint64) bool {
	if !e.f.Held(Node(e.base.id, ino)) {
		return false
	}
	e.loadMountPoints()
	return e.mounted[at]
}

// loadMountPoints sets e.mounted: all names on the paths to mounts, once for an edit.
func (e *Edit) loadMountPoints() {
	ask := e.f.mountPoints.Load()
	if ask == nil || e.mounted != nil {
		return
	}

	e.mounted = make(map[tree.Link]bool)
	for _, path := range (*ask)(e.base.id) {
		n, err := e.base.state.Get(e.f.waiting, tree.RootIno)
		for _, name := range strings.Split(path, "/") {
			if err != nil || !n.IsDir() {
				break
			}
			e.mounted[tree.Link{Parent: n.Ino, Name: name}] = true
			n, err = e.base.state.Lookup(e.f.waiting, n, name)
		}
	}
}

// beneath returns the orphan that an earlier edit removed from the name at, if a file system is still
// mounted on it and it has the type of like; else 0. The edit gives the name this inode again, so that
// the mount is visible.
func (e *Edit) beneath(at tree.Link, like *tree.Inode) uint64 {
	ino, ok := e.base.beneath[at]
	if !ok || !e.f.Held(Node(e.base.id, ino)) {
		return 0
	}
	if e.loadMountPoints(); len(e.mounted) == 0 {
		return 0
	}
	if n, err := e.base.orphans.get(e.f.waiting, ino); err != nil || n.Type() != like.Type() {
		return 0
	}

	return ino
}
