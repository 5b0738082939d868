package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
)

func store(t *testing.T) *snapshot.Store {
	t.Helper()
	s, err := snapshot.Open(t.TempDir(), snapshot.Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func builder(t *testing.T, s *snapshot.Store) *Builder {
	t.Helper()
	return New(context.Background(), s.Source(), s.CAS(), Destination{DirMeta: stream.Meta{Mode: 0o755}})
}

func meta(mode uint32) stream.Meta {
	return stream.Meta{Mode: mode, UID: 7, GID: 8, Atime: 1, Mtime: 1_234_567_890_123_456_789,
		Xattrs: []tree.Xattr{{Name: "user.k", Value: []byte("v")}}}
}

func addFile(t *testing.T, b *Builder, p string, data []byte) {
	t.Helper()
	must.OK(t, addTo(b, p, meta(unix.S_IFREG|0o640), int64(len(data)), bytes.NewReader(data)))
}

// addTo adds a file.
func addTo(b *Builder, p string, m stream.Meta, size int64, r io.Reader) error {
	return b.Add(stream.Entry{Path: p, Meta: m, Size: size, Data: r})
}

func linkTo(b *Builder, p, old string) error { return b.Add(stream.Entry{Path: p, Hardlink: old}) }

// finish seals the tree and loads it again, as a reader would.
func finish(t *testing.T, s *snapshot.Store, b *Builder) *tree.State {
	t.Helper()
	built, err := b.Finish()
	must.OK(t, err)
	id, ok := built.ID()
	if !ok {
		t.Fatal("the tree is not sealed")
	}
	st, err := tree.Load(s.Source(), id)
	must.OK(t, err)
	return st
}

func contents(t *testing.T, s *snapshot.Store, st *tree.State, p string) []byte {
	t.Helper()
	n, err := st.Resolve(s.Source(), p)
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	out := make([]byte, n.Size())
	if _, err := n.Content.ReadAt(s.Source().Files, out, 0); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return out
}

func TestBuildsWhatItIsTold(t *testing.T) {
	s := store(t)
	b := builder(t, s)
	big := make([]byte, 3<<20+17)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	must.OK(t, b.Add(stream.Entry{Path: "d", Meta: meta(unix.S_IFDIR | 0o750)}))
	want := map[string][]byte{"big": big, "empty": {}}
	for i := range 200 {
		want[fmt.Sprintf("d/f%d", i)] = bytes.Repeat([]byte{byte(i)}, i*100)
	}
	for p, data := range want {
		addFile(t, b, p, data)
	}
	must.OK(t, b.Add(stream.Entry{Path: "link", Target: "d/f1", Meta: meta(unix.S_IFLNK | 0o777)}))
	must.OK(t, linkTo(b, "hard", "d/f5"))
	want["hard"] = want["d/f5"]
	must.OK(t, b.Add(stream.Entry{Path: "pipe", Meta: meta(unix.S_IFIFO | 0o600)}))
	st := finish(t, s, b)
	var bytesIn int64
	for p, data := range want {
		if got := contents(t, s, st, p); !bytes.Equal(got, data) {
			t.Errorf("%s has %d bytes, other than the %d that came", p, len(got), len(data))
		}
		if p != "hard" {
			bytesIn += int64(len(data))
		}
	}
	if st.Bytes != bytesIn {
		t.Errorf("Bytes = %d, want %d", st.Bytes, bytesIn)
	}
	resolve := func(p string) *tree.Inode {
		n, err := st.Resolve(s.Source(), p)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		return n
	}
	f, hard := resolve("d/f5"), resolve("hard")
	if f.Ino != hard.Ino || f.Nlink != 2 || len(f.Links) != 2 {
		t.Errorf("hard link: %+v and %+v", f, hard)
	}
	if f.Mode != unix.S_IFREG|0o640 || f.UID != 7 || f.GID != 8 || f.Mtime != 1_234_567_890_123_456_789 || len(f.Xattrs) != 1 {
		t.Errorf("attributes: %+v", f)
	}
	if n := resolve("link"); n.Target != "d/f1" || !n.IsSymlink() {
		t.Errorf("symlink: %+v", n)
	}
	if n := resolve("pipe"); n.Type() != unix.S_IFIFO {
		t.Errorf("fifo: %+v", n)
	}
	if d := resolve("d"); d.Nlink != 2 || d.Dir.Len() != 200 || d.Mode != unix.S_IFDIR|0o750 {
		t.Errorf("directory: nlink %d, %d entries, mode %o", d.Nlink, d.Dir.Len(), d.Mode)
	}
	if root := resolve(""); root.Nlink != 3 {
		t.Errorf("root has nlink %d", root.Nlink)
	}
}

func TestLaterEntriesReplaceEarlier(t *testing.T) {
	s := store(t)
	b := builder(t, s)
	addFile(t, b, "f", []byte("first"))
	addFile(t, b, "f", []byte("second, longer"))
	must.OK(t, b.Add(stream.Entry{Path: "d", Meta: meta(unix.S_IFDIR | 0o700)}))
	addFile(t, b, "d/g", []byte("kept"))
	must.OK(t, b.Add(stream.Entry{Path: "d", Meta: meta(unix.S_IFDIR | 0o711)}))
	must.OK(t, linkTo(b, "h", "d/g"))
	must.OK(t, b.Add(stream.Entry{Path: "h", Target: "elsewhere", Meta: meta(unix.S_IFLNK | 0o777)}))
	st := finish(t, s, b)
	if got := string(contents(t, s, st, "f")); got != "second, longer" {
		t.Errorf("f = %q", got)
	}
	if got := string(contents(t, s, st, "d/g")); got != "kept" {
		t.Errorf("d/g = %q", got)
	}
	g, err := st.Resolve(s.Source(), "d/g")
	if err != nil || g.Nlink != 1 || len(g.Links) != 1 {
		t.Errorf("d/g: %+v, %v", g, err)
	}
	if st.Bytes != int64(len("second, longer")+len("kept")) {
		t.Errorf("Bytes = %d", st.Bytes)
	}
	if st.Inodes != 5 { // root, f, d, d/g, h
		t.Errorf("Inodes = %d", st.Inodes)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestHolesStay: long ranges of zeros become holes.
func TestHolesStay(t *testing.T) {
	s := store(t)
	b := builder(t, s)
	data := make([]byte, 5<<20)
	copy(data[1<<20:], "an island")
	copy(data[3<<20:], strings.Repeat("another ", 1000))
	must.OK(t, addTo(b, "sparse", meta(unix.S_IFREG|0o600), int64(len(data)), bytes.NewReader(data)))
	must.OK(t, addTo(b, "hole", meta(unix.S_IFREG|0o600), 1<<30, zeroReader{}))
	must.OK(t, addTo(b, "small", meta(unix.S_IFREG|0o600), 100_000, zeroReader{}))
	st := finish(t, s, b)
	if got := contents(t, s, st, "sparse"); !bytes.Equal(got, data) {
		t.Error("the contents changed")
	}
	for p, limit := range map[string]int64{"sparse": 64 << 10, "hole": 0, "small": 0} {
		n, err := st.Resolve(s.Source(), p)
		must.OK(t, err)
		if got := n.Blocks() * 512; got > limit {
			t.Errorf("%s takes %d bytes", p, got)
		}
	}
}

func TestReadErrors(t *testing.T) {
	s := store(t)
	for _, size := range []int64{10, 1<<20 + 10} {
		b := builder(t, s)
		err := addTo(b, "short", meta(unix.S_IFREG), size, strings.NewReader("short"))
		if err == nil || !strings.Contains(err.Error(), "short") {
			t.Errorf("a file of %d bytes that has 5: %v", size, err)
		}
	}
	b := builder(t, s)
	addFile(t, b, "f", nil)
	if err := addTo(b, "f/below", meta(unix.S_IFREG), 0, strings.NewReader("")); !errors.Is(err, stream.ErrHostile) {
		t.Errorf("a file below a file: %v", err)
	}
	if err := linkTo(b, "x", "nothing"); !errors.Is(err, stream.ErrHostile) {
		t.Errorf("a hard link to nothing: %v", err)
	}
}

func TestCancel(t *testing.T) {
	s := store(t)
	ctx, cancel := context.WithCancel(context.Background())
	b := New(ctx, s.Source(), s.CAS(), Destination{DirMeta: stream.Meta{Mode: 0o755}})
	cancel()
	err := addTo(b, "f", meta(unix.S_IFREG), 3, strings.NewReader("abc"))
	if err == nil {
		_, err = b.Finish()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

func TestBelow(t *testing.T) {
	s := store(t)
	b := New(t.Context(), s.Source(), s.CAS(), Destination{Dir: "a/b", DirMeta: stream.Meta{Mode: 0o755}})
	must.OK(t, b.Add(stream.Entry{Path: ".", Meta: meta(unix.S_IFDIR | 0o705)}))
	addFile(t, b, "f", []byte("x"))
	must.OK(t, linkTo(b, "g", "f"))
	st := finish(t, s, b)
	if got := string(contents(t, s, st, "a/b/g")); got != "x" {
		t.Errorf("a/b/g = %q", got)
	}
	n, err := st.Resolve(s.Source(), "a/b")
	if err != nil || n.Mode != unix.S_IFDIR|0o705 {
		t.Errorf("a/b: %+v, %v", n, err)
	}
}

type failingStore struct{ content.ObjectStore }

var errDisk = errors.New("disk on fire")

func (failingStore) Put(k cas.Kind, b []byte) (cas.Hash, error) { return cas.Hash{}, errDisk }

func TestStoreError(t *testing.T) {
	s := store(t)
	b := New(context.Background(), s.Source(), failingStore{s.CAS()}, Destination{DirMeta: stream.Meta{Mode: 0o755}})
	var err error
	for i := 0; i < 10_000 && err == nil; i++ {
		err = addTo(b, fmt.Sprint("f", i), meta(unix.S_IFREG), 3, io.LimitReader(strings.NewReader(fmt.Sprintf("%03d", i%1000)), 3))
	}
	if err == nil {
		_, err = b.Finish()
	}
	if !errors.Is(err, errDisk) {
		t.Errorf("error = %v", err)
	}
}

// TestAttributesAreBounded: for imported files, the size of the extended attributes has the same limit as for
// setxattr(2).
func TestAttributesAreBounded(t *testing.T) {
	s := store(t)
	for n, want := range map[int]error{live.MaxXattrBytes: nil, live.MaxXattrBytes + 1: errs.TooBig} {
		m := meta(unix.S_IFDIR | 0o755)
		m.Xattrs = []tree.Xattr{{Name: "user.a", Value: make([]byte, n/2-6)}, {Name: "user.b", Value: make([]byte, n-n/2-6)}}
		if err := builder(t, s).Add(stream.Entry{Path: "d", Meta: m}); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
