package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

var errNoRemote = errors.New("there is no such remote")

// fails is how a store is opened that cannot begin with its remote.
var fails = Options{Quiet: true, Connect: func(ConnectArgs) (tree.RemoteObjects, *StartSnapshot, error) { return nil, nil, errNoRemote }}

// An opening that fails removes what it made, and nothing else.
func TestFailedOpeningRemovesWhatItMade(t *testing.T) {
	t.Run("a new directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		if _, err := Open(dir, fails); !errors.Is(err, errNoRemote) {
			t.Fatal(err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is left: %v", err)
		}
	})
	t.Run("an empty directory", func(t *testing.T) {
		dir := t.TempDir()
		must.OK(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
		if _, err := Open(dir, fails); !errors.Is(err, errNoRemote) {
			t.Fatal(err)
		}
		if left := entryNames(t, dir); len(left) != 1 || left[0] != "lost+found" {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("other things", func(t *testing.T) {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, "diary"), nil, 0o600))
		must.OK(t, os.WriteFile(filepath.Join(dir, "lock"), []byte("mine"), 0o600))
		if _, err := Open(dir, fails); err == nil {
			t.Fatal("it opens")
		}
		if b, err := os.ReadFile(filepath.Join(dir, "lock")); len(entryNames(t, dir)) != 2 || string(b) != "mine" {
			t.Errorf("left: %v, %q, %v", entryNames(t, dir), b, err)
		}
	})
	t.Run("a store", func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(dir, Options{Quiet: true})
		must.OK(t, err)
		must.OK(t, s.Close())
		before := entryNames(t, dir)
		if _, err := Open(dir, fails); !errors.Is(err, errNoRemote) {
			t.Fatal(err)
		}
		if len(entryNames(t, dir)) < len(before) {
			t.Errorf("left: %v of %v", entryNames(t, dir), before)
		}
		s, err = Open(dir, Options{Quiet: true})
		must.OK(t, err)
		must.OK(t, s.GiveUp()) // it was there before
		s, err = Open(dir, Options{Quiet: true})
		must.OK(t, err)
		must.OK(t, s.Close())
	})
	t.Run("a store that another process makes", func(t *testing.T) {
		dir := t.TempDir()
		lock, err := os.Create(filepath.Join(dir, "lock"))
		must.OK(t, err)
		defer lock.Close()
		must.OK(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
		var locked *storedir.LockedError
		if _, err := Open(dir, fails); !errors.As(err, &locked) {
			t.Errorf("it is %v, want a LockedError", err)
		}
		if left := entryNames(t, dir); len(left) != 1 {
			t.Errorf("there is %v besides the other's lock", left)
		}
	})
}

func TestGiveUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{})
	must.OK(t, err)
	must.OK(t, s.GiveUp())
	if left := entryNames(t, filepath.Dir(dir)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func entryNames(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
