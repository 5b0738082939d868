package question

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// planned returns a plan from lines: "A PATH" adds, "D PATH" deletes and "M PATH" changes a path, and "C PATH" is a
// conflict. "T PATH" is a file that was a directory. The path of a directory ends in a slash.
func planned(t *testing.T, lines ...string) (plan []hostdir.PlannedChange) {
	t.Helper()
	for _, l := range lines {
		letter, name, _ := strings.Cut(l, " ")
		p, err := tree.ParsePath(strings.TrimSuffix(name, "/"))
		must.OK(t, err)
		n := &tree.Inode{Mode: unix.S_IFREG | 0o644}
		if strings.HasSuffix(name, "/") {
			n = &tree.Inode{Mode: unix.S_IFDIR | 0o755}
		}
		c := hostdir.PlannedChange{Change: tree.Change{Path: p, Before: n, After: n}, Conflict: letter == "C"}
		switch letter {
		case "A":
			c.Before = nil
		case "D":
			c.After = nil
		case "T":
			c.Before = &tree.Inode{Mode: unix.S_IFDIR | 0o755}
		}
		plan = append(plan, c)
	}
	return plan
}

func names(groups []group) (out []string) {
	for _, g := range groups {
		text := g.changeLetter() + " " + g.printedName()
		if len(g.changes) > 1 {
			text += " " + g.countsText()
		}
		out = append(out, text)
	}
	return out
}

func TestGrouped(t *testing.T) {
	groups, dirs := groupChanges(planned(t, "A .git/objects/1", "A new/", "A new/x", "A empty/", "M a-b", "A a/c", "M .git/HEAD", "C both",
		"D gone/y", "D gone/", "T was", "D was/z", "M rights/", "M rights/f", "A sub/.git/", "A sub/.git/x", "M sub/.hg/a", "D sub/.hg/b"))
	want := []string{"C both", "A a/c", "M a-b", "A empty/", "D gone/y", "A new/x", "M rights/", "M rights/f",
		"M sub/.hg/ 1 file changed, 1 deleted", "M was/ 1 file changed, 1 deleted", "M .git/ 1 file added, 1 changed", "A sub/.git/ 2 files added"}
	if got := names(groups); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := len(dirs); got != 2 {
		t.Errorf("%d directories come and go with others", got)
	}
}

func TestFolded(t *testing.T) {
	lines := []string{"M main.go", "M src/a.go", "M src/b.go", "M .git/index", "C node_modules/p/c"}
	for _, p := range []string{"p", "q", "r"} {
		for _, f := range []string{"1", "2", "3"} {
			lines = append(lines, "A node_modules/"+p+"/"+f)
		}
	}
	both := group{changes: planned(t, "C both", "D gone")}
	if got := both.countsText(); got != "1 file deleted, 1 changed on both sides" {
		t.Errorf("%q", got)
	}
	groups, _ := groupChanges(planned(t, append(lines, "D node_modules/q/4")...))
	for n, want := range map[int][]string{
		20: names(groups),
		6:  {"C node_modules/p/c", "M main.go", "M node_modules/ 9 files added, 1 deleted", "M src/a.go", "M src/b.go", "M .git/"},
		1:  {"C node_modules/p/c", "M main.go", "M node_modules/ 9 files added, 1 deleted", "M src/ 2 files changed", "M .git/"},
	} {
		if got := names(foldGroups(groups, n, ".")); !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got, want := names(foldGroups(groups[2:12], 3, "node_modules")), 3; len(got) != want {
		t.Errorf("below node_modules: %q", got)
	}
}

// TestContains: containsText searches the paths and changed lines of all changes of a group, not only of the first one.
func TestContains(t *testing.T) {
	g := group{dir: "d", changes: planned(t, "A d/first", "A d/second")}
	for i, target := range []string{"one", "Two"} {
		g.changes[i].After = &tree.Inode{Mode: unix.S_IFLNK | 0o777, Target: target}
	}

	for text, want := range map[string]bool{"first": true, "second": true, "one": true, "two": true, "three": false} {
		if got := g.containsText(t.Context(), nil, text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
