package live

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// TestGraftJoinsTheUnchangedName: of two names of one file in the source, one is
// unchanged in the view. The other becomes a name of that inode again, though what is
// there differs in nothing but its links.
func TestGraftJoinsTheUnchangedName(t *testing.T) {
	f := testForestIn(t, vfs.OS, t.TempDir())
	root := Node(MainView, RootIno)
	time := int64(7)
	try := func(a Attr, err error) Attr {
		must.OK(t, err)
		return a
	}
	make := func(name string) Attr {
		a := try(f.Create(root, name, NewNode{Mode: unix.S_IFLNK | 0o777, Target: "x"}))
		return try(f.SetAttr(a.ID, SetAttr{Mtime: &time}))
	}
	a := make("a")
	try(f.Link(a.ID, root, "b"))
	var then *tree.State
	must.OK(t, f.Update(true, func(tx *Tx) (err error) {
		then, err = tx.Capture(MainView)
		return err
	}))
	_, err := f.Unlink(root, "b")
	must.OK(t, err)
	make("b")
	try(f.Link(a.ID, root, "c"))

	e, err := f.Edit(t.Context(), "", MainView)
	must.OK(t, err)
	defer e.End()
	var steps []graft.Step
	must.OK(t, tree.Diff(t.Context(), f.trees.residentSrc, e.Base(), then, tree.DiffOptions{}, func(c tree.Change) error {
		steps = append(steps, graft.StepOf(c))
		return nil
	}))
	must.OK(t, e.Graft(t.Context(), steps, GraftOptions{Options: graft.Options{Source: then, View: MainView, Now: 9}}))
	must.OK(t, f.Update(false, func(tx *Tx) error { tx.Apply(e); return nil }))
	for _, name := range []string{"a", "b"} {
		if n := try(f.Lookup(root, name)); n.ID != a.ID || n.Nlink != 2 {
			t.Errorf("%s is inode %d with %d links, not %d with 2", name, n.ID.Ino(), n.Nlink, a.ID.Ino())
		}
	}
}
