package examples_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// inContainer is run by root of a container: it takes a snapshot, changes its root directory
// beneath what is mounted there, and restores it from within.
const inContainer = `
test "$(id -u)" = 0
echo one > /file; mkdir -p /opt/d; echo kept > /opt/d/file
mkdir /.snapshots/x
rm -rf /opt /usr /etc 2>/dev/null || true
echo two > /file; echo new > /new
mounts=$(mount)
mv /.snapshots/restore /.snapshots/restore@x
test "$(mount)" = "$mounts"
test "$(cat /file)" = one; test "$(cat /opt/d/file)" = kept; test -d /usr; test ! -e /new
echo x > /dev/null; test -d /proc/1
if [ "$1" = bound ]; then test -s /etc/resolv.conf; test -s /etc/hosts; fi
`

// system is a root directory with busybox and nothing else. Its resolv.conf is a link to nothing, as
// systemd-resolved makes it.
func system(t *testing.T) string {
	t.Helper()
	harness.SkipWithout(t, "busybox")
	dir := t.TempDir()
	run(t, "/", "sh", "-ec", `cd "$1" && mkdir bin etc usr && cp "$(command -v busybox)" bin/busybox &&
		for name in sh id mkdir rm mv cat mount test true sleep chown; do ln -s busybox bin/$name; done &&
		echo root:x:0:0:root:/root:/bin/sh > etc/passwd && ln -s ../run/resolv.conf etc/resolv.conf && chmod -R a+rX .`, "sh", dir)
	return dir
}

// TestContainers runs each container engine with a fork as its root directory.
func TestContainers(t *testing.T) {
	root := system(t)
	containersConf(t)
	started := false
	for name, probe := range map[string][]string{
		"bubblewrap":     {"bwrap", "--unshare-pid", "--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "true"},
		"runc":           {"sh", "-ec", `cd "$2" && runc spec $3 && sed -i 's|"rootfs"|"'"$1"'"|; s/"terminal": true/"terminal": false/' config.json && runc --root "$2" run probe`, "sh", root, t.TempDir(), rootless()},
		"podman":         {"podman", "run", "--rm", "--rootfs", root, "true"},
		"systemd-nspawn": {"systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe", "-D", root, "/bin/true"},
	} {
		t.Run(name, func(t *testing.T) {
			harness.SkipWithout(t, strings.Replace(name, "bubblewrap", "bwrap", 1))
			if name == "podman" && os.Getuid() != 0 {
				t.Skip("TestRootlessPodmanWithSubordinateIds is this as an ordinary user")
			}
			if out, err := exec.Command(probe[0], probe[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%s does not work here: %v: %s", name, err, out)
			}
			options := []string{"--from", root}
			if os.Getuid() == 0 {
				options = append(options, "-o", "allow_other")
			}
			m := harness.New(t, options...)
			bound := "bound"
			if name == "systemd-nspawn" || name == "podman" {
				bound = "" // one copies resolv.conf, the other has no network here
			}
			run(t, "/", example(t, "containers", name), m.Dir, "c", "/bin/sh", "-ec", inContainer, "sh", bound)
			wantFile(t, m.Path(".forks/c/file"), "one\n")
			wantGone(t, m.Path("file"))
			shell := command(t, "/", example(t, "containers", name), m.Dir, "c", "/bin/sh")
			shell.Stdin = strings.NewReader("exit 7\n")
			out, err := shell.CombinedOutput()
			if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 7 {
				t.Errorf("exit status: %v: %s", err, out)
			}
			discardUsed(t, m, command(t, "/", example(t, "containers", name), m.Dir, "c", "/bin/sh", "-c", "echo > /started; while test -e /started; do sleep 0.1; done"))
			started = started || !t.Failed()
		})
	}
	if !started && os.Getuid() == 0 {
		t.Error("no engine has started a container")
	}
}

// discardUsed: a fork that is the root directory of a container is neither discarded nor removed.
func discardUsed(t *testing.T, m *harness.Mount, cmd *exec.Cmd) {
	t.Helper()
	must.OK(t, cmd.Start())
	harness.Eventually(t, "the container has started", func() bool {
		_, err := os.Stat(m.Path(".forks/c/started"))
		return err == nil
	})
	out, err := m.TryAmberfs("fork", "--discard", "c")
	if err == nil || !strings.Contains(out, " the fork c as root or working directory") {
		t.Errorf("a fork in use is discarded: %v: %s", err, out)
	}
	if err := os.Remove(m.Path(".forks/c")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("rmdir of a fork in use: %v", err)
	}
	if why, err := os.ReadFile(m.Path(".snapshots/fork")); err != nil || !strings.Contains(string(why), " the fork c as root") {
		t.Errorf("the reason is %q, %v", why, err)
	}
	must.OK(t, os.Remove(m.Path(".forks/c/started")))
	must.OK(t, cmd.Wait())
	harness.Eventually(t, "the last process of the container has ended", func() bool { return os.Remove(m.Path(".forks/c")) == nil })
}

// containersConf configures podman for machines with hybrid cgroups, low limits and without /dev/net/tun.
func containersConf(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "containers.conf")
	write(t, conf, "[containers]\nnetns=\"none\"\ndefault_ulimits=[\"nofile=1024:1024\",\"nproc=1024:1024\"]\n[engine]\nruntime=\"runc\"\n")
	t.Setenv("CONTAINERS_CONF", conf)
}

// unshared runs in `podman unshare`, in an empty directory.
const unshared = `
amberfs mount -o allow_other --from "$1" store mnt
trap 'cd ..; amberfs umount mnt' EXIT
cd mnt
for engine in podman runc bubblewrap; do
	"$2/$engine" . $engine /bin/sh -ec "$3" sh
	test "$(cat .forks/$engine/file)" = one
	status=0
	"$2/$engine" . $engine /bin/sh -c 'chown 5:7 /file; exit 7' || status=$?
	test $status = 7
	test "$(stat -c %u:%g .forks/$engine/file)" = 5:7
	"$2/$engine" . $engine /bin/sh -c 'echo > /started; while test -e /started; do sleep 0.1; done' &
	until test -e .forks/$engine/started; do sleep 0.1; done
	if rmdir .forks/$engine; then exit 1; fi
	rm .forks/$engine/started
	wait $!
	rmdir .forks/$engine
done
if "$2/systemd-nspawn" . nspawn true 2>/dev/null; then exit 1; fi
test ! -e .forks/nspawn
`

// TestContainersWithoutRights: what an ordinary user does not have is said before anything starts.
func TestContainersWithoutRights(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("needs an ordinary user")
	}
	m, bin := harness.New(t, "--from", system(t)), t.TempDir() // without the engines
	for _, tool := range []string{"sh", "id", "mkdir", "realpath", "env", "python3"} {
		path, err := exec.LookPath(tool)
		must.OK(t, err)
		must.OK(t, os.Symlink(path, filepath.Join(bin, tool)))
	}
	for engine, says := range map[string]string{
		"bubblewrap": "only root exists", "runc": "only root exists", "podman": "only root can use the fork", "systemd-nspawn": "only root can start it",
	} {
		cmd := command(t, "/", example(t, "containers", engine), m.Dir, engine, "/bin/true")
		cmd.Env = append(cmd.Env, "PATH="+bin)
		if out, _ := cmd.CombinedOutput(); !strings.HasPrefix(string(out), engine+": "+says) {
			t.Errorf("%s prints %q", engine, out)
		}
	}
	if _, err := os.Stat(m.Path(".forks/systemd-nspawn")); err == nil {
		t.Error("there is a fork for a container that cannot start")
	}
}

