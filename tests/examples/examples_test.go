// Package examples_test does with each of examples/ what its page says.
package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// example is the absolute path of something in examples/.
func example(t *testing.T, elem ...string) string {
	t.Helper()
	dir, err := filepath.Abs("../../examples")
	must.OK(t, err)
	if _, err := os.Stat(dir); err != nil {
		dir, err = filepath.Abs("examples") // beside the test's binary
		must.OK(t, err)
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// command is a command that finds the daemon under test as amberfs.
func command(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"),
		"GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CONFIG_SYSTEM=/dev/null/none", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	return cmd
}

// run runs a command and returns what it printed.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := command(t, dir, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte(content), 0o644))
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q, %v; want %q", path, got, err, want)
	}
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is there, %v", path, err)
	}
}

// TestSandboxes: what runs in one changes its fork, and finds no way to
// anything else of the mount.
func TestSandboxes(t *testing.T) {
	for name, probe := range map[string][]string{
		"bubblewrap": {"bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"},
		"unshare":    {"unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			harness.SkipWithout(t, probe[0])
			// Without a mount: a broken one must not look like a missing sandbox.
			if out, err := exec.Command(probe[0], probe[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%s does not work here: %v: %s", probe[0], err, out)
			}
			m := harness.New(t)
			write(t, m.Path("f"), "main's\n")
			must.OK(t, os.Mkdir(m.Path(".forks/other"), 0o755))
			write(t, m.Path(".forks/other/secret"), "the other's\n")
			sandbox := example(t, "sandboxes", name)
			run(t, "/", sandbox, m.Dir, "try", "sh", "-ec", "echo changed > f; mkdir .snapshots/inside; rm f; mv .snapshots/restore .snapshots/restore@inside")
			wantFile(t, m.Path("f"), "main's\n")
			wantFile(t, m.Path(".forks/try/f"), "changed\n")
			for _, script := range []string{"ls .forks/other", "cat .forks/../../other/secret", "cat ../.forks/other/secret"} {
				if out, err := command(t, "/", sandbox, m.Dir, "try", "sh", "-c", script).CombinedOutput(); err == nil || strings.Contains(string(out), "secret") && !strings.Contains(string(out), "No such file") {
					t.Errorf("%s: %v, %s", script, err, out)
				}
			}
			if name == "bubblewrap" {
				if out := run(t, "/", sandbox, m.Dir, "try", "sh", "-c", "ls / | tr '\\n' ' '"); strings.Contains(out, "home") || strings.Contains(out, "etc") {
					t.Errorf("it sees %s", out)
				}
			}
		})
	}
}

// TestPodman runs a container of a static program, as no image can be fetched.
func TestPodman(t *testing.T) {
	harness.SkipWithout(t, "podman", "busybox")
	var options []string
	if os.Getuid() == 0 {
		options = []string{"-o", "allow_other"}
		containersConf(t)
	} else {
		podmanOfItsOwn(t)
	}
	if out, _ := command(t, "/", "podman", "info", "--format", "{{.Host.OCIRuntime.Name}}").Output(); os.Getuid() != 0 && strings.TrimSpace(string(out)) == "runc" {
		t.Skip("runc looks at the mount as the container's root, who is another user; that needs -o allow_other")
	}
	m := harness.New(t, options...)
	root := t.TempDir()
	run(t, "/", "sh", "-ec", "mkdir -p "+root+"/bin && cp $(command -v busybox) "+root+"/bin/busybox && ln -s busybox "+root+"/bin/sh && chmod -R a+rX "+root)
	if out, err := command(t, "/", "sh", "-ec", "tar -C "+root+" -c . | podman import - amberfs-test").CombinedOutput(); err != nil {
		t.Skipf("podman does not work here: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", "amberfs-test").Run() })
	if out, err := command(t, "/", "podman", "run", "--rm", "--network", "none", "amberfs-test", "sh", "-c", "true").CombinedOutput(); err != nil {
		t.Skipf("podman runs no container here: %v\n%s", err, out)
	}
	write(t, m.Path("f"), "main's\n")
	run(t, "/", example(t, "sandboxes/podman"), m.Dir, "try", "amberfs-test", "sh", "-ec", "echo changed > f; busybox mkdir .snapshots/inside")
	wantFile(t, m.Path("f"), "main's\n")
	wantFile(t, m.Path(".forks/try/f"), "changed\n")
	wantFile(t, m.Path(".forks/try/.snapshots/inside/f"), "changed\n")
}

func TestPrograms(t *testing.T) {
	for program, file := range map[string]string{"python3": "checkpoint.py", "node": "checkpoint.mjs"} {
		t.Run(program, func(t *testing.T) {
			harness.SkipWithout(t, program)
			m := harness.New(t)
			out := run(t, "/", program, example(t, "programs", file), m.Dir, "echo kept > f", "rm f; exit 3", "echo more >> f")
			wantFile(t, m.Path("f"), "kept\nmore\n")
			if out != "rm f; exit 3: failed, and undone\n" {
				t.Errorf("it printed %q", out)
			}
		})
	}
}

// TestDevcontainer: the file is one, and what it runs makes a snapshot in the
// fork that is the container's workspace.
func TestDevcontainer(t *testing.T) {
	b, err := os.ReadFile(example(t, "devcontainer/.devcontainer/devcontainer.json"))
	must.OK(t, err)
	var c struct{ Image, RemoteUser, PostStartCommand string }
	must.OK(t, json.Unmarshal(regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAll(b, nil), &c))
	if c.Image == "" || c.RemoteUser == "" {
		t.Errorf("it is %+v", c)
	}
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".forks/dev"), 0o755))
	run(t, m.Path(".forks/dev"), "sh", "-c", c.PostStartCommand)
	if out := run(t, m.Path(".forks/dev"), "sh", "-c", "amberfs list"); !strings.HasPrefix(out, "cp-") {
		t.Errorf("the list is %q", out)
	}
}

func TestExplore(t *testing.T) {
	harness.SkipWithout(t, "python3")
	m := harness.New(t)
	run(t, m.Path(), "python3", example(t, "programs/explore.py"), m.Dir, "9", "3", "cat f", "echo $ATTEMPT > f")
	wantFile(t, m.Path("f"), "3\n")
	if forks, err := os.ReadDir(m.Path(".forks")); err != nil || len(forks) > 0 {
		t.Errorf("%v, %v", forks, err)
	}
}
