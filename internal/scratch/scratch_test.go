package scratch

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A directory of a process that has ended is removed, with what is in it; one that is in use,
// a file and a link stay. Many processes may make and sweep at once.
func TestSweep(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	left, err := os.MkdirTemp("", Merge)
	check(t, err)
	check(t, os.MkdirAll(filepath.Join(left, "objects/pack"), 0o700))
	check(t, os.WriteFile(filepath.Join(left, "objects/pack/tmp"), []byte("x"), 0o600))
	file, link := filepath.Join(base, Merge+"file"), filepath.Join(base, Export+"link")
	check(t, os.WriteFile(file, nil, 0o600))
	target := t.TempDir()
	check(t, os.Symlink(target, link))
	used, err := New(Export)
	check(t, err)
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				d, err := New(Import)
				if err == nil {
					err = os.WriteFile(filepath.Join(d.Path, "f"), nil, 0o600)
				}
				if err == nil {
					err = d.Remove()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, path := range []string{used.Path, file, link, target} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	check(t, used.Remove())
	if found, _ := filepath.Glob(filepath.Join(base, "*")); len(found) != 2 {
		t.Errorf("there are %q", found)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
