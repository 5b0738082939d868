package archive

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// makeSparse makes a file with parts of 4 KiB and holes between them.
func makeSparse(t *testing.T, name string, parts int) {
	t.Helper()
	f, err := os.Create(name)
	must.OK(t, err)
	defer f.Close()
	for i := range parts {
		_, err := f.WriteAt(bytes.Repeat([]byte{byte('a' + i%26)}, 4096), int64(i)*64<<10+16<<10)
		must.OK(t, err)
	}
	must.OK(t, f.Truncate(int64(parts)*64<<10+10))
}

// TestHolesOfEveryFormat reads archives of sparse files that GNU tar and bsdtar have written.
func TestHolesOfEveryFormat(t *testing.T) {
	dir := t.TempDir()
	long := "a-long-name-" + string(bytes.Repeat([]byte("n"), 200))
	makeSparse(t, filepath.Join(dir, "few"), 3)
	makeSparse(t, filepath.Join(dir, "many"), 500)
	makeSparse(t, filepath.Join(dir, long), 30)
	makeSparse(t, filepath.Join(dir, "none"), 0)
	must.OK(t, os.Truncate(filepath.Join(dir, "none"), 1<<26))
	must.OK(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("plain"), 0o644))
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
			must.OK(t, err)
			root := t.TempDir()
			must.OK(t, ReadTar(context.Background(), bytes.NewReader(data), trees.DiskSink{Root: root}.Add, stream.Options{}))
			for _, f := range []string{"few", "many", long, "plain"} {
				want, err := os.ReadFile(filepath.Join(dir, f))
				must.OK(t, err)
				got, err := os.ReadFile(filepath.Join(root, f))
				must.OK(t, err)
				if !bytes.Equal(got, want) {
					t.Errorf("%s changed", f)
				}
			}
			var st unix.Stat_t
			must.OK(t, unix.Stat(filepath.Join(root, "none"), &st))
			if st.Size != 1<<26 {
				t.Errorf("none is %d bytes long", st.Size)
			}
		})
	}
}

// TestHugeHole: the limit of a stream's bytes also counts holes in sparse files.
func TestHugeHole(t *testing.T) {
	const exabyte = "1152921504606846976"
	data := sparseTar(exabyte, exabyte+"\n0\n", 0)
	if err := ReadTar(context.Background(), bytes.NewReader(data), trees.Discard, stream.Options{}); !errors.Is(err, stream.ErrTooBig) {
		t.Errorf("an exabyte: error %v", err)
	}
}
