package actors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUndoByKeepsLinks: what others did, and which names are one file, stays in an undo.
func TestUndoByKeepsLinks(t *testing.T) {
	for _, c := range []struct {
		what      string
		edits     []edit // {} takes a snapshot
		theirs    bool
		conflicts []string
		changed   []string
		want      string // the files afterwards
	}{{
		what: "one links over the file of another and writes",
		edits: []edit{
			{"x", "text", "a", "", 0}, {"alice", "text", "y", "", 0}, {"alice", "write", "y", "", 9}, {"alice", "line", "y", "", 5}, {},
			{"bob", "rm", "y", "", 0}, {"bob", "ln", "a", "y", 0}, {"bob", "write", "a", "", 9},
		},
		want: `a 100644  "0\n1\n2\n3\n4\n5\n6\n7\n" [a]; y 100644  "9\n1\n2\n3\n4\nalice-5\n6\n7\n" [y]; `,
	}, {
		what: "a mode",
		edits: []edit{
			{"x", "create", "a", "", 1}, {"x", "ln", "a", "l", 0}, {"x", "create", "y", "", 1}, {"x", "chmod", "y", "", 40}, {},
			{"bob", "chmod", "a", "", 40}, {"bob", "mv", "l", "y", 0},
		},
		want: `a 100644  "1\n" [a l]; l 100644  "1\n" [a l]; y 100750  "1\n" [y]; `,
	}, {
		what: "a link",
		edits: []edit{
			{"x", "create", "a", "", 1}, {"x", "ln", "a", "b", 0}, {},
			{"bob", "mv", "b", "c", 0}, {"bob", "create", "t", "", 2}, {"bob", "mv", "t", "a", 0},
		},
		want: `a 100644  "1\n" [a b]; b 100644  "1\n" [a b]; `,
	}, {
		what: "one alone",
		edits: []edit{
			{"x", "create", "a", "", 1}, {"x", "create", "y", "", 2}, {},
			{"bob", "rm", "y", "", 0}, {"bob", "ln", "a", "y", 0}, {"bob", "write", "a", "", 1},
		},
		want: `a 100644  "1\n" [a]; y 100644  "2\n" [y]; `,
	}, {
		what: "a directory in the place of a moved file",
		edits: []edit{
			{"x", "create", "a", "", 1}, {}, {"alice", "mv", "a", "c", 0}, {}, {"bob", "mkdir", "a", "", 0}, {"bob", "create", "a/b", "", 2}, {},
			{"alice", "write", "a/b", "", 1},
		},
		theirs: true, conflicts: []string{"a", "a/b"}, changed: []string{"a", "a/b", "c"},
		want: `a 100644  "1\n" [a]; `,
	}, {
		what: "files in a directory that replaced a file",
		edits: []edit{
			{"x", "create", "d", "", 1}, {}, {"alice", "rm", "d", "", 0}, {"alice", "mkdir", "d", "", 0}, {}, {"bob", "create", "d/bob", "", 2},
		},
		theirs: true, conflicts: []string{"d", "d/bob"}, changed: []string{"d", "d/bob"},
		want: `d 100644  "1\n" [d]; `,
	}, {
		what:   "a link to what another made, and no record tells who made which name",
		edits:  []edit{{"bob", "create", "b", "", 1}, {"alice", "ln", "b", "c", 0}},
		theirs: true, conflicts: []string{"b", "c"}, changed: []string{"b", "c"},
	}, {
		what:   "a link of another to what one made",
		edits:  []edit{{"alice", "create", "b", "", 1}, {"bob", "ln", "b", "c", 0}},
		theirs: true, conflicts: []string{"b", "c"}, changed: []string{"b", "c"},
	}} {
		t.Run(c.what, func(t *testing.T) {
			s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
			must.OK(t, err)
			defer s.Close()
			e := editor{s: s, w: s.Main()}
			by := "bob"
			for n, x := range c.edits {
				if x.actor == "" {
					e.capture(t, fmt.Sprint("s", n))
				} else if err := e.do(x); err != nil {
					t.Fatal(x, err)
				}
				if x.actor == "alice" && c.theirs {
					by = "alice"
				}
			}
			before := e.lines(t, e.state(t))
			o := snapshot.UndoByOptions{Actor: by, Merge: diff.Merger{}.Merge}
			if c.theirs {
				done, err := e.w.Snapshots().UndoBy(t.Context(), o)
				if !errors.Is(err, threeway.ErrConflict) || !slices.Equal(done.Conflicts, c.conflicts) {
					t.Errorf("conflicts are %v and not %v: %v", done.Conflicts, c.conflicts, err)
				}
				if got := e.lines(t, e.state(t)); !maps.Equal(got, before) {
					t.Errorf("a conflict changed something: %v", got)
				}
			}
			o.Theirs = c.theirs
			for _, dry := range []bool{true, false} {
				o.DryRun = dry
				done, err := e.w.Snapshots().UndoBy(t.Context(), o)
				must.OK(t, err)
				var changed []string
				for _, p := range done.Paths {
					changed = append(changed, p.Path)
				}
				if c.changed != nil && !slices.Equal(changed, c.changed) {
					t.Errorf("%v are listed, not %v", changed, c.changed)
				}
			}
			got := ""
			after := e.lines(t, e.state(t))
			for _, p := range slices.Sorted(maps.Keys(after)) {
				got += p + " " + after[p] + "; "
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
