package actors

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// write makes a version of a file.
func (e editor) write(t testing.TB, name string, text []byte) *tree.Inode {
	t.Helper()
	f, none := e.forest(), int64(0)
	a, err := f.Lookup(e.w.Root(), name)
	if err != nil {
		a, err = f.Create(e.w.Root(), name, live.NewNode{Mode: unix.S_IFREG | 0o644})
	}
	if err == nil {
		_, err = f.SetAttr(a.ID, live.SetAttr{Size: &none})
	}
	for at := 0; err == nil && at < len(text); at += 1 << 20 {
		_, err = f.Write(a.ID, text[at:min(at+1<<20, len(text))], int64(at), false)
	}
	must.OK(t, err)
	st, err := e.w.State()
	must.OK(t, err)
	n, err := st.Resolve(e.s.Source(), name)
	must.OK(t, err)
	return n
}

// TestBlameAgainstGit compares the blame of 30 files with long histories with git's.
func TestBlameAgainstGit(t *testing.T) {
	from := sources(t)
	count := map[string][]string{}
	commit := ""
	for line := range strings.Lines(from.git(t, "log", "--first-parent", "--reverse", "--no-renames", "--diff-filter=AM", "--name-only", "--format=:%H")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, ":") {
			commit = line[1:]
		} else if line != "" {
			count[line] = append(count[line], commit)
		}
	}
	var names []string
	for name, commits := range count {
		if len(commits) >= 8 && path.Ext(name) != ".svg" && path.Ext(name) != ".png" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return 2*(len(count[b])-len(count[a])) + strings.Compare(a, b)
	})
	names = names[:min(30, len(names))]
	s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	lines, different := 0, 0
	for i, name := range names {
		h := from.read(t, count[name], "--no-renames", name)
		r := repo(t.TempDir())
		r.git(t, "init", "-q", "-b", "main")
		var stream bytes.Buffer
		e := editor{s: s, w: s.Main()}
		b := diff.Blame{Source: s.Source(), Cache: new(diff.BlameCache)}
		for n, all := range h.changes {
			all[0].to, all[0].from = "f", "f"
			h.stream(&stream, n+1, all)
			must.OK(t, b.AddVersion(t.Context(), e.write(t, fmt.Sprint("f", i), h.blobs[all[0].blob]), n))
			e.captureAs(t, "")
		}
		_, err = r.try(&stream, "fast-import", "--quiet")
		must.OK(t, err)
		number := map[string]int{}
		for n, c := range strings.Fields(r.git(t, "rev-list", "--reverse", "main")) {
			number[c] = n
		}
		_, got, err := b.Lines(t.Context())
		must.OK(t, err)
		var want []int
		for line := range strings.Lines(r.git(t, "blame", "--line-porcelain", "main", "--", "f")) {
			if f := strings.Fields(line); len(f) > 0 && len(f[0]) == 40 && !strings.HasPrefix(line, "\t") {
				if n, ok := number[f[0]]; ok && len(f) > 2 {
					want = append(want, n)
				}
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d lines, git has %d", name, len(got), len(want))
		}
		lines += len(got)
		for n := range got {
			if got[n] != want[n] {
				different++
				t.Logf("%s:%d is of version %d, for git of version %d", name, n+1, got[n], want[n])
			}
		}
	}
	t.Logf("%d files with %d to %d versions: %d of %d lines differ", len(names), len(count[names[len(names)-1]]), len(count[names[0]]), different, lines)
	if different*100 > lines { // two shortest differences of the same texts can be equally good
		t.Errorf("%d of %d lines differ", different, lines)
	}
}

// BenchmarkBlame follows a file of 5,000 lines through 1,000 versions.
func BenchmarkBlame(b *testing.B) {
	s, err := snapshot.Open(b.TempDir(), snapshot.Options{Quiet: true})
	must.OK(b, err)
	defer s.Close()
	e := editor{s: s, w: s.Main()}
	rnd := rand.New(rand.NewPCG(1, 2))
	var lines []string
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf("\tline %d of a file with some text in it\n", i))
	}
	var versions []*tree.Inode
	for i := range 1000 {
		for range 1 + rnd.IntN(3) {
			at := rnd.IntN(len(lines))
			switch rnd.IntN(3) {
			case 0:
				lines[at] = fmt.Sprintf("\tversion %d\n", i)
			case 1:
				lines = slices.Insert(lines, at, fmt.Sprintf("\tversion %d\n", i), "\n")
			case 2:
				lines = slices.Delete(lines, at, min(at+2, len(lines)))
			}
		}
		versions = append(versions, e.write(b, "f", []byte(strings.Join(lines, ""))))
		e.captureAs(b, fmt.Sprint("v", i))
	}
	_, err = s.Main().Snapshots().WaitSealed(context.Background(), "v999")
	must.OK(b, err)
	cache := new(diff.BlameCache)
	for _, run := range []string{"first", "again"} {
		b.Run(run, func(b *testing.B) {
			for b.Loop() {
				if run == "first" {
					cache = new(diff.BlameCache)
				}
				x := diff.Blame{Source: s.Source(), Cache: cache}
				for n, v := range versions {
					must.OK(b, x.AddVersion(context.Background(), v, n))
				}
				_, _, err := x.Lines(context.Background())
				must.OK(b, err)
			}
		})
	}
}
