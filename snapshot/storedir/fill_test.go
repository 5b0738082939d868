package storedir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/tests/must"
)

func open(t *testing.T, dir string, o snapshot.Options) *snapshot.Store {
	t.Helper()
	o.Quiet = true
	s, err := snapshot.Open(dir, o)
	must.OK(t, err)
	return s
}

// A store that was not filled to the end is a new one, and says what from.
func TestFilling(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []snapshot.Options{{FillSource: "/src"}, {}, {FillSource: "/src"}} {
		s := open(t, dir, o)
		if from, err := storedir.FillingSource(dir); from != "/src" || err != nil || !s.IsNewOrUnfilled() {
			t.Errorf("it is to be filled from %q, %v, and is new: %v", from, err, s.IsNewOrUnfilled())
		}
		must.OK(t, s.Close())
	}

	s := open(t, dir, snapshot.Options{})
	for range 2 {
		must.OK(t, snapshot.MarkFilled(s))
	}
	must.OK(t, s.Close())

	for _, name := range []string{"filled", "from"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
		s = open(t, dir, snapshot.Options{})
		if from, err := storedir.FilledSource(dir); from != "/src" || err != nil || s.IsNewOrUnfilled() {
			t.Errorf("it was filled from %q, %v, and is new: %v", from, err, s.IsNewOrUnfilled())
		}
		must.OK(t, s.Close())
	}
}

// A store that may not have been on disk before a start of the system is filled again; one that was
// synced is not.
func TestFillTornByAPowerCut(t *testing.T) {
	for name, steps := range map[string]func(s *snapshot.Store, dir string){
		"filling": func(*snapshot.Store, string) {},
		"filled":  func(s *snapshot.Store, _ string) { must.OK(t, snapshot.MarkFilled(s)) },
		"from": func(s *snapshot.Store, dir string) {
			must.OK(t, snapshot.MarkFilled(s))
			must.OK(t, s.Close())
			must.OK(t, open(t, dir, snapshot.Options{}).Close())
		},
	} {
		dir := t.TempDir()
		s := open(t, dir, snapshot.Options{FillSource: "/src"})
		h, err := s.CAS().Put(cas.KindData, []byte("torn"))
		must.OK(t, err)
		steps(s, dir)
		must.OK(t, s.Close())

		mark := filepath.Join(dir, name)
		b, err := os.ReadFile(mark)
		must.OK(t, err)
		must.OK(t, os.WriteFile(mark, []byte(strings.Replace(string(b), process.BootID(), "another boot", 1)), 0o600))

		s = open(t, dir, snapshot.Options{})
		has, err := s.CAS().Has(h)
		must.OK(t, err)
		from, err := storedir.FillingSource(dir)
		must.OK(t, err)
		if torn := name != "from"; has == torn || s.IsNewOrUnfilled() != torn || (from == "/src") != torn {
			t.Errorf("%s: it has the object: %v; is new: %v; is to be filled from %q", name, has, s.IsNewOrUnfilled(), from)
		}
		must.OK(t, s.Close())
	}
}
