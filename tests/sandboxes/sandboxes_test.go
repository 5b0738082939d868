package sandboxes

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// operations is the program that works in a fork.
//
//go:embed testdata/operations.py
var operations string

func TestMain(m *testing.M) {
	if os.Getenv("AMBERFS_TEST_SANDBOXES") == "" {
		fmt.Println("make test-sandboxes runs these tests")
		return
	}
	os.Exit(harness.Run(m))
}

// A sandbox runs a program in a fork: as its working directory, which it may change, with
// Python beside it.
type sandbox struct {
	name string
	// needs are programs, and root whether only root can start it.
	needs []string
	root  bool
	// command is a program with a fork of a mount as working directory.
	command func(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd
}

// differs are the lines that a sandbox has of its own. What that means is in docs/how-to/sandbox.md.
var differs = map[string]map[string]string{
	// No snapshot has the paths that these hide, and a restore counts each.
	"codex": {"restore_by_rename": `('one\n', {'ok': True, 'snapshot': 'v1', 'changed': 5, 'undo': 'cp-3'})`},
	"srt":   {"restore_by_rename": `('one\n', {'ok': True, 'snapshot': 'v1', 'changed': 13, 'undo': 'cp-3'})`},
	// gVisor truncates an open file by its name, unless a process outside opens files for it.
	"gvisor": {"truncated_after_restore": `('', b'new state\n')`},
	// A file that is not cached has no shared mapping before Linux 6.6, and SQLite's WAL has one.
	"virtiofs-rust-6.1": {
		"shared_mapping":     "'OSError: [Errno 19] No such device'",
		"database":           "'OperationalError: disk I/O error'",
		"restore_while_open": "'OSError: [Errno 19] No such device'",
		"removed":            "['cp-8', 't', 'open', 'f1', 'cp-4', 'cp-3', 'v1']",
	},
}

// hidden is a path in a diff that srt hides.
var hidden = regexp.MustCompile(`diff --git a/\.\S+ b/\.\S+\\nnew file mode 100644\\nindex 0000000\.\.e69de29\\n`)

// wants returns the lines of a sandbox, by those without one.
func (s *sandbox) wants(native []string) []string {
	out := slices.Clone(native)
	for i, line := range out {
		operation, _, _ := strings.Cut(line, ":")
		if own, ok := differs[s.name][operation]; ok {
			out[i] = operation + ": " + own
		}
	}
	return out
}

var all = []sandbox{
	{"bubblewrap", []string{"bwrap"}, false, example("bubblewrap")},
	{"runc", []string{"runc"}, true, bundle("runc")},
	{"crun", []string{"crun"}, true, bundle("crun")},
	{"podman", []string{"podman"}, false, podman},
	{"systemd-nspawn", []string{"systemd-nspawn"}, true, nspawn},
	{"gvisor", []string{"runsc"}, true, bundle("runsc", "--directfs=true")},
	{"gvisor-gofer", []string{"runsc"}, true, gofer},
	{"virtiofs", []string{"qemu-system-x86_64"}, true, virtiofs("6.1", "c", "-o timeout=0")},
	{"virtiofs-rust", []string{"qemu-system-x86_64"}, true, virtiofs("6.12", "rust", "--cache never --allow-mmap")},
	{"virtiofs-rust-6.1", []string{"qemu-system-x86_64"}, true, virtiofs("6.1", "rust", "--cache never --allow-mmap")},
	{"codex", []string{"codex"}, false, codex},
	{"srt", []string{"srt", "socat", "rg"}, false, srt},
}

// TestSandboxes runs the operations in two forks of one mount at once, in each sandbox.
// What they print there is what they print without a sandbox.
func TestSandboxes(t *testing.T) {
	var options []string
	if os.Getuid() == 0 {
		options = []string{"-o", "allow_other"}
	}
	m := harness.New(t, options...)
	policy := filepath.Join(t.TempDir(), "policy")
	write(t, policy, `{"interval_seconds":0,"forks":{"unshared_bytes":33554432}}`) // slow machines take no snapshot of their own
	m.Amberfs("policy", policy)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "outside\n")
	other := m.Path(".forks/other")
	must.OK(t, os.Mkdir(other, 0o755))
	native := exec.Command("python3", "-c", operations, "/nowhere/secret", "/nowhere/fork")
	native.Dir = newFork(t, m, "native")
	want := output(t, native)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			if s.root && os.Getuid() != 0 {
				t.Skip("only root can start it")
			}
			harness.SkipWithout(t, s.needs...)
			var wg sync.WaitGroup
			for _, fork := range []string{s.name + "-1", s.name + "-2"} {
				newFork(t, m, fork)
				wg.Go(func() {
					got := output(t, s.command(t, m, fork, []string{"python3", "-c", operations, secret, other}))
					compare(t, fork, got, s.wants(want))
				})
			}
			wg.Wait()
			if b, err := os.ReadFile(secret); err != nil || string(b) != "outside\n" {
				t.Errorf("the file outside is %q: %v", b, err)
			}
			if entries, err := os.ReadDir(other); err != nil || len(entries) > 0 {
				t.Errorf("the other fork has %v: %v", entries, err)
			}
			st, err := os.Stat(os.DevNull)
			must.OK(t, err)
			if st.Mode()&os.ModeCharDevice == 0 {
				t.Errorf("the sandbox left %s as %v", os.DevNull, st.Mode())
			}
			checkActors(t, m, s.name)
		})
	}
}

