// Package packaging_test installs amberfs into a directory of its own, uses
// what exists, and takes it away again.
package packaging_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

const root = "../.."

// files lists what is below dir, without directories.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		out = append(out, rel)
		return err
	}))
	return out
}

func install(t *testing.T, dest string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, "scripts/install"), args...)
	cmd.Env = append(os.Environ(), "DESTDIR="+dest, "PREFIX=/usr", "BIN="+harness.Binary(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("scripts/install %v: %v\n%s", args, err, out)
	}
}

// TestLicencesAreTheSame: packages have the texts, and the same bytes each time.
func TestLicencesAreTheSame(t *testing.T) {
	texts := func() string {
		cmd := exec.Command("packaging/licences", "-texts")
		cmd.Dir = root
		out, err := cmd.Output()
		must.OK(t, err)
		return string(out)
	}
	if first := texts(); first != texts() || !strings.Contains(first, "| Apache-2.0 |") {
		t.Errorf("the texts are another time others, or none: %.200s", first)
	}
}

func TestInstall(t *testing.T) {
	dest := t.TempDir()
	install(t, dest)
	there := files(t, dest)
	for _, want := range []string{
		"usr/bin/amberfs", "usr/sbin/mount.amberfs", "usr/sbin/mount.fuse.amberfs",
		"usr/share/man/man1/amberfs.1", "usr/share/man/man1/amberfs-mount.1", "usr/share/man/man7/amberfs-files.7",
		"usr/share/man/man5/amberfs-policy.5", "usr/share/man/man8/mount.amberfs.8", "usr/share/man/man8/mount.fuse.amberfs.8", "usr/share/bash-completion/completions/amberfs.bash",
		"usr/share/zsh/site-functions/_amberfs", "usr/share/fish/vendor_completions.d/amberfs.fish",
		"usr/lib/systemd/system/amberfs@.service", "usr/lib/systemd/user/amberfs@.service",
		"usr/share/amberfs/apparmor", "usr/share/doc/amberfs/LICENSE", "usr/share/doc/amberfs/licences.md",
	} {
		if !slices.Contains(there, want) {
			t.Errorf("%s is not installed", want)
		}
	}
	if out, err := exec.Command(filepath.Join(dest, "usr/bin/amberfs"), "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "amberfs ") {
		t.Errorf("amberfs version: %v, %s", err, out)
	}
	for _, page := range []string{"man7/amberfs-files.7", "man5/amberfs-policy.5"} {
		b, err := os.ReadFile(filepath.Join(dest, "usr/share/man", page))
		must.OK(t, err)
		if !strings.Contains(string(b), ".TH") || !strings.Contains(string(b), ".SH") || strings.Contains(string(b), "](") || strings.Contains(string(b), ".TS") {
			t.Errorf("%s is no man page: %.300s", page, b)
		}
	}
	install(t, dest, "-u")
	if left := files(t, dest); len(left) > 0 {
		t.Errorf("uninstalling leaves %v", left)
	}
}
