package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

func treeBytes(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	must.OK(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignore(err, fs.ErrNotExist)
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return ignore(err, fs.ErrNotExist)
	}))
	return bytes
}

// TestExportIsChargedBefore: whatever git has written of an export was admitted before, one
// that is refused leaves nothing and gives all back, and one that ends has what it needs.
func TestExportIsChargedBefore(t *testing.T) {
	isolate(t)
	m := newMemory()
	rnd := rand.NewChaCha8([32]byte{})
	random := func(n int) string {
		b := make([]byte, n)
		_, _ = rnd.Read(b) // it never fails
		return string(b)
	}
	shared, files := random(2<<20), spec{".gitattributes": file("*.crlf text\n"), "a.crlf": file(strings.Repeat(random(100)+"\r\n", 20_000))}
	for i := range 12 {
		files[fmt.Sprintf("large%d", i)] = file(shared + random(10))
		files[fmt.Sprintf("zeros%d", i)] = file(strings.Repeat("\x00", 2<<20+i))
	}
	st := m.seal(t, m.state(t, files))
	whole := int64(0)
	for _, limit := range []int64{1 << 40, 20 << 20, 5 << 20, 0} {
		repo, temp := filepath.Join(t.TempDir(), "git"), t.TempDir()
		t.Setenv("TMPDIR", temp)
		var admitted, before int64
		done, err := Export(context.Background(), ExportOptions{
			Source: m.src, State: st, Info: testInfo, Repo: repo, Create: true,
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

// TestMostBytes: an export reads no more bytes than it may, and leaves out a file that is
// larger than a disk.
func TestMostBytes(t *testing.T) {
	isolate(t)
	m := newMemory()
	st := m.state(t, spec{"small": file("x"), "holes": file("y"), ".gitignore": file("z")})
	for _, name := range []string{"holes", ".gitignore"} {
		n, err := st.Resolve(m.src, name)
		must.OK(t, err)
		must.OK(t, n.Content.Truncate(m.src.Files, 1<<62-1))
	}
	o := ExportOptions{Source: m.src, State: st, Info: testInfo, Repo: filepath.Join(t.TempDir(), "git"), Create: true, Most: 1 << 20}
	done, err := Export(context.Background(), o)
	must.OK(t, err)
	if done.Files != 1 || len(done.Skipped) != 2 || !strings.Contains(done.Skipped[0].Reason, "holes") {
		t.Errorf("%+v", done)
	}
	o.State = m.state(t, spec{"a": file(strings.Repeat("a", 700<<10)), "b": file(strings.Repeat("b", 700<<10))})
	if _, err := Export(context.Background(), o); err == nil || !strings.Contains(err.Error(), "limit reached") {
		t.Errorf("more than the most: %v", err)
	}
}

// TestMergeInParts: no temporary directory has more than a few files of a merge, a file that
// takes more memory than there is does not merge, and no result is stored that was refused.
func TestMergeInParts(t *testing.T) {
	isolate(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	big := strings.Repeat(strings.Repeat("0123456789", 34)+"\n", 40_000)
	section := func(s string) *io.SectionReader { return io.NewSectionReader(strings.NewReader(s), 0, int64(len(s))) }
	files := func() (files []threeway.Input) {
		for range 2 {
			files = append(files, threeway.Input{Base: section(big), Ours: section("first\n" + big), Theirs: section(big + "last\n")})
		}
		return append(files, threeway.Input{Base: section("a\nb\nc\n"), Ours: section("A\nb\nc\n"), Theirs: section("a\nb\nC\n")})
	}
	most, merged, dirsMade, last := 0, 0, 0, ""
	clean := func(_ int, size int64, r io.Reader) error {
		dirs, _ := filepath.Glob(filepath.Join(temp, "*"))
		most = max(most, len(dirs))
		if len(dirs) > 0 && dirs[0] != last {
			last = dirs[0]
			dirsMade++
		}
		merged++
		n, err := io.Copy(io.Discard, r)
		if n != size {
			t.Errorf("%d bytes of %d", n, size)
		}
		return err
	}
	must.OK(t, Merger{}.Merge(context.Background(), files(), clean))
	if merged != 3 || most != 1 || dirsMade < 2 {
		t.Errorf("%d files merged, in %d directories", merged, most)
	}
	merged = 0
	must.OK(t, Merger{Memory: budget.New(64 << 20)}.Merge(context.Background(), files(), clean))
	if merged != 1 {
		t.Errorf("%d files merge in little memory", merged)
	}
	merged = 0
	refused := Merger{Admit: func(int64) error { return errors.ErrUnsupported }}
	if err := refused.Merge(context.Background(), files()[2:], clean); !errors.Is(err, errors.ErrUnsupported) || merged != 0 {
		t.Errorf("%d are stored: %v", merged, err)
	}
}

// TestTarLeavesOutHoles: an archive has no file with more holes than a disk has bytes, and says
// what to do with it.
func TestTarLeavesOutHoles(t *testing.T) {
	m := newMemory()
	st := m.state(t, spec{"small": file("x"), "holes": file("y")})
	n, err := st.Resolve(m.src, "holes")
	must.OK(t, err)
	must.OK(t, n.Content.Truncate(m.src.Files, 1<<62-1))
	var out strings.Builder
	done, err := WriteTar(context.Background(), &out, m.src, st)
	must.OK(t, err)
	if out.Len() > 64<<10 || done.Files != 2 || len(done.Skipped) != 1 || !strings.Contains(done.Skipped[0].Reason, "cp --sparse") {
		t.Errorf("%d bytes, %+v", out.Len(), done)
	}
}
