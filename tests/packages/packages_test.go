// Package packages_test makes what a release consists of, and uses it as those
// do who get it: a package is installed, mounted from /etc/fstab and by systemd,
// and removed; the image runs in podman; programs for other processors run under
// qemu; examples and workflows are checked by the tools of their makers.
//
//	make test-packages      what continuous integration runs every night
//	make test-release       the same with packages that goreleaser made, twice
//
// It needs what `scripts/setup packages` installs, and root: what is installed
// goes into a copy of this machine's root directory that is gone afterwards
// (overlayfs, in mount and process namespaces of its own).
package packages_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) {
	if os.Getenv("AMBERFS_TEST_PACKAGES") == "" {
		os.Exit(m.Run()) // each is left out
	}
	code := harness.Run(m)
	os.RemoveAll(made.dir)
	os.Exit(code)
}

// wanted leaves a test out of `make test`: it needs more of the machine.
func wanted(t *testing.T) {
	t.Helper()
	if os.Getenv("AMBERFS_TEST_PACKAGES") == "" {
		t.Skip("make test-packages runs it")
	}
}

// top is this repository.
func top(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	must.OK(t, err)
	return dir
}

// tool is a program that scripts/setup has put into bin.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(top(t), "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing: scripts/setup packages", path)
	}
	return path
}

// run runs a command in a directory and returns what it printed.
func run(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	return runWith(t, dir, nil, argv...)
}

func runWith(t *testing.T, dir string, env []string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// clone is a fresh clone of what is committed here, with what is changed.
func clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "amberfs")
	run(t, top(t), "git", "-c", "safe.directory=*", "clone", "-q", ".", dir)
	if diff := run(t, top(t), "git", "-c", "safe.directory=*", "diff", "--binary", "HEAD"); diff != "" {
		cmd := exec.Command("git", "apply", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git apply: %v\n%s", err, out)
		}
	}
	return dir
}

// inRoot runs a script of testdata as root in a copy of this machine's root
// directory; files are copied into its /srv/test. What the script starts is
// killed when it ends.
func inRoot(t *testing.T, script string, files ...string) string {
	t.Helper()
	argv := []string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "testdata/root", t.TempDir(), "testdata/" + script}
	if os.Geteuid() != 0 {
		argv = append([]string{"sudo", "-n"}, argv...)
	}
	return run(t, ".", append(argv, files...)...)
}

// packages is a directory with the packages of a release for this processor:
// the one that AMBERFS_DIST names, or one that nfpm fills here as goreleaser
// would, from the same configuration.
func packages(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("AMBERFS_DIST"); dir != "" {
		return dir
	}
	if made.dir == "" {
		dir, err := os.MkdirTemp("", "amberfs-packages-")
		must.OK(t, err)
		made.dir = build(t, top(t), dir)
	}
	return made.dir
}

// made are the packages that the tests of one run share.
var made struct{ dir string }

// build makes the packages of a checkout.
func build(t *testing.T, source, out string) string {
	t.Helper()
	run(t, source, "packaging/stage")
	b, err := os.ReadFile(filepath.Join(source, ".goreleaser.yaml"))
	must.OK(t, err)
	date := strings.TrimSpace(runWith(t, source, []string{"TZ=UTC"}, "git", "-c", "safe.directory=*", "log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd"))
	var release struct {
		NFPMs []map[string]any `yaml:"nfpms"`
	}
	must.OK(t, yaml.Unmarshal(bytes.ReplaceAll(b, []byte("{{.CommitDate}}"), []byte(date)), &release))
	if len(release.NFPMs) != 1 {
		t.Fatalf(".goreleaser.yaml has %d nfpms", len(release.NFPMs))
	}
	c := release.NFPMs[0]
	formats := c["formats"].([]any)
	c["name"], c["version"], c["arch"], c["platform"] = c["package_name"], "0.0.0", runtime.GOARCH, "linux"
	delete(c, "package_name")
	delete(c, "formats")
	c["contents"] = append(c["contents"].([]any), map[string]any{
		"src": "bin/amberfs", "dst": "/usr/bin/amberfs", "file_info": map[string]any{"mode": 0o755},
	})
	config, err := yaml.Marshal(c)
	must.OK(t, err)
	file := filepath.Join(t.TempDir(), "nfpm.yaml")
	must.OK(t, os.WriteFile(file, config, 0o644))
	for _, format := range formats {
		run(t, source, tool(t, "nfpm"), "package", "--config", file, "--packager", format.(string), "--target", out)
	}
	return out
}

// mine is the package of a format for this processor, as each format calls it.
func mine(t *testing.T, format string) string {
	t.Helper()
	dir := packages(t)
	var found []string
	for _, arch := range []string{runtime.GOARCH, map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]} {
		files, err := filepath.Glob(filepath.Join(dir, "*"+arch+"."+format))
		must.OK(t, err)
		found = append(found, files...)
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d packages %s", dir, len(found), format)
	}
	return found[0]
}
