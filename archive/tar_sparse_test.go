package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// TestSparseEntries: in an archive, a file with large holes takes only as many bytes as its data. This package and
// other programs read the whole file from it. An extended attribute may contain the text of a record of the sparse
// format.
func TestSparseEntries(t *testing.T) {
	const size = 30 << 20
	text := bytes.Repeat([]byte("data"), 3072) // GNU tar reads whole blocks
	parts := []content.DataRange{{Off: 4096, N: int64(len(text))}, {Off: 20 << 20, N: int64(len(text))}}
	want := make([]byte, size)
	for _, p := range parts {
		copy(want[p.Off:], text)
	}
	odd := "a-long-name-" + string(bytes.Repeat([]byte("n"), 200)) + "\xc3\xa9"

	var out bytes.Buffer
	sink := NewTarSink(&out)
	plain := func(name string) stream.Entry {
		return stream.Entry{Path: name, Meta: stream.Meta{Mode: unix.S_IFREG | 0o640, Mtime: 1_700_000_000_123_456_789}, Size: 3, Data: bytes.NewReader([]byte("one"))}
	}
	must.OK(t, sink.Add(plain("before")))
	for _, name := range []string{"sparse", odd, "empty"} {
		e := stream.Entry{Path: name, Meta: plain("").Meta, Size: size, Holes: size, Sparse: true}
		if name != "empty" {
			e.Parts, e.Data = parts, bytes.NewReader(append(bytes.Clone(text), text...))
			e.Xattrs = []tree.Xattr{{Name: "user.a", Value: []byte("\n28 GNU_sparse.name=somewhere\n")}}
		} else {
			e.Data = bytes.NewReader(nil)
		}
		must.OK(t, sink.Add(e))
	}
	must.OK(t, sink.Add(plain("after")))
	must.OK(t, sink.Close())
	if out.Len() > 100_000 || len(sink.Skipped) > 0 || sink.holeBytes != 0 {
		t.Fatalf("%d bytes, and %v are skipped", out.Len(), sink.Skipped)
	}

	check := func(t *testing.T, root string) {
		t.Helper()
		for name, want := range map[string][]byte{"before": []byte("one"), "after": []byte("one"), "sparse": want, odd: want, "empty": make([]byte, size)} {
			f, err := os.Open(filepath.Join(root, name))
			must.OK(t, err)
			defer f.Close()
			h := sha256.New()
			_, err = io.Copy(h, f)
			must.OK(t, err)
			if got := sha256.Sum256(want); !bytes.Equal(h.Sum(nil), got[:]) {
				t.Errorf("%s differs", name)
			}
		}
	}
	t.Run("amberfs", func(t *testing.T) {
		root := t.TempDir()
		must.OK(t, ReadTar(context.Background(), bytes.NewReader(out.Bytes()), func(e stream.Entry) error {
			for _, x := range e.Xattrs {
				if string(x.Value) != "\n28 GNU_sparse.name=somewhere\n" {
					t.Errorf("an attribute of %s is %q", e.Path, x.Value)
				}
			}
			return trees.DiskSink{Root: root}.Add(e)
		}, stream.Options{}))
		check(t, root)
	})
	for _, program := range []string{"tar", "bsdtar"} {
		t.Run(program, func(t *testing.T) {
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("%s is not installed", program)
			}
			root := t.TempDir()
			cmd := exec.Command(program, "-xf", "-", "-C", root)
			cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // bsdtar converts names to the locale
			cmd.Stdin = bytes.NewReader(out.Bytes())
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			check(t, root)
		})
	}
}
