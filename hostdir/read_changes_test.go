package hostdir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// TestUnchanged: another file with the same size, owner, permissions and times is read again.
func TestUnchanged(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	must.OK(t, err)
	defer f.Close()
	st, born, err := statusOf(int(f.Fd()), "", unix.AT_EMPTY_PATH)
	must.OK(t, err)
	if born == 0 {
		t.Skip("this file system has no times of birth")
	}
	n := &tree.Inode{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Mtime: timeOf(st.Mtim), Ctime: changeTime(&st), Btime: born}
	dir, name := filepath.Split(f.Name())
	in, err := os.Open(dir)
	must.OK(t, err)
	defer in.Close()
	is := func() (bool, bool) {
		d := &dirReader{}
		return d.isUnchanged(n, born, &st), d.isUnchangedIn(n, int(in.Fd()), name)
	}

	if a, b := is(); !a || !b {
		t.Errorf("the same file is read again: %v, %v", a, b)
	}
	for what, change := range map[string]func(by int64){
		"its birth": func(by int64) { n.Btime += by }, "its content": func(by int64) { n.Mtime += by }, "its status": func(by int64) { n.Ctime += by },
		"its mode": func(by int64) { n.Mode += uint32(by) }, "its owner": func(by int64) { n.UID += uint32(by) }, "its group": func(by int64) { n.GID += uint32(by) },
	} {
		change(1)
		if a, b := is(); a || b {
			t.Errorf("a file that differs in %s is not read: %v, %v", what, a, b)
		}
		change(-1)
	}
}

// objects counts the objects that are read one by one.
type objects struct {
	*trees.Memory
	together map[cas.Hash]bool
	alone    int
}

func (o *objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if !o.together[h] {
		o.alone++
	}
	return o.Memory.Get(h, dst)
}

// TestReadChangesTogether: the pages of inodes are asked for together.
func TestReadChangesTogether(t *testing.T) {
	dir, spec := t.TempDir(), make(trees.Spec)
	for i := range 1000 {
		spec[fmt.Sprintf("f%03d", i)] = trees.File("")
	}
	spec.Write(t, dir)
	o := &objects{trees.NewMemory(), make(map[cas.Hash]bool), 0}
	id, _ := o.Seal(t, o.State(t, spec)).ID()

	read := func(prefetch func([]cas.Hash) error) int {
		o.alone = 0
		src := tree.NewSource(o, nil, 1<<20)
		st, err := tree.Load(src, id)
		must.OK(t, err)
		must.OK(t, ReadChanges(t.Context(), dir, src, st, trees.Discard, ReadOptions{Prefetch: prefetch}))
		return o.alone
	}

	one := read(nil)
	with := read(func(hashes []cas.Hash) error {
		for _, h := range hashes {
			o.together[h] = true
		}
		return nil
	})
	if leaves := 1000 / tree.PageInodes; with > one-leaves || len(o.together) < leaves {
		t.Errorf("%d objects are read one by one, %d without Prefetch, %d together", with, one, len(o.together))
	}
}
