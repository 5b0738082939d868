// Package stores has what the tests of stores share: opening one, and reading and writing its files.
//
// Imported by: tests.
package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

// AfterKill opens a copy of what a store would leave on the disk if it were killed now.
func AfterKill(t *testing.T, s *snapshot.Store, dir string) *snapshot.Store {
	t.Helper()
	must.OK(t, s.Sync())
	killed := filepath.Join(t.TempDir(), "store")
	must.CopyStore(t, killed, dir)
	again, err := snapshot.Open(killed, snapshot.Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() { again.Close() })
	return again
}

// Open opens or makes a store, and closes it at the end of the test.
func Open(t *testing.T, dir string) *snapshot.Store {
	t.Helper()
	s, err := snapshot.Open(dir, snapshot.Options{})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Quiet makes a store without background work, and returns its directory.
func Quiet(t *testing.T) (*snapshot.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s, dir
}

// Capture takes a snapshot with a name.
func Capture(t *testing.T, w *snapshot.Workspace, name string) {
	t.Helper()
	_, err := w.Capture(snapshot.CaptureOptions{Name: name})
	must.OK(t, err)
}

// Write replaces or makes a file.
func Write(t *testing.T, s *snapshot.Store, parent live.NodeID, name, content string) live.NodeID {
	t.Helper()
	f := s.Forest()
	var a live.Attr
	Present(t, func() (err error) {
		a, err = f.Lookup(parent, name)
		if errors.Is(err, errs.NotExist) {
			a, err = f.Create(parent, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		}
		return err
	})
	zero := int64(0)
	Present(t, func() error {
		_, err := f.SetAttr(a.ID, live.SetAttr{Size: &zero})
		return err
	})
	for at := 0; at == 0 || at < len(content); at += 1 << 20 {
		Present(t, func() error {
			_, err := f.Write(a.ID, []byte(content[at:min(at+1<<20, len(content))]), int64(at), false)
			return err
		})
	}
	return a.ID
}

// Present does what must succeed, once what is elsewhere is here.
func Present(t *testing.T, fn func() error) {
	t.Helper()
	must.OK(t, cas.Retry(t.Context(), fn))
}

// Mkdir makes a directory.
func Mkdir(t *testing.T, s *snapshot.Store, parent live.NodeID, name string) live.NodeID {
	t.Helper()
	a, err := s.Forest().Create(parent, name, live.NewNode{Mode: unix.S_IFDIR | 0o755})
	must.OK(t, err)
	return a.ID
}

// Read returns the contents of a file, "(none)" if it does not exist.
func Read(t *testing.T, s *snapshot.Store, parent live.NodeID, name string) string {
	t.Helper()
	var b []byte
	var n int
	err := cas.Retry(t.Context(), func() error {
		a, err := s.Forest().Lookup(parent, name)
		if err == nil {
			b = make([]byte, a.Size+10)
			n, err = s.Forest().ReadAt(a.ID, b, 0)
		}
		return err
	})
	if errors.Is(err, errs.NotExist) {
		return "(none)"
	}
	must.OK(t, err)
	return string(b[:n])
}

// ReadPath returns the contents of a short file of main, by its path.
func ReadPath(t *testing.T, s *snapshot.Store, path string) string {
	t.Helper()
	st, err := s.Main().State()
	must.OK(t, err)
	n, err := st.Resolve(s.Source(), path)
	must.OK(t, err)
	b := make([]byte, 100)
	got, err := n.Content.ReadAt(s.Source().Files, b, 0)
	must.OK(t, err)
	return string(b[:got])
}

// Want compares two texts.
func Want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// FlipIn changes a bit of the first place in a folder's files that holds what.
func FlipIn(t *testing.T, folder, what string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	must.OK(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		must.OK(t, err)
		i := bytes.Index(b, []byte(what))
		if i < 0 {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		must.OK(t, err)
		defer f.Close()
		_, err = f.WriteAt([]byte{b[i] ^ 1}, int64(i))
		must.OK(t, err)
		return
	}
	t.Fatalf("%q is nowhere in %s", what, folder)
}

// MergeLines merges files of as many lines each.
func MergeLines(_ context.Context, f threeway.TextInput, done func(threeway.MergedText) error) error {
	var sides [3][]string
	for k, r := range []io.Reader{f.Base, f.Ours, f.Theirs} {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		sides[k] = strings.Fields(string(b))
	}
	if len(sides[0]) != len(sides[1]) || len(sides[1]) != len(sides[2]) {
		return nil
	}
	merged := ""
	for k := range sides[0] {
		base, ours, theirs := sides[0][k], sides[1][k], sides[2][k]
		switch {
		case theirs == base || theirs == ours:
			merged += ours + "\n"
		case ours == base:
			merged += theirs + "\n"
		default:
			return nil
		}
	}
	return done(threeway.MergedText{Text: []byte(merged), Clean: true})
}

// Listed is "[{path action} …]".
func Listed(paths []graft.PathChange) string {
	short := make([]struct{ path, action string }, len(paths))
	for i, p := range paths {
		short[i].path, short[i].action = p.Path, p.Action
	}
	return fmt.Sprint(short)
}
