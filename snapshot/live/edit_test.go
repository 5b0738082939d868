package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// names returns what the root directory of main has: name, inode number, links, mode and
// target of each.
func names(t *testing.T, f *Forest) (all []string) {
	t.Helper()
	err := f.ReadDirPlus(Node(MainView, RootIno), 0, func(e tree.Dirent, a *Attr, _ uint64) bool {
		all = append(all, fmt.Sprintln(e.Name, a.ID.Ino(), a.Nlink, a.Mode, a.Size))
		return true
	})
	must.OK(t, err)
	slices.Sort(all)
	return all
}

// TestRedoTakesNumbersOfTheRecord: recovery gives each inode the number that the steps
// have, in whatever order they were made, and finds contents that are not sealed.
func TestRedoTakesNumbersOfTheRecord(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
		dir := t.TempDir()
		f := testForestIn(t, vfs.OS, dir)
		root := Node(MainView, RootIno)
		for i := range 3 {
			a, err := f.Create(root, fmt.Sprint("file", i), NewNode{Mode: unix.S_IFREG | 0o644})
			if err == nil {
				_, err = f.Write(a.ID, fmt.Appendf(nil, "content %d", i), 0, false)
			}
			must.OK(t, err)
		}
		_, err := f.Create(root, "link", NewNode{Mode: unix.S_IFLNK | 0o777, Target: "file0"})
		must.OK(t, err)
		var then *tree.State
		must.OK(t, f.Update(true, func(tx *Tx) (err error) {
			then, err = tx.Capture(MainView)
			return err
		}))
		for i := range 3 { // their contents stay in the view, where recovery finds them
			_, err := f.Link(Node(MainView, uint64(i)+2), root, fmt.Sprint("other", i))
			must.OK(t, err)
		}

		e, err := f.Edit(t.Context(), "", MainView)
		must.OK(t, err)
		var steps []graft.Step
		must.OK(t, tree.Diff(t.Context(), f.trees.residentSrc, e.Base(), then, tree.DiffOptions{}, func(c tree.Change) error {
			if c.After != nil && !c.After.IsDir() {
				s := graft.StepOf(c)
				s.Differences = tree.DataDiffers // so that a new inode comes
				steps = append(steps, s)
			}
			return nil
		}))
		link, err := then.Resolve(f.trees.residentSrc, "link")
		must.OK(t, err)
		steps = append(steps, graft.StepOf(tree.Change{Path: (*tree.Path)(nil).ChildUnchecked("link"), Before: link, After: link, Differences: tree.TargetDiffers}))
		if len(steps) != len(order) {
			t.Fatalf("%d steps", len(steps))
		}
		var turned []graft.Step
		for _, i := range order {
			turned = append(turned, steps[i])
		}
		must.OK(t, e.Graft(t.Context(), turned, GraftOptions{Options: graft.Options{Source: then, View: MainView, Now: 5}, RecordSteps: true}))
		must.OK(t, f.Update(false, func(tx *Tx) error {
			b, err := json.Marshal(e.Steps())
			if err == nil {
				err = tx.Append(FirstForeign, b, 0)
			}
			tx.Apply(e)
			return err
		}))
		e.End()
		must.OK(t, create(f, "after"))
		want := names(t, f)
		must.OK(t, f.trees.log.Close())

		again := testForestIn(t, vfs.OS, dir)
		_, err = again.Recovery.Replay(0, false, func(tx *Tx, _ journal.Type, payload []byte) error {
			e, err := tx.Edit(MainView)
			if err != nil {
				return err
			}
			var spans []graft.JournalSpan
			if err := json.Unmarshal(payload, &spans); err != nil {
				return err
			}
			err = e.Redo(spans, 5, 0)
			tx.Apply(e)
			return err
		})
		must.OK(t, err)
		if got := names(t, again); !slices.Equal(got, want) {
			t.Errorf("in order %v there is, after a recovery, %v, and was %v", order, got, want)
		}
		for i := range 3 {
			a, err := again.Lookup(root, fmt.Sprint("file", i))
			must.OK(t, err)
			b := make([]byte, 100)
			if n, err := again.ReadAt(a.ID, b, 0); err != nil || string(b[:n]) != fmt.Sprintf("content %d", i) {
				t.Errorf("file%d has %q, %v", i, b[:n], err)
			}
		}
	}
}
