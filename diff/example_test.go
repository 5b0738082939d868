package diff_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The changes since a snapshot, as `git diff` prints them.
func ExampleWrite() {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	s, err := snapshot.Open(dir, snapshot.Options{})
	check(err)
	defer s.Close()

	// A file changes after a snapshot.
	w := s.Main()
	notes, err := s.Forest().Create(w.Root(), "notes", live.NewNode{Mode: unix.S_IFREG | 0o644})
	check(err)
	_, err = s.Forest().Write(notes.ID, []byte("one\ntwo\n"), 0, false)
	check(err)
	_, err = w.Capture(snapshot.CaptureOptions{Name: "v1"})
	check(err)
	_, err = s.Forest().Write(notes.ID, []byte("TWO\n"), 4, false)
	check(err)

	// Held returns a state, which stays readable until its release is called. No name is the present state.
	before, release, err := w.HoldState("v1")
	check(err)
	defer release()
	now, releaseNow, err := w.HoldState("")
	check(err)
	defer releaseNow()
	check(diff.Write(context.Background(), os.Stdout, s.Source(), before, now, diff.Options{}))
	// Output:
	// diff --git a/notes b/notes
	// index 814f4a4..879de50 100644
	// --- a/notes
	// +++ b/notes
	// @@ -1,2 +1,2 @@
	//  one
	// -two
	// +TWO
}

// Two sides changed different lines of a text, and one line differently.
func ExampleMerger() {
	section := func(text string) *io.SectionReader {
		return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
	}
	m := diff.Merger{Show: func(parts []diff.Part) {
		for _, p := range parts {
			fmt.Printf("%s: %q %q\n", p.Kind, p.Ours, p.Theirs)
		}
	}}
	in := threeway.TextInput{Base: section("a\nb\nc\n"), Ours: section("A\nb\nd\n"), Theirs: section("a\nb\ne\n")}
	check(m.Merge(context.Background(), in, func(threeway.MergedText) error { return nil }))
	// Output:
	// ours: ["A\n"] ["a\n"]
	// same: ["b\n"] ["b\n"]
	// conflict: ["d\n"] ["e\n"]
}
