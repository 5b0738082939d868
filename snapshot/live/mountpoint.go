package live

import (
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// The kernel unmounts what is mounted on a name that it has to drop. So a name with a
// mount keeps its inode, if that can be, and its Entry says that there is one.

// isMountPoint reports whether something is mounted on a name that leads to an inode, or
// below it. A mount holds the inodes above it, so mostly nothing has to be asked.
func (e *Edit) isMountPoint(at tree.Link, ino uint64) bool {
	if !e.f.Held(Node(e.base.id, ino)) {
		return false
	}
	e.askMounted()
	return e.mounted[at]
}

func (e *Edit) askMounted() {
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

// beneath returns the inode that a new name gets because a mount still holds what the name
// led to before, and 0 if there is none.
func (e *Edit) beneath(at tree.Link, like *tree.Inode) uint64 {
	ino, ok := e.base.beneath[at]
	if !ok || !e.f.Held(Node(e.base.id, ino)) {
		return 0
	}
	if e.askMounted(); len(e.mounted) == 0 {
		return 0
	}
	if n, err := e.base.orphans.get(e.f.waiting, ino); err != nil || n.Type() != like.Type() {
		return 0
	}
	return ino
}
