package hostile_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
)

// TestExportFromAFork: an export from a fork, or from a fork in it, writes refs of its
// own only, and nobody writes one that git gives a meaning to.
func TestExportFromAFork(t *testing.T) {
	m := harness.New(t)
	export := func(ws, line string) error {
		return os.WriteFile(filepath.Join(ws, ".snapshots", "export"), []byte(line+"\n"), 0o644)
	}
	fork := m.Path(".forks", "f")
	inner := filepath.Join(fork, ".forks", "g")
	for i, ws := range []string{m.Dir, fork, inner} {
		if i > 0 {
			must(t, os.Mkdir(ws, 0o755))
		}
		must(t, os.WriteFile(filepath.Join(ws, "file"), []byte(ws), 0o644))
		must(t, os.Mkdir(filepath.Join(ws, ".snapshots", "v"), 0o755))
		must(t, export(ws, "v"))
	}
	refs := func() string {
		t.Helper()
		out, err := exec.Command("git", "-c", "safe.directory=*", "-C", filepath.Join(m.Store, "git"), "for-each-ref", "--format=%(refname) %(objectname)").Output()
		must(t, err)
		return string(out)
	}
	before := refs()
	for _, ref := range []string{"refs/snapshots/v ", "refs/forks/f/snapshots/v ", "refs/forks/f/g/snapshots/v "} {
		if !strings.Contains(before, ref) {
			t.Errorf("there is no %s: %s", ref, before)
		}
	}
	for _, ref := range []string{
		"refs/snapshots/v", "refs/forks/other/v", "refs/forks/f", "refs/forks/ff/v", "refs/forks/f/../../snapshots/v",
		"refs/heads/main", "refs/tags/v", "refs/replace/v", "refs/stash", "HEAD", "-f",
	} {
		for _, ws := range []string{fork, inner} {
			if err := export(ws, "v "+ref); !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
				t.Errorf("%s from %s: %v", ref, ws, err)
			}
		}
	}
	if err := export(inner, "v refs/forks/f/snapshots/v"); !errors.Is(err, unix.EPERM) {
		t.Errorf("a ref of the fork that it is in: %v", err)
	}
	for _, ref := range []string{"refs/heads/main", "refs/replace/v", "refs/stash", "HEAD"} {
		if err := export(m.Dir, "v "+ref); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s from main: %v", ref, err)
		}
	}
	if after := refs(); after != before {
		t.Errorf("the refs were\n%sand are\n%s", before, after)
	}
}
