// Package formats opens a small store of every format that was released, for
// ever. A store that this version creates is written with -update.
package formats

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

var update = flag.Bool("update", false, "write the store of the present format anew")

const present = "testdata/v4.tar.gz"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

// makeStore fills a store: a part that a checkpoint has, and one that only the
// journal has.
func makeStore(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must(t, err)
	f, w := s.Forest(), s.Main()
	create := func(parent live.NodeID, name string, mode uint32, target string) live.NodeID {
		a, err := f.Create(parent, name, live.Create{Mode: mode, Target: target})
		must(t, err)
		return a.ID
	}
	write := func(id live.NodeID, b []byte, off int64) {
		_, err := f.Write(id, b, off, false)
		must(t, err)
	}
	dir1 := create(w.Root(), "dir", unix.S_IFDIR|0o750, "")
	small := create(dir1, "small", unix.S_IFREG|0o640, "")
	write(small, []byte("small\n"), 0)
	_, err = f.Link(small, w.Root(), "linked")
	must(t, err)
	create(w.Root(), "symlink", unix.S_IFLNK|0o777, "dir/small")
	create(w.Root(), "fifo", unix.S_IFIFO|0o600, "")
	large := create(w.Root(), "large", unix.S_IFREG|0o644, "")
	write(large, numbers(300_000), 0)
	write(large, []byte("behind a hole"), 10<<20)
	must(t, f.SetXattr(small, "user.colour", []byte("amber"), 0, false))
	for i := range 200 {
		create(dir1, fmt.Sprintf("many%d", i), unix.S_IFREG|0o600, "")
	}
	_, err = w.Capture(snapshot.CaptureOptions{Name: "first", Message: "of all"})
	must(t, err)
	write(small, []byte("larger now\n"), 0)
	_, err = w.Forks().New(snapshot.ForkOptions{Snapshot: "first", Name: "side"})
	must(t, err)
	must(t, s.Checkpoint(ctx))
	write(small, []byte("journal"), 0)
	_, err = f.Rename(dir1, "many7", w.Root(), "moved", unix.RENAME_WHITEOUT, actors.Caller{UID: 7, GID: 8})
	must(t, err)
	_, err = w.Capture(snapshot.CaptureOptions{Name: "second"})
	must(t, err)
	_, err = w.Restore(ctx, snapshot.RestoreOptions{Name: "first"})
	must(t, err)
	must(t, s.Sync())
	// Not closed: what follows the checkpoint stays in the journal.
	t.Cleanup(func() { s.Close() })
}

func numbers(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.Bytes()[:n]
}

func TestOldStoresOpen(t *testing.T) {
	if *update {
		dir := filepath.Join(t.TempDir(), "store")
		makeStore(t, dir)
		pack(t, dir, present)
	}
	archives, err := filepath.Glob("testdata/*.tar.gz")
	must(t, err)
	if len(archives) == 0 {
		t.Fatal("there is no store to open")
	}
	for _, a := range archives {
		t.Run(filepath.Base(a), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, a, dir)
			s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
			must(t, err)
			check(t, s)
			must(t, s.Close())
			s, err = snapshot.Open(dir, snapshot.Options{Quiet: true})
			must(t, err)
			check(t, s)
			must(t, s.Close())
		})
	}
}

func check(t *testing.T, s *snapshot.Store) {
	t.Helper()
	w := s.Main()
	side, err := w.Forks().Named("side")
	must(t, err)
	now, err := w.State()
	must(t, err)
	fork, err := side.State()
	must(t, err)
	first, err := w.StateOf("first")
	must(t, err)
	second, err := w.StateOf("second")
	must(t, err)
	for name, st := range map[string]*tree.State{"present": now, "fork": fork, "first": first} {
		content(t, s, st, name, "dir/small", []byte("small\n"))
		content(t, s, st, name, "linked", []byte("small\n"))
		content(t, s, st, name, "large", append(append(numbers(300_000), make([]byte, 10<<20-300_000)...), "behind a hole"...))
		n, err := st.Resolve(s.Source(), "linked")
		must(t, err)
		if n.Nlink != 2 || n.Mode != unix.S_IFREG|0o640 || len(n.Xattrs) != 1 || string(n.Xattrs[0].Value) != "amber" {
			t.Errorf("%s: linked is %+v", name, n)
		}
		if l, err := st.Resolve(s.Source(), "symlink"); err != nil || l.Target != "dir/small" {
			t.Errorf("%s: symlink is %+v, %v", name, l, err)
		}
		if d, err := st.Resolve(s.Source(), "dir"); err != nil || d.Dir.Len() != 201 {
			t.Errorf("%s: dir: %v", name, err)
		}
	}
	content(t, s, second, "second", "dir/small", []byte("journalnow\n"))
	moved, err := second.Resolve(s.Source(), "moved")
	must(t, err)
	if o, err := second.Resolve(s.Source(), "dir/many7"); err != nil || o.Mode != unix.S_IFCHR || o.Rdev != 0 || o.UID != 7 || o.GID != 8 || o.Ino <= moved.Ino {
		t.Errorf("the whiteout is %+v, %v", o, err)
	}
	i, err := w.Find("first")
	must(t, err)
	if i.Message != "of all" || i.Seq != 1 {
		t.Errorf("first is %+v", i)
	}
}

func content(t *testing.T, s *snapshot.Store, st *tree.State, name, path string, want []byte) {
	t.Helper()
	n, err := st.Resolve(s.Source(), path)
	must(t, err)
	got := make([]byte, n.Size())
	if _, err := n.Content.ReadAt(s.Source().Files, got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %s has %d bytes %.20q, want %d bytes %.20q (%v)", name, path, len(got), got, len(want), want, err)
	}
}

// pack leaves out what is created again: the index, and space that is only
// reserved.
func pack(t *testing.T, dir, archive string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(archive), 0o755))
	out, err := os.Create(archive)
	must(t, err)
	defer out.Close()
	z := gzip.NewWriter(out)
	w := tar.NewWriter(z)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel != "format" && rel != "manifest" && rel != "manifest.copy" && !strings.HasSuffix(rel, ".pack") && !strings.HasSuffix(rel, ".seg") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: rel, Mode: 0o600, Size: int64(len(b))}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}))
	must(t, w.Close())
	must(t, z.Close())
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	in, err := os.Open(archive)
	must(t, err)
	defer in.Close()
	z, err := gzip.NewReader(in)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		name := filepath.Join(dir, h.Name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		b, err := io.ReadAll(r)
		must(t, err)
		must(t, os.WriteFile(name, b, 0o600))
	}
}

// TestUnknownFormatIsRefused: the message says how an older store's snapshots come over.
func TestUnknownFormatIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"amberfs store 99": "; use the version of amberfs that created it",
		"amberfs store 1":  "; push its snapshots to a remote with the version of amberfs that created it, and pull them with this one",
	} {
		dir := t.TempDir()
		unpack(t, present, dir)
		must(t, os.WriteFile(filepath.Join(dir, "format"), []byte(line+"\n"), 0o600))
		before := listing(t, dir)
		_, err := snapshot.Open(dir, snapshot.Options{})
		if err == nil || !strings.Contains(err.Error(), line) || !strings.HasSuffix(err.Error(), want) {
			t.Fatalf("got %v", err)
		}
		after := listing(t, dir)
		delete(after, "lock")
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("a refused store was touched:\n%v\n%v", before, after)
		}
	}
}

func listing(t *testing.T, dir string) map[string]int64 {
	out := map[string]int64{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		rel, _ := filepath.Rel(dir, path)
		out[rel] = i.Size()
		return err
	}))
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
