package service

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// What was left outside is in the store after the first checkpoint, as it was when
// the directory was read; a file that changed before it was read is an error, and
// neither what it was nor what it became.
func TestFillLater(t *testing.T) {
	dir, at := t.TempDir(), t.TempDir()
	big := strings.Repeat("all of this is in several chunks\n", 20_000)
	files := map[string]string{"a": "one", "sub/b": "two", "sub/deep/big": big, "empty": "", "changed": "before", "goes": "away"}
	for p, data := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, p), []byte(data), 0o644))
	}
	must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "twin")))
	files["twin"] = "one"
	sparse := filepath.Join(dir, "sparse")
	must(t, os.WriteFile(sparse, nil, 0o644))
	must(t, os.Truncate(sparse, 1<<30))
	s, err := snapshot.Open(at, snapshot.Options{Quiet: true})
	must(t, err)
	must(t, FillLater(context.Background(), s, dir, FillOptions{Show: func(Progress) {}}))
	must(t, os.WriteFile(filepath.Join(dir, "changed"), []byte("behind"), 0o644))
	must(t, os.Remove(filepath.Join(dir, "goes")))
	lost := map[string]bool{"changed": true, "goes": true}
	check := func(s *snapshot.Store, when string) {
		t.Helper()
		st, err := s.Main().State()
		must(t, err)
		for p, want := range files {
			got, err := contentOf(s, st, p)
			switch {
			case lost[p] && (err == nil || !errors.Is(err, errs.Damaged)):
				t.Errorf("%s: %s is %q, %v, not an error that says it is gone", when, p, got, err)
			case !lost[p] && (err != nil || got != want):
				t.Errorf("%s: %s has %d bytes, %v, want %d", when, p, len(got), err, len(want))
			}
		}
		n, err := st.Resolve(s.Source(), "sparse")
		if err != nil || n.Size() != 1<<30 || n.Content.Allocated() != 0 {
			t.Errorf("%s: the sparse file: %v, %v", when, n, err)
		}
	}
	check(s, "before")
	killed := t.TempDir()
	must(t, os.CopyFS(killed, os.DirFS(at)))
	for range 2 { // the first does not copy them either
		report, err := CheckStore(t.Context(), killed, func(Progress) {})
		if err == nil || report == nil || len(report.Affected) != 4 { // in main and in base
			t.Errorf("verify: %+v, %v", report, err)
		}
		again, err := snapshot.Open(killed, snapshot.Options{Quiet: true, Refill: Refill})
		must(t, err)
		check(again, "killed")
		must(t, again.Sync())
		other := t.TempDir()
		must(t, os.CopyFS(other, os.DirFS(killed)))
		must(t, again.Close())
		killed = other
	}
	must(t, BringIn(context.Background(), s))
	must(t, os.RemoveAll(dir))
	delete(files, "changed") // the marks of what is lost are read as a repair left them
	delete(files, "goes")
	check(s, "brought in")
	must(t, s.Close())
	s, err = snapshot.Open(at, snapshot.Options{Quiet: true})
	must(t, err)
	check(s, "opened again")
	must(t, s.Close())
}

// TestFillOfAnother: what a store names as its source is read for its owner alone.
func TestFillOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a store away")
	}
	dir, at := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600))
	s, err := snapshot.Open(at, snapshot.Options{Quiet: true})
	must(t, err)
	defer s.Close()
	must(t, FillLater(t.Context(), s, dir, FillOptions{Show: func(Progress) {}}))
	listed, marked := t.TempDir(), t.TempDir()
	must(t, os.CopyFS(listed, os.DirFS(at)))
	empty, err := snapshot.Open(marked, snapshot.Options{Quiet: true, Filling: dir})
	must(t, err)
	must(t, empty.Close())
	for _, store := range []string{listed, marked} {
		must(t, os.Chown(store, 1, 1))
		if _, err := snapshot.Open(store, snapshot.Options{Quiet: true, Refill: Refill}); errs.Of(err) != errs.Protected {
			t.Errorf("%v", err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contentOf(s *snapshot.Store, st *tree.State, p string) (string, error) {
	n, err := st.Resolve(s.Source(), p)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(n.Content.Reader(s.Source().Files))
	return string(b), err
}

// TestFillOfControlNames: a directory with the name of a control directory at its top is refused.
func TestFillOfControlNames(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".forks"), 0o755))
	for _, fill := range []func(context.Context, *snapshot.Store, string, FillOptions) error{Fill, FillLater} {
		s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
		must(t, err)
		if err := fill(t.Context(), s, dir, FillOptions{Show: func(Progress) {}}); !errors.Is(err, gitbridge.ErrHostile) {
			t.Errorf("filled: %v", err)
		}
		must(t, s.Close())
	}
}
