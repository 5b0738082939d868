package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// makeSparse makes a file with parts of 4 KiB and holes between them.
func makeSparse(t *testing.T, name string, parts int) {
	t.Helper()
	f, err := os.Create(name)
	check(t, err)
	defer f.Close()
	for i := range parts {
		_, err := f.WriteAt(bytes.Repeat([]byte{byte('a' + i%26)}, 4096), int64(i)*64<<10+16<<10)
		check(t, err)
	}
	check(t, f.Truncate(int64(parts)*64<<10+10))
}

// TestHolesOfEveryFormat reads what GNU tar and bsdtar make of sparse files.
func TestHolesOfEveryFormat(t *testing.T) {
	dir := t.TempDir()
	long := "a-long-name-" + string(bytes.Repeat([]byte("n"), 200))
	makeSparse(t, filepath.Join(dir, "few"), 3)
	makeSparse(t, filepath.Join(dir, "many"), 500)
	makeSparse(t, filepath.Join(dir, long), 30)
	makeSparse(t, filepath.Join(dir, "none"), 0)
	check(t, os.Truncate(filepath.Join(dir, "none"), 1<<30))
	check(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("plain"), 0o644))
	for name, args := range map[string][]string{
		"old GNU":    {"tar", "--format=gnu", "-S"},
		"PAX 0.0":    {"tar", "--format=pax", "-S", "--sparse-version=0.0"},
		"PAX 0.1":    {"tar", "--format=pax", "-S", "--sparse-version=0.1"},
		"PAX 1.0":    {"tar", "--format=pax", "-S", "--sparse-version=1.0"},
		"libarchive": {"bsdtar", "--format=pax"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skipf("%s is not installed", args[0])
			}
			cmd := exec.Command(args[0], append(args[1:], "-cf", "-", "-C", dir, ".")...)
			data, err := cmd.Output()
			check(t, err)
			root := t.TempDir()
			sink := &holeSink{diskSink: diskSink{root}, data: map[string]int64{}}
			check(t, ReadTar(context.Background(), bytes.NewReader(data), sink, ImportOptions{}))
			for _, f := range []string{"few", "many", long, "plain"} {
				want, err := os.ReadFile(filepath.Join(dir, f))
				check(t, err)
				got, err := os.ReadFile(filepath.Join(root, f))
				check(t, err)
				if !bytes.Equal(got, want) {
					t.Errorf("%s changed", f)
				}
			}
			for f, n := range map[string]int64{"few": 3 * 4096, "many": 500 * 4096, long: 30 * 4096, "none": 0} {
				if d, ok := sink.data[f]; !ok || d > n+4096 {
					t.Errorf("%s has %d bytes of data, want %d", f, d, n)
				}
			}
			var st unix.Stat_t
			check(t, unix.Stat(filepath.Join(root, "none"), &st))
			if st.Size != 1<<30 {
				t.Errorf("none is %d bytes long", st.Size)
			}
		})
	}
}

// TestHugeHole: a hole is bounded as data is.
func TestHugeHole(t *testing.T) {
	sink := &holeSink{diskSink: diskSink{t.TempDir()}, data: map[string]int64{}}
	read := func(size string) error {
		return ReadTar(context.Background(), bytes.NewReader(sparseTar(size, size+"\n0\n", 0)), sink, ImportOptions{Limits: Limits{Bytes: 1 << 32}})
	}
	if err := read("1152921504606846976"); !errors.Is(err, ErrTooBig) {
		t.Errorf("an exabyte: error %v", err)
	}
	check(t, read("4000000000"))
	if d, ok := sink.data["sparse"]; !ok || d != 0 || sink.sizes != 4_000_000_000 {
		t.Errorf("%d bytes of data, size %d", d, sink.sizes)
	}
}

// holeSink writes sparse files with their holes, and counts what is none.
type holeSink struct {
	diskSink
	data  map[string]int64
	sizes int64
}

func (s *holeSink) File(p string, m Meta, size int64, r io.Reader) error {
	sparse, ok := r.(SparseReader)
	if !ok {
		return s.diskSink.File(p, m, size, r)
	}
	s.data[p] = 0
	s.sizes += size
	const onDisk = 1 << 40
	f, err := os.Create(s.at(p))
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		at, err := sparse.Next()
		if err == io.EOF {
			return f.Truncate(min(size, onDisk))
		}
		if err != nil {
			return err
		}
		n, err := io.Copy(io.NewOffsetWriter(f, at), onlyReader{sparse})
		if err != nil {
			return err
		}
		s.data[p] += n
	}
}

type onlyReader struct{ io.Reader }
