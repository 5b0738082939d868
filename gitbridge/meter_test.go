package gitbridge

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/archive"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

func treeBytes(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	must.OK(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errs.Ignore(err, fs.ErrNotExist)
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return errs.Ignore(err, fs.ErrNotExist)
	}))
	return bytes
}

// TestExportIsChargedBefore: all bytes that git writes for an export are admitted before. A refused export leaves no
// bytes in the repository and gives all admitted bytes back. A finished export has admitted the bytes that it needs.
func TestExportIsChargedBefore(t *testing.T) {
	isolate(t)
	m := trees.NewMemory()
	rnd := rand.NewChaCha8([32]byte{})
	random := func(n int) string {
		b := make([]byte, n)
		_, _ = rnd.Read(b) // it never fails
		return string(b)
	}
	shared, files := random(2<<20), trees.Spec{".gitattributes": trees.File("*.crlf text\n"), "a.crlf": trees.File(strings.Repeat(random(100)+"\r\n", 20_000))}
	for i := range 12 {
		files[fmt.Sprintf("large%d", i)] = trees.File(shared + random(10))
		files[fmt.Sprintf("zeros%d", i)] = trees.File(strings.Repeat("\x00", 2<<20+i))
	}
	st := m.Seal(t, m.State(t, files))
	whole := int64(0)
	for _, limit := range []int64{1 << 40, 20 << 20, 5 << 20, 0} {
		repo, temp := filepath.Join(t.TempDir(), "git"), t.TempDir()
		t.Setenv("TMPDIR", temp)
		var admitted, before int64
		done, err := Export(context.Background(), ExportOptions{
			Source: m.Src, State: st, Info: testInfo, Repo: repo, Create: true,
			Admit: func(n int64) error {
				if before == 0 {
					before = treeBytes(t, repo)
				}
				there := treeBytes(t, filepath.Join(repo, "objects")) + treeBytes(t, filepath.Join(temp))
				if there > admitted+before+64<<10 { // settings of git
					t.Errorf("%d bytes are there, and %d were admitted", there, admitted)
				}
				if admitted+n > limit {
					return errors.ErrUnsupported
				}
				admitted += n
				return nil
			},
		})
		switch {
		case limit == 1<<40:
			must.OK(t, err)
			whole = admitted
			if there := treeBytes(t, filepath.Join(repo, "objects")); there > whole || whole > there+there/10 {
				t.Errorf("%d bytes are charged for %d", whole, there)
			}
		case !errors.Is(err, errors.ErrUnsupported) || done != nil:
			t.Errorf("a limit of %d bytes, of %d that it takes: %v", limit, whole, err)
		case admitted != 0:
			t.Errorf("%d bytes are not given back", admitted)
		}
		if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// TestMostBytes: an export reads at most ExportOptions.MaxBytes, and leaves out a file that is larger than a disk.
func TestMostBytes(t *testing.T) {
	isolate(t)
	m := trees.NewMemory()
	st := m.State(t, trees.Spec{"small": trees.File("x"), "holes": trees.File("y"), ".gitignore": trees.File("z")})
	for _, name := range []string{"holes", ".gitignore"} {
		n, err := st.Resolve(m.Src, name)
		must.OK(t, err)
		must.OK(t, n.Content.Truncate(m.Src.Files, 1<<62-1))
	}
	o := ExportOptions{Source: m.Src, State: st, Info: testInfo, Repo: filepath.Join(t.TempDir(), "git"), Create: true, MaxBytes: 1 << 20}
	done, err := Export(context.Background(), o)
	must.OK(t, err)
	if done.Files != 1 || len(done.Skipped) != 2 || !strings.Contains(done.Skipped[0].Reason, "holes") {
		t.Errorf("%+v", done)
	}
	small := trees.Spec{}
	for i := range 50 {
		small[fmt.Sprint(i)] = trees.File("x") // each counts as one byte
	}
	o.State = m.State(t, small)
	if _, err := Export(context.Background(), o); err != nil {
		t.Errorf("many small files: %v", err)
	}
	o.State = m.State(t, trees.Spec{"a": trees.File(strings.Repeat("a", 700<<10)), "b": trees.File(strings.Repeat("b", 700<<10))})
	if _, err := Export(context.Background(), o); err == nil || !strings.Contains(err.Error(), "limit reached") {
		t.Errorf("more than the most: %v", err)
	}
}

// TestTarOfLargeHoles: an archive has only the data of a file whose holes have more bytes than a disk.
func TestTarOfLargeHoles(t *testing.T) {
	m := trees.NewMemory()
	st := m.State(t, trees.Spec{"small": trees.File("x"), "holes": trees.File("y")})
	n, err := st.Resolve(m.Src, "holes")
	must.OK(t, err)
	must.OK(t, n.Content.Truncate(m.Src.Files, 1<<62-1))
	var out strings.Builder
	done, err := archive.WriteTar(context.Background(), &out, m.Src, st)
	must.OK(t, err)
	if out.Len() > 64<<10 || done.Files != 3 || len(done.Skipped) != 0 {
		t.Errorf("%d bytes, %+v", out.Len(), done)
	}
	for in := tar.NewReader(strings.NewReader(out.String())); ; {
		h, err := in.Next()
		must.OK(t, err)
		if h.Name != "holes" {
			continue
		}
		data := make([]byte, 2)
		_, err = io.ReadFull(in, data)
		must.OK(t, err)
		if h.Size != 1<<62-1 || string(data) != "y\x00" {
			t.Errorf("%d bytes, %q", h.Size, data)
		}
		return
	}
}
