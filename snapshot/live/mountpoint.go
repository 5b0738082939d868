package live

import (
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// The kernel unmounts what is mounted on a name that it has to drop. So a name with a
// mount keeps its inode, if that can be, and its Entry says that there is one.

// isMountPoint reports whether something is mounted on a name that leads to an inode, or
// below it. A mount holds the inodes above it, so mostly nothing has to be asked.
func (j *graft) isMountPoint(parent uint64, name string, ino uint64) bool {
	if !j.f.Held(Node(j.v.id, ino)) {
		return false
	}
	j.askMounted()
	return j.mounted[tree.Link{Parent: parent, Name: name}]
}

func (j *graft) askMounted() {
	if ask := j.f.mountPoints.Load(); ask != nil && j.mounted == nil {
		j.mounted = make(map[tree.Link]bool)
		for _, path := range (*ask)(j.v.id) {
			n, err := j.e.base.state.Get(j.f.src, tree.RootIno)
			for _, name := range strings.Split(path, "/") {
				if err != nil || !n.IsDir() {
					break
				}
				j.mounted[tree.Link{Parent: n.Ino, Name: name}] = true
				n, err = j.e.base.state.Lookup(j.f.src, n, name)
			}
		}
	}
}

// beneath returns the inode that a new name gets because a mount still holds what the name
// led to before, and 0 if there is none.
func (j *graft) beneath(parent uint64, name string, from *tree.Inode) uint64 {
	ino, ok := j.e.base.beneath[tree.Link{Parent: parent, Name: name}]
	if !ok || !j.f.Held(Node(j.v.id, ino)) {
		return 0
	}
	if j.askMounted(); len(j.mounted) == 0 {
		return 0
	}
	if n, ok := j.e.base.orphans.get(j.f.src, ino); !ok || n.Type() != from.Type() {
		return 0
	}
	j.stale[Node(j.v.id, ino)] = true
	return ino
}

// rewrite makes a step from one file to another within the inode, if something is mounted
// on that.
func (j *graft) rewrite(s *Step) (done bool, err error) {
	parent, err := j.dirs.find(s.Path.Dir)
	if err != nil || !j.isMountPoint(parent, s.Path.Name, s.A) {
		return false, err
	}
	a, err := j.v.state.Get(j.f.waiting, s.A)
	if err != nil {
		return false, tree.LoadError(err)
	}
	b := s.With
	if b == nil {
		if b, err = j.g.Source.Get(j.f.waiting, s.B); err != nil {
			return false, tree.LoadError(err)
		}
	}
	if len(a.Links) != 1 || !a.IsRegular() || !b.IsRegular() {
		return false, nil
	}
	j.rewritten = s.A
	defer func() { j.rewritten = 0 }()
	j.stale[Node(j.v.id, s.A)] = true
	if err := j.remove(s.Path); err != nil {
		return false, err
	}
	return true, j.put(s)
}
