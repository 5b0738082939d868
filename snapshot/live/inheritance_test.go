package live

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestOrphansOfAnEdit: an inode that an edit removed and that the kernel holds is one of those
// that a checkpoint stores, also before the edit ends.
func TestOrphansOfAnEdit(t *testing.T) {
	f := testForest(t, vfstest.NewMem())
	root := Node(MainView, RootIno)
	var empty *tree.State
	ok := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	ok(f.Update(true, func(tx *Tx) (err error) {
		empty, err = tx.Capture(MainView)
		return err
	}))
	ok(create(f, "held"))
	ok(create(f, "other"))
	held, err := f.Lookup(root, "held")
	ok(err)
	f.Takeover.SetMount(Mount{IsHeld: func(id NodeID) bool { return id == held.ID }})
	_, err = f.Write(held.ID, []byte("content"), 0, false)
	ok(err)

	e, err := f.Edit(t.Context(), "", MainView)
	ok(err)
	defer e.End()
	var steps []graft.Step
	ok(tree.Diff(t.Context(), f.trees.residentSrc, e.Base(), empty, tree.DiffOptions{}, func(c tree.Change) error {
		if c.Before != nil && !c.Before.IsDir() {
			steps = append(steps, graft.StepOf(c))
		}
		return nil
	}))
	ok(e.Graft(t.Context(), steps, GraftOptions{Options: graft.Options{Source: empty, View: MainView, Now: 5}}))
	ok(f.Update(false, func(tx *Tx) error {
		tx.Apply(e)
		return nil
	}))
	ok(f.Update(false, func(tx *Tx) error {
		all, err := tx.Orphans([]uint32{MainView})
		if err != nil {
			return err
		}
		st := all[MainView]
		if st == nil || st.Inodes != 1 {
			t.Fatalf("the orphans are %+v", all)
		}
		n, err := st.Get(f.trees.residentSrc, held.ID.Ino())
		if err == nil && (n.Nlink != 0 || n.Size() != int64(len("content")) || n.Mode != unix.S_IFREG|0o644) {
			t.Errorf("the orphan is %+v", n)
		}
		return err
	}))
}