// checkActors looks who made the snapshots of a fork: behind a gateway it is the fork.
func checkActors(t *testing.T, m *harness.Mount, name string) {
	if !strings.HasPrefix(name, "gvisor") && !strings.HasPrefix(name, "virtiofs") {
		return
	}
	fork := name + "-1"
	var snapshots []struct {
		Name   string   `json:"name"`
		Actors []string `json:"actors"`
	}
	text := m.Amberfs("-C", m.Path(".forks", fork), "list", "--json")
	if err := json.Unmarshal([]byte(text), &snapshots); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, s := range snapshots {
		if s.Name == "cp-3" && !slices.Equal(s.Actors, []string{fork}) {
			t.Errorf("snapshot cp-3 is by %v, want %s", s.Actors, fork)
		}
	}
	if status := m.Amberfs("-C", m.Path(".forks", fork), "status"); !strings.Contains(status, ", for a sandbox") {
		t.Errorf("the status does not name the gateway: %s", status)
	}
}

func newFork(t *testing.T, m *harness.Mount, name string) string {
	t.Helper()
	fork := m.Path(".forks", name)
	must.OK(t, os.Mkdir(fork, 0o755))
	return fork
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o666))
}

// output runs a command and returns the lines of its standard output.
func output(t *testing.T, cmd *exec.Cmd) []string {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v: %s", strings.Join(cmd.Args[:min(len(cmd.Args), 6)], " "), err, &stderr)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func compare(t *testing.T, fork string, got, want []string) {
	for i, line := range want {
		if i == len(got) {
			t.Errorf("%s: nothing from here on: %s", fork, line)
			return
		}
		if strings.HasPrefix(fork, "srt-") {
			got[i] = hidden.ReplaceAllString(got[i], "")
		}
		if got[i] != line {
			t.Errorf("%s:\n got %s\nwant %s", fork, got[i], line)
		}
	}
}

