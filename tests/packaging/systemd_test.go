package packaging_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUnits asks systemd what it thinks of the units.
func TestUnits(t *testing.T) {
	harness.SkipWithout(t, "systemd-analyze")
	dest := t.TempDir()
	install(t, dest)
	for _, kind := range []string{"system", "user"} {
		t.Run(kind, func(t *testing.T) { verifyUnit(t, dest, kind) })
	}
}

func verifyUnit(t *testing.T, dest, kind string) {
	if _, err := os.Stat("/run/systemd"); err != nil && kind == "system" && os.Getuid() != 0 {
		t.Skip("needs root where systemd does not run, to make /run/systemd")
	}
	file := filepath.Join(dest, "usr/lib/systemd", kind, "amberfs@.service")
	b, err := os.ReadFile(file)
	must.OK(t, err)
	// It looks for the program, and for the man page with man(1).
	text := strings.ReplaceAll(string(b), "/usr/bin/amberfs", filepath.Join(dest, "usr/bin/amberfs"))
	if strings.Count(text, dest) != 2 || !strings.Contains(text, "\nType=notify\n") {
		t.Errorf("%s does not run /usr/bin/amberfs and wait for its word", file)
	}
	must.OK(t, os.WriteFile(file, []byte(text), 0o644))
	cmd := exec.Command("systemd-analyze", "--"+kind, "--man=no", "verify", file)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dest)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "amberfs@") {
		t.Errorf("systemd-analyze verify %s: %v\n%s", file, err, out)
	}
}

// TestNotify is a service manager that waits for a mount: sd_notify(3).
func TestNotify(t *testing.T) {
	dir := t.TempDir()
	address := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	must.OK(t, err)
	defer socket.Close()
	must.OK(t, socket.SetReadDeadline(time.Now().Add(harness.Timeout)))
	point := filepath.Join(dir, "ws")
	must.OK(t, os.Mkdir(point, 0o755))
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(harness.Binary(t), args...)
		cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+address)
		return cmd
	}
	// A daemon in the background says nothing: what comes is of the next one.
	for _, args := range [][]string{{"mount", filepath.Join(dir, "store"), point}, {"umount", point}} {
		if out, err := command(args...).CombinedOutput(); err != nil {
			t.Fatalf("amberfs %v: %v\n%s", args, err, out)
		}
	}
	daemon := command("mount", "-f", filepath.Join(dir, "store"), point)
	must.OK(t, daemon.Start())
	t.Cleanup(func() {
		_ = daemon.Process.Signal(unix.SIGTERM)
		_ = daemon.Wait()
	})
	says := func(want string) {
		t.Helper()
		b := make([]byte, 1000)
		n, err := socket.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("the daemon says %q, %v; want %q", b[:n], err, want)
		}
	}
	says("READY=1")
	if !slices.Contains(harness.Mounts(dir), point) {
		t.Error("it is not mounted when the daemon says so")
	}
	must.OK(t, daemon.Process.Signal(unix.SIGTERM))
	says("STOPPING=1")
	must.OK(t, daemon.Wait())
	if m := harness.Mounts(dir); len(m) > 0 {
		t.Errorf("left mounted: %v", m)
	}
}
