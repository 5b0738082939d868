package hostdir

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// hiddenDir makes a directory with hidden files, of which one has another name.
func hiddenDir(t *testing.T) (dir string, h Hidden) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{".env", "keys/k", "conf/.env", "conf/a", "f"} {
		must.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o644))
	}
	must.OK(t, os.Link(filepath.Join(dir, "keys/k"), filepath.Join(dir, "a-link")))

	m, err := hide.New([]string{".env", "keys/"})
	must.OK(t, err)
	return dir, Hidden{Paths: m}
}

// TestReadHidden: hidden files are not read under any of their names, or are read as empty files.
func TestReadHidden(t *testing.T) {
	dir, h := hiddenDir(t)
	read := func(h Hidden) string {
		var got []string
		must.OK(t, Read(context.Background(), dir, func(e stream.Entry) error {
			if got = append(got, e.Path); e.Size > 0 {
				got[len(got)-1] += "+"
			}
			return nil
		}, ReadOptions{Hidden: h}))
		return strings.Join(got, " ")
	}

	if got := read(h); got != ". conf conf/a+ f+" {
		t.Errorf("read: %s", got)
	}
	h.ShowEmpty = true
	if got := read(h); got != ". .env a-link conf conf/.env conf/a+ f+ keys" {
		t.Errorf("read empty: %s", got)
	}

	paths, links, err := FindHidden(context.Background(), dir, h, nil)
	must.OK(t, err)
	if !slices.Equal(paths, []string{".env", "conf/.env", "keys"}) || !slices.Equal(links, []string{"a-link"}) {
		t.Errorf("found %q, and the links %q", paths, links)
	}
	if paths, _, err = FindHidden(context.Background(), dir, h, []string{filepath.Join(dir, "conf")}); err != nil || slices.Contains(paths, "conf/.env") {
		t.Errorf("found %q in a directory that is excluded: %v", paths, err)
	}
}

// TestApplyHidden: an apply changes nothing at hidden paths, whatever the workspace has there.
func TestApplyHidden(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"f": trees.File("old"), "conf": trees.Dir(), "conf/a": trees.File("a")})
	for _, name := range []string{".env", "keys/k", "conf/.env"} {
		a.write(name, "secret")
	}
	must.OK(t, os.Link(filepath.Join(a.dir, "keys/k"), filepath.Join(a.dir, "link")))
	before := has(t, a.dir)

	m, err := hide.New([]string{".env", "keys/"})
	must.OK(t, err)
	now := a.m.State(t, trees.Spec{"f": trees.File("new"), "new": trees.Dir(), ".env": trees.File("own"), "keys": trees.File("a file"), "link": trees.File("own"), "new/.env": trees.File("own"), "new/x": trees.File("x")}) // without conf
	done, err := a.apply(base, now, ApplyOptions{Hidden: Hidden{Paths: m}, ConflictRule: threeway.TakeTheirs, Everything: true})
	must.OK(t, err)

	if want := []string{".env", "keys", "link", "new/.env"}; !slices.Equal(done.Hidden, want) {
		t.Errorf("the hidden paths are %q, not %q", done.Hidden, want)
	}

	after := has(t, a.dir)
	for _, name := range []string{".env", "keys", "keys/k", "link", "conf", "conf/.env"} {
		if after[name] != before[name] || before[name] == "" {
			t.Errorf("%s was %q and is %q", name, before[name], after[name])
		}
	}
	if after["f"] == before["f"] || after["conf/a"] != "" || after["new/x"] == "" || after["new/.env"] != "" {
		t.Errorf("the rest was not applied: %v", after)
	}
}