// podmanOfItsOwn gives an ordinary user's podman directories that nobody else uses, and ends the
// process that it leaves.
func podmanOfItsOwn(t *testing.T) {
	state, err := os.MkdirTemp("/tmp", "podman") // with a path of 50 bytes at most
	must.OK(t, err)
	t.Setenv("HOME", state)
	t.Setenv("XDG_RUNTIME_DIR", state)
	t.Cleanup(func() {
		run(t, "/", "podman", "unshare", "true") // the process that it leaves is there now
		b, err := os.ReadFile(filepath.Join(state, "libpod/tmp/pause.pid"))
		must.OK(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		must.OK(t, err)
		run(t, "/", "podman", "unshare", "rm", "-rf", state)
		must.OK(t, os.RemoveAll(state)) // what podman made meanwhile
		must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
	})
}

// TestRootlessPodmanWithSubordinateIds runs the engines in a mount in `podman unshare`, where
// files have other owners than root.
func TestRootlessPodmanWithSubordinateIds(t *testing.T) {
	harness.SkipWithout(t, "podman", "newuidmap")
	if os.Getuid() == 0 {
		t.Skip("needs an ordinary user")
	}
	root, dir := system(t), t.TempDir()
	containersConf(t)
	podmanOfItsOwn(t)
	t.Log(run(t, dir, "podman", "unshare", "sh", "-ec", unshared, "sh", root, example(t, "containers"), inContainer))
}

func rootless() string {
	if os.Getuid() != 0 {
		return "--rootless"
	}
	return ""
}

// TestMissingEngines: an example whose program is missing names its package, and makes no fork.
func TestMissingEngines(t *testing.T) {
	m, bin := harness.New(t), t.TempDir()
	t.Setenv("PATH", "/usr/bin:/bin") // for a real python3
	for _, tool := range []string{"sh", "id", "mkdir", "realpath", "env", "python3"} {
		path, err := exec.LookPath(tool)
		must.OK(t, err)
		must.OK(t, os.Symlink(path, filepath.Join(bin, tool)))
	}
	for engine, says := range map[string]string{
		"containers/bubblewrap": "package bubblewrap", "containers/podman": "package podman", "containers/runc": "package runc",
		"sandboxes/bubblewrap": "package bubblewrap", "sandboxes/podman": "package podman",
		"containers/systemd-nspawn": map[bool]string{true: "package systemd-container", false: "only root"}[os.Getuid() == 0],
	} {
		cmd := command(t, "/", example(t, engine), m.Dir, "f", "image", "true")
		cmd.Env = append(cmd.Env, "PATH="+bin)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v: %s", engine, err, out)
		}
		if _, err := os.Stat(m.Path(".forks/f")); err == nil {
			t.Errorf("%s has made a fork", engine)
		}
	}
}
