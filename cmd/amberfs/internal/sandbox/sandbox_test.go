package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestConfigTravelsAndHides(t *testing.T) {
	c := Config{Store: "/s", Mountpoint: "/m", Command: []string{"sh", "-c", "echo 'a b'\n"}, UserNS: true}
	env, err := c.env()
	if err != nil {
		t.Fatal(err)
	}
	name, value, _ := strings.Cut(env, "=")
	t.Setenv(name, value)
	got, err := inherited()
	if err != nil || got.Command[2] != c.Command[2] || !got.UserNS || got.Store != "/s" {
		t.Errorf("inherited = %+v, %v", got, err)
	}
	if v, ok := os.LookupEnv(name); ok {
		t.Errorf("the program would see %s=%s", name, v)
	}
	if _, err := inherited(); err == nil {
		t.Error("no error without a configuration")
	}
}

func TestStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -9 $$": 137, "kill -15 $$": 143} {
		cmd := exec.Command("sh", "-c", script)
		err := cmd.Run()
		if got, err := status(cmd.ProcessState, err); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", script, got, err, want)
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"./x": filepath.Join(dir, "x"), "a/b": filepath.Join(dir, "a/b"), "/bin/sh": "/bin/sh"} {
		if got, err := lookPath(name, dir); err != nil || got != want {
			t.Errorf("lookPath(%s) = %s, %v, want %s", name, got, err, want)
		}
	}
	if status, err := commandError("x", exec.ErrNotFound); status != statusNoCommand || err == nil {
		t.Errorf("no command: %d, %v", status, err)
	}
	if status, err := commandError("x", unix.EACCES); status != statusCannotExecute || err == nil {
		t.Errorf("not executable: %d, %v", status, err)
	}
}

func TestTemporaryStoresAreSwept(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	live, lock, err := Temp(false)
	if err != nil {
		t.Fatal(err)
	}
	dead, deadLock, err := Temp(false)
	if err != nil {
		t.Fatal(err)
	}
	deadLock.Close() // all its processes were killed at once
	foreign := filepath.Join(base, tempPrefix+"not-ours")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	sweep(base)
	for dir, want := range map[string]bool{live: true, dead: false, foreign: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: exists %v, want %v", dir, err == nil, want)
		}
	}
	lock.Close()
}

func TestReapRest(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	spared := exec.Command("sleep", "60")
	if err := spared.Start(); err != nil {
		t.Fatal(err)
	}
	reapRest(spared.Process.Pid)
	if err := unix.Kill(cmd.Process.Pid, 0); err != unix.ESRCH {
		t.Errorf("a child that ignores SIGTERM is left: %v", err)
	}
	if err := unix.Kill(spared.Process.Pid, 0); err != nil {
		t.Errorf("the spared child is gone: %v", err)
	}
	_ = spared.Process.Kill()
	_ = spared.Wait()
}
