package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

func TestConfigTravelsWithAnyLength(t *testing.T) {
	c := Config{Store: "/s", Mountpoint: "/not\xffUTF-8", Command: []string{"sh", "-c", strings.Repeat("echo 'a b'\n", 1<<20)}, UserNS: true}
	f, err := c.memoryFile()
	must.OK(t, err)
	got, err := readInheritedConfig(f)
	if err != nil || got.Command[2] != c.Command[2] || !got.UserNS || got.Store != "/s" || got.Mountpoint != c.Mountpoint {
		t.Errorf("inherited = %d bytes of command, %v, %s, %q, %v", len(got.Command[2]), got.UserNS, got.Store, got.Mountpoint, err)
	}
	if f.Fd() != ^uintptr(0) {
		t.Error("the program would get the file")
	}
	if _, err := readInheritedConfig(f); err == nil {
		t.Error("no error without a configuration")
	}
}

func TestStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -9 $$": 137, "kill -15 $$": 143} {
		cmd := exec.Command("sh", "-c", script)
		err := cmd.Run()
		if got, err := exitStatus(cmd.ProcessState, err); err != nil || got != want {
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
	live, err := MakeTempDir()
	must.OK(t, err)
	defer live.lockFile.Close()
	dead, err := MakeTempDir()
	must.OK(t, err)
	must.OK(t, os.MkdirAll(dead.pathOf("store/packs"), 0o700))
	// These two directories of the user have names like temporary directories of amberfs. One has a file named lock,
	// and one is a copy of a temporary directory.
	mine, copied := filepath.Join(base, tempPrefix+"mine"), filepath.Join(base, tempPrefix+"copy")
	for dir, lock := range map[string]string{mine: "lock", copied: dead.lockName} {
		for _, name := range []string{lock, "store/diary"} {
			name = filepath.Join(dir, name)
			must.OK(t, os.MkdirAll(filepath.Dir(name), 0o700))
			must.OK(t, os.WriteFile(name, []byte("dear diary"), 0o600))
		}
	}
	dead.lockFile.Close() // as if all its processes had been killed
	sweepTempDirs(base)
	for name, want := range map[string]bool{live.Path: true, dead.Path: false, mine + "/store/diary": true, copied + "/store/diary": true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: exists %v, want %v", name, err == nil, want)
		}
	}
}

// TestSweepLeavesWhatIsBeingMade: sweepTempDirs does not remove a directory that another run is creating.
func TestSweepLeavesWhatIsBeingMade(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			for range 50 {
				d, err := MakeTempDir()
				if err != nil {
					return err
				}
				if _, err := os.Stat(d.pathOf(d.lockName)); err != nil {
					return err
				}
				d.Remove()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestReapRest(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	must.OK(t, cmd.Start())
	spared := exec.Command("sleep", "60")
	must.OK(t, spared.Start())
	endChildren(spared.Process.Pid)
	if err := unix.Kill(cmd.Process.Pid, 0); err != unix.ESRCH {
		t.Errorf("a child that ignores SIGTERM is left: %v", err)
	}
	if err := unix.Kill(spared.Process.Pid, 0); err != nil {
		t.Errorf("the spared child is gone: %v", err)
	}
	_ = spared.Process.Kill()
	_ = spared.Wait()
}

// TestSignalWhileBeginning: a signal that arrives before process 1 of a container has handlers is sent to it later,
// when it has them.
func TestSignalWhileBeginning(t *testing.T) {
	cmd, ready, err := CommandInRoot(t.Context(), "/", []string{"true"}, nil)
	must.OK(t, err)
	cmd.Path, cmd.SysProcAttr = "/bin/sh", nil
	cmd.Args = []string{"sh", "-c", "kill -TERM $PPID; sleep 1; trap 'exit 9' TERM; exec 4>&-; while :; do sleep 1; done"}
	if st, err := RunInForeground(t.Context(), cmd, ready); err != nil || st != 9 {
		t.Errorf("status %d, %v", st, err)
	}
}
