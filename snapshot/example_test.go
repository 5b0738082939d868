package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// newExample makes a store in a temporary directory. The function that it returns closes and removes it.
func newExample() (s *snapshot.Store, end func()) {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	s, err = snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{})
	check(err)

	return s, func() {
		check(s.Close())
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// writeText writes a file in the root of a workspace, as a program does through a mount.
func writeText(w *snapshot.Workspace, name, text string) {
	f := w.Store().Forest()
	a, err := f.Lookup(w.Root(), name)
	if err != nil {
		a, err = f.Create(w.Root(), name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		check(err)
	}
	_, err = f.Write(a.ID, []byte(text), 0, false)
	check(err)
}

// readText reads a file in the root of a workspace.
func readText(w *snapshot.Workspace, name string) string {
	f := w.Store().Forest()
	a, err := f.Lookup(w.Root(), name)
	check(err)
	text := make([]byte, a.Size)
	_, err = f.ReadAt(a.ID, text, 0)
	check(err)
	return string(text)
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)

	s, err := snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{})
	check(err)
	writeText(s.Main(), "notes", "kept")
	check(s.Close())

	s, err = snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{})
	check(err)
	fmt.Println(readText(s.Main(), "notes"))
	check(s.Close())
	// Output: kept
}

func ExampleWorkspace_Capture() {
	s, end := newExample()
	defer end()
	writeText(s.Main(), "notes", "first")

	taken, err := s.Main().Capture(snapshot.CaptureOptions{Name: "v1", Message: "before the change"})
	check(err)
	fmt.Println(taken.Name, taken.Message)
	// Output: v1 before the change
}

func ExampleWorkspace_Restore() {
	s, end := newExample()
	defer end()
	w := s.Main()
	writeText(w, "notes", "first")
	_, err := w.Capture(snapshot.CaptureOptions{Name: "v1"})
	check(err)
	writeText(w, "notes", "worse")

	restored, err := w.Restore(context.Background(), snapshot.RestoreOptions{Name: "v1"})
	check(err)
	fmt.Println(readText(w, "notes"))

	_, err = w.Restore(context.Background(), snapshot.RestoreOptions{Name: restored.Undo})
	check(err)
	fmt.Println(readText(w, "notes"))
	// Output:
	// first
	// worse
}

// A fork begins as a snapshot, here, or as the present state. Neither sees the changes of the other.
func ExampleForks_New() {
	s, end := newExample()
	defer end()
	main := s.Main()
	writeText(main, "notes", "first")
	_, err := main.Capture(snapshot.CaptureOptions{Name: "v1"})
	check(err)

	_, err = main.Forks().New(snapshot.ForkOptions{Name: "try", Snapshot: "v1"})
	check(err)
	try, err := main.Forks().Named("try")
	check(err)
	writeText(try, "notes", "other")

	fmt.Println(readText(main, "notes"), readText(try, "notes"))
	// Output: first other
}

func ExampleForks_Merge() {
	s, end := newExample()
	defer end()
	main := s.Main()
	writeText(main, "notes", "first")

	_, err := main.Forks().New(snapshot.ForkOptions{Name: "try"})
	check(err)
	try, err := main.Forks().Named("try")
	check(err)
	writeText(try, "notes", "other")
	writeText(main, "more", "of main")

	_, err = main.Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: "try"})
	check(err)
	fmt.Println(readText(main, "notes"), readText(main, "more"))
	// Output: other of main
}

// HoldState returns the tree of a snapshot, which stays readable until release is called. Walk visits its files.
func ExampleWorkspace_HoldState_walk() {
	s, end := newExample()
	defer end()
	w := s.Main()
	writeText(w, "a", "1")
	writeText(w, "b", "22")
	_, err := w.Capture(snapshot.CaptureOptions{Name: "v1"})
	check(err)
	writeText(w, "c", "333")

	state, release, err := w.HoldState("v1")
	check(err)
	defer release()
	check(state.Walk(context.Background(), s.Source(), tree.WalkOptions{}, func(path *tree.Path, n *tree.Inode) error {
		if n.IsRegular() {
			fmt.Println(path, n.Size())
		}
		return nil
	}))
	// Output:
	// a 1
	// b 2
}
