package tree

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
)

// TestAffectedTooDeep: a tree that others nested too deep is named, and the rest of it
// is looked at all the same.
func TestAffectedTooDeep(t *testing.T) {
	src := NewSource(newCountingStore(), &sliceLog{}, 1<<20)
	newDir := func(ino uint64, l ...Link) *Inode {
		return &Inode{Ino: ino, Mode: unix.S_IFDIR | 0o755, Nlink: 2, Links: l}
	}
	at := newDir(RootIno)
	s := New(1, at)
	lost := &Inode{Ino: 2, Mode: unix.S_IFREG, Nlink: 1} // does not know its name
	must(0, s.Put(src, 1, lost))
	must(0, at.Dir.Insert(src, 1, Dirent{Name: "lost", Ino: 2, Type: unix.S_IFREG}))
	for i := range MaxDepth + 10 {
		sub := newDir(uint64(3+i), Link{at.Ino, "d"})
		must(0, s.Put(src, 1, sub))
		must(0, at.Dir.Insert(src, 1, Dirent{Name: "d", Ino: sub.Ino, Type: unix.S_IFDIR}))
		at = sub
	}
	var named []int
	err := s.Affected(context.Background(), src, Damage{
		ObjectDamaged: func(cas.Hash) bool { return false },
		LogDamaged:    func(_, _ int64) bool { return false },
	}, func(p string) { named = append(named, len(p)) })
	if err != nil || len(named) != 2 || named[1] != len("lost") {
		t.Errorf("%v, paths of %v bytes", err, named)
	}
}