// example is one of the scripts of examples/sandboxes.
func example(name string) func(*testing.T, *harness.Mount, string, []string) *exec.Cmd {
	return func(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd {
		path, err := filepath.Abs(filepath.Join("..", "..", "examples", "sandboxes", name))
		if err != nil {
			t.Error(err)
		}
		return exec.Command(path, append([]string{m.Dir, fork}, argv...)...)
	}
}

// skeleton is a root directory that has the machine's programs when /usr is mounted in it.
func skeleton(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"usr", "etc", "proc", "dev", "tmp", "sys", "run", "work", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if _, err := os.Stat("/usr/" + name); err == nil {
			if err := os.Symlink("usr/"+name, filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
	}
	return dir
}

const programs = "PATH=/usr/local/bin:/usr/bin:/bin"

// bundle is a runtime of the Open Container Initiative.
func bundle(runtime string, options ...string) func(*testing.T, *harness.Mount, string, []string) *exec.Cmd {
	return func(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd {
		type mount struct {
			Destination string   `json:"destination"`
			Type        string   `json:"type"`
			Source      string   `json:"source"`
			Options     []string `json:"options,omitempty"`
		}
		capabilities := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID"}
		namespaces := []map[string]string{}
		for _, kind := range []string{"pid", "mount", "ipc", "uts", "network"} {
			namespaces = append(namespaces, map[string]string{"type": kind})
		}
		config := map[string]any{
			"ociVersion": "1.0.2",
			"process": map[string]any{
				"user": map[string]int{"uid": 0, "gid": 0}, "args": argv, "env": []string{programs}, "cwd": "/work",
				"capabilities": map[string]any{"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
			},
			"root": map[string]any{"path": skeleton(t)},
			"mounts": []mount{
				{"/proc", "proc", "proc", nil},
				{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "mode=755"}},
				{"/tmp", "tmpfs", "tmpfs", []string{"nosuid"}},
				{"/usr", "bind", "/usr", []string{"rbind", "ro"}},
				{"/work", "bind", m.Path(".forks", fork), []string{"rbind", "rw"}},
			},
			"linux": map[string]any{"namespaces": namespaces},
		}
		dir, state := t.TempDir(), t.TempDir()
		text, err := json.Marshal(config)
		if err != nil {
			t.Error(err)
		}
		write(t, filepath.Join(dir, "config.json"), string(text))
		args := []string{"--root", state}
		if runtime == "runsc" {
			args = append(args, "--network", "none", "--platform", "systrap", "--ignore-cgroups")
		}
		args = append(append(args, options...), "run", "--bundle", dir, fork)
		cmd := exec.Command(runtime, args...)
		if runtime == "crun" { // it refuses hybrid cgroups, also where it is to make none
			cmd = exec.Command("unshare", append([]string{"-m", "sh", "-c", `mount -t cgroup2 none /sys/fs/cgroup; exec crun "$@"`, "sh"}, args...)...)
		}
		t.Cleanup(func() {
			_ = exec.Command(runtime, "--root", state, "delete", "--force", fork).Run()
			_ = exec.Command("umount", filepath.Join(state, "null-netns")).Run() // runsc leaves it
		})
		return cmd
	}
}

// gofer is gVisor whose sandbox opens no file itself. It writes as nobody to what others opened
// for it, so commands for the owner of a workspace are written to a file that is renamed.
func gofer(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd {
	return bundle("runsc", "--directfs=false")(t, m, fork, append(argv, "rename"))
}

// podman runs with limits of its own, as machines can have lower ones than its defaults.
func podman(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd {
	conf := filepath.Join(t.TempDir(), "containers.conf")
	write(t, conf, "[containers]\nnetns=\"none\"\ndefault_ulimits=[\"nofile=1024:1024\",\"nproc=1024:1024\"]\n[engine]\nruntime=\"runc\"\n")
	args := []string{"run", "--rm", "-v", "/usr:/usr:ro", "-v", m.Path(".forks", fork) + ":/work", "-w", "/work", "-e", programs, "--rootfs", skeleton(t)}
	cmd := exec.Command("podman", append(args, argv...)...)
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+conf)
	if os.Getuid() == 0 {
		return cmd
	}
	home, err := os.MkdirTemp("/tmp", "podman") // with a path of 50 bytes at most
	if err != nil {
		t.Error(err)
	}
	cmd.Env = append(cmd.Env, "HOME="+home, "XDG_RUNTIME_DIR="+home)
	t.Cleanup(func() {
		if b, err := os.ReadFile(filepath.Join(home, "libpod/tmp/pause.pid")); err == nil { // a process that podman leaves
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		// Not by podman, which would leave another one.
		_ = exec.Command("unshare", "--user", "--map-auto", "--map-root-user", "rm", "-rf", home).Run()
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	return cmd
}

func nspawn(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd {
	dir := skeleton(t)
	write(t, filepath.Join(dir, "etc/os-release"), "ID=none\n")
	args := []string{"--quiet", "--register=no", "--keep-unit", "--pipe", "--private-network", "--machine", fork, "-D", dir,
		"--bind-ro=/usr", "--bind=" + m.Path(".forks", fork) + ":/work", "--chdir=/work", "--setenv=" + programs}
	return exec.Command("systemd-nspawn", append(args, argv...)...)
}

// virtiofs is a virtual machine without KVM, with a guest of scripts/test-kernels and a virtiofsd: that
// of QEMU 7.2, in C, or the one of today, in Rust. With other settings a guest sees old states.
func virtiofs(guest, program, options string) func(*testing.T, *harness.Mount, string, []string) *exec.Cmd {
	return func(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd {
		kernels := filepath.Join("..", "..", "bin", "kernels")
		args := []string{filepath.Join(kernels, guest), m.Path(".forks", fork), program, options}
		return exec.Command("testdata/virtiofs", append(args, argv...)...)
	}
}

// codex is the sandbox in which Codex runs commands, without the agent.
func codex(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd {
	args := []string{"sandbox", "-c", `sandbox_mode="workspace-write"`, // else it lets commands write to /tmp, where the mount is
		"-c", "sandbox_workspace_write.exclude_slash_tmp=true", "-c", "sandbox_workspace_write.exclude_tmpdir_env_var=true", "--"}
	cmd := exec.Command("codex", append(args, argv...)...)
	cmd.Dir = m.Path(".forks", fork)
	home, err := os.MkdirTemp("/var/tmp", "codex") // it refuses the directory for temporary files
	if err != nil {
		t.Error(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home, "HOME="+home)
	return cmd
}

// srt is the sandbox in which Claude Code runs commands.
func srt(t *testing.T, m *harness.Mount, fork string, argv []string) *exec.Cmd {
	dir := m.Path(".forks", fork)
	settings := filepath.Join(t.TempDir(), "settings.json")
	write(t, settings, fmt.Sprintf(`{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":[%q],"denyWrite":[]}}`, dir))
	line := ""
	for _, arg := range argv {
		line += "'" + strings.ReplaceAll(arg, "'", `'\''`) + "' "
	}
	cmd := exec.Command("srt", "--settings", settings, "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	return cmd
}
