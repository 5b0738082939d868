// Package sizes_test runs the commands that move data on trees of the size of real
// work: thousands of small files, and files of many megabytes.
package sizes_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// A size is a tree of files of one length, with contents that do not compress.
type size struct {
	name   string
	files  int
	length int
}

var sizes = []size{
	{"4000 files of 4 KiB", 4000, 4 << 10},
	{"2 files of 5 MB", 2, 5e6},
	{"3 files of 100 MB together", 3, 100_000_000 / 3},
}

// write makes the tree in dir.
func (s size) write(t *testing.T, dir string) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{byte(s.files)})
	b := make([]byte, s.length)
	for i := range s.files {
		_, _ = random.Read(b) // it never fails
		path := filepath.Join(dir, fmt.Sprintf("d%d", i%20), fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// want compares the tree in dir with what write makes.
func (s size) want(t *testing.T, dir string) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{byte(s.files)})
	b := make([]byte, s.length)
	for i := range s.files {
		_, _ = random.Read(b)
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("d%d", i%20), fmt.Sprint(i)))
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("file %d of %s: %d bytes, %v", i, s.name, len(got), err)
		}
	}
}

// amberfs runs a command in dir.
func amberfs(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("amberfs %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The contents of a snapshot that leave the daemon, object by object: run --apply,
// apply and export --git.
func TestObjects(t *testing.T) {
	for _, s := range sizes {
		t.Run(s.name, func(t *testing.T) {
			made, work := t.TempDir(), t.TempDir()
			s.write(t, made)
			amberfs(t, work, "run", "--from", ".", "--apply=yes", "--", "cp", "-r", made, "in")
			s.want(t, filepath.Join(work, "in"))

			m, applied := harness.New(t), t.TempDir()
			s.write(t, m.Dir)
			m.Amberfs("apply", applied)
			s.want(t, applied)

			repo, out := filepath.Join(t.TempDir(), "repo"), t.TempDir()
			git(t, "/", "init", "-q", "-b", "trunk", repo)
			m.Amberfs("snapshot", "v1")
			m.Amberfs("export", "v1", "--git", repo, "--ref", "refs/snapshots/v1")
			git(t, repo, "--work-tree", out, "checkout", "-q", "-f", "refs/snapshots/v1", "--", ".")
			s.want(t, out)
		})
	}
}
