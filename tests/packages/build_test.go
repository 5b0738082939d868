package packages_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// static is the program as it is released for a processor.
func static(t *testing.T, arch string) string {
	t.Helper()
	run(t, top(t), "make", "cross", "ARCHES="+arch)
	return filepath.Join(top(t), "bin/linux-"+arch, "amberfs")
}

func exitStatus(argv []string) int {
	err := exec.Command(argv[0], argv[1:]...).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestStatic: the program needs no library, and has no symbols.
func TestStatic(t *testing.T) {
	wanted(t)
	program := static(t, runtime.GOARCH)
	if out, _ := exec.Command("ldd", program).CombinedOutput(); !strings.Contains(string(out), "not a dynamic executable") {
		t.Errorf("ldd: %s", out)
	}
	if out, _ := exec.Command("go", "tool", "nm", program).CombinedOutput(); !strings.Contains(string(out), "no symbols") {
		t.Errorf("it has symbols: %.200s", out)
	}
}

// TestArchitectures runs the program of another processor under qemu: what
// version says, and a store that is mounted, used and verified. riscv64 takes
// two more minutes to compile, for `make test-release`.
func TestArchitectures(t *testing.T) {
	wanted(t)
	arches := map[string]string{"arm64": "qemu-aarch64-static"}
	if harness.LongTests() || os.Getenv("AMBERFS_DIST") != "" {
		arches["riscv64"] = "qemu-riscv64-static"
	}
	for arch, qemu := range arches {
		t.Run(arch, func(t *testing.T) {
			if arch == runtime.GOARCH {
				t.Skip("that is this machine")
			}
			program := static(t, arch)
			if out := run(t, ".", qemu, program, "version"); !strings.HasSuffix(out, "linux/"+arch+")\n") {
				t.Errorf("version: %s", out)
			}
			dir := t.TempDir()
			point, store := filepath.Join(dir, "ws"), filepath.Join(dir, "store")
			must.OK(t, os.Mkdir(point, 0o755))
			daemon := exec.Command(qemu, program, "mount", "-f", store, point)
			var log bytes.Buffer
			daemon.Stderr = &log
			must.OK(t, daemon.Start())
			t.Cleanup(func() {
				_ = daemon.Process.Kill()
				_ = daemon.Wait()
				_ = exec.Command("umount", "-l", point).Run()
			})
			use := exec.Command("bash", "-euc", `
				for i in $(seq 600); do mountpoint -q . && break; sleep 0.1; cd "$PWD"; done
				echo one >f; mkdir .snapshots/v1; echo two >f
				mv .snapshots/restore .snapshots/restore@v1; cat f; cd /; umount "$0"`, point)
			use.Dir = point
			if out, err := use.CombinedOutput(); err != nil || string(out) != "one\n" {
				t.Fatalf("%v: %s\n%s", err, out, log.String())
			}
			must.OK(t, daemon.Wait())
			// What one processor wrote another one reads.
			run(t, ".", harness.Binary(t), "verify", store)
		})
	}
}

// TestReproducible builds the packages once more, in a clone elsewhere: they are
// the same, byte by byte. `make test-release` does so with goreleaser, and compiles
// everything twice.
func TestReproducible(t *testing.T) {
	wanted(t)
	if os.Getenv("AMBERFS_DIST") != "" {
		t.Skip("scripts/test-release has compared two of goreleaser's")
	}
	first, second := contents(t, packages(t)), contents(t, build(t, clone(t), t.TempDir()))
	if len(first) != 3 {
		t.Errorf("there are %d packages", len(first))
	}
	for name, b := range first {
		if second[name] != b {
			t.Errorf("%s is another the second time", name)
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[d.Name()] = string(b)
		return err
	}))
	return out
}

// TestClean: go mod tidy and go generate leave a checkout as it is.
func TestClean(t *testing.T) {
	wanted(t)
	dir := clone(t)
	run(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "as it is", "--allow-empty")
	run(t, dir, "go", "mod", "tidy")
	run(t, dir, "go", "generate", "./...")
	if out := run(t, dir, "git", "status", "--porcelain"); out != "" {
		t.Errorf("go mod tidy or go generate change\n%s%s", out, run(t, dir, "git", "diff"))
	}
}

// TestGoInstall installs as the docs say, from a repository with a tag and from
// one without: the program knows what it was made of.
func TestGoInstall(t *testing.T) {
	wanted(t)
	dir := clone(t)
	run(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "as it is", "--allow-empty")
	commit := strings.TrimSpace(run(t, dir, "git", "rev-parse", "HEAD"))
	// Other modules come from the ones that are there.
	proxy := "file://" + strings.TrimSpace(run(t, ".", "go", "env", "GOMODCACHE")) + "/cache/download"
	cache := t.TempDir()
	install := func() (v struct{ Version, Go string }) {
		bin := t.TempDir()
		// The repository is here, whatever its address is.
		runWith(t, bin, []string{
			"GOBIN=" + bin, "CGO_ENABLED=0", "GOFLAGS=-trimpath -modcacherw", "GOMODCACHE=" + cache,
			"GOPROXY=" + proxy, "GOSUMDB=off", "GOPRIVATE=github.com/amberfs/amberfs",
			"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=url." + dir + ".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/amberfs/amberfs",
			"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*",
		}, "go", "install", "github.com/amberfs/amberfs/cmd/amberfs@latest")
		must.OK(t, json.Unmarshal([]byte(run(t, bin, filepath.Join(bin, "amberfs"), "version", "--json")), &v))
		return v
	}
	if v := install(); !strings.HasSuffix(v.Version, "-"+commit[:12]) || v.Go != runtime.Version() {
		t.Errorf("without a tag: %+v of commit %s", v, commit)
	}
	run(t, dir, "git", "tag", "v0.1.0")
	if v := install(); v.Version != "v0.1.0" || v.Go != runtime.Version() {
		t.Errorf("with a tag: %+v", v)
	}
}

// TestFromClone: `make run` and `make stop` in a fresh clone.
func TestFromClone(t *testing.T) {
	wanted(t)
	dir := clone(t)
	t.Cleanup(func() { _ = exec.Command("make", "-C", dir, "stop").Run() })
	run(t, dir, "make", "run")
	run(t, filepath.Join(dir, "ws"), "bash", "-euc", `
		test -f README.md; mkdir .snapshots/before; rm -r cmd docs
		mv .snapshots/restore .snapshots/restore@before; test -f docs/README.md`)
	run(t, dir, "make", "stop")
	if m := harness.Mounts(dir); len(m) > 0 {
		t.Errorf("left mounted: %v", m)
	}
}
