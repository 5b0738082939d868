package survive_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// slowDevice makes each write of the daemon to its FUSE device take so long (µs), until stop is called.
func slowDevice(t *testing.T, m *harness.Mount, delay int) (stop func()) {
	t.Helper()
	trace := exec.Command("strace", "-f", "-p", strconv.Itoa(m.Pid()), "-P", "/dev/fuse", "-e", "trace=write",
		"-e", fmt.Sprint("inject=write:delay_enter=", delay), "-o", "/dev/null")
	trace.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.OK(t, trace.Start())
	harness.Eventually(t, "strace attaches", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Pid()))
		return err == nil && !strings.Contains(string(status), "TracerPid:\t0\n")
	})
	return func() {
		_ = trace.Process.Kill() // to SIGTERM it does not listen while it waits for a daemon that was killed
		_ = trace.Wait()
	}
}

// overlay mounts an overlay with a lower layer.
func overlay(t *testing.T, lower string) {
	t.Helper()
	top, merged := t.TempDir(), t.TempDir()
	must.OK(t, unix.Mount("tmpfs", top, "tmpfs", 0, ""))
	t.Cleanup(func() { must.OK(t, unix.Unmount(top, 0)) })
	for _, dir := range []string{"u", "w"} {
		must.OK(t, os.Mkdir(filepath.Join(top, dir), 0o700))
	}
	must.OK(t, unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/u,workdir=%s/w", lower, top, top)))
	t.Cleanup(func() { must.OK(t, unix.Unmount(merged, 0)) })
	_, err := os.ReadDir(merged)
	must.OK(t, err)
}

// TestAnswerAfterNotices: when a restore has returned, programs find the restored files, and what
// they write is kept: however long it takes to inform the kernel, whatever is overlaid, and after
// a crash.
func TestAnswerAfterNotices(t *testing.T) {
	harness.SkipWithout(t, "strace")
	if os.Geteuid() != 0 {
		t.Skip("only root mounts an overlay")
	}
	m := newMount(t)
	for _, dir := range []string{"few", "many", "lower"} {
		must.OK(t, os.Mkdir(m.Path(dir), 0o755))
	}
	file := func(dir string, i int) string { return m.Path(dir, fmt.Sprint("f", i)) }
	fill := func(dir string, n int, text string) {
		for i := range n {
			must.OK(t, os.WriteFile(file(dir, i), []byte(text), 0o644))
		}
	}
	sizes := map[string]int{"few": 3000, "many": 4500}
	changed := func(dir string) {
		t.Helper()
		m.Amberfs("restore", dir, "-q")
		for _, i := range []int{0, 1, sizes[dir] / 2, sizes[dir] - 2, sizes[dir] - 1} {
			if b, err := os.ReadFile(file(dir, i)); err != nil || string(b) != "a" {
				t.Errorf("%s/f%d has %q after the restore (%v)", dir, i, b, err)
			}
			must.OK(t, os.WriteFile(file(dir, i), []byte("mine"), 0o644))
			m.Amberfs("status") // the daemon goes on
			f, err := os.OpenFile(file(dir, i), os.O_RDWR, 0)
			must.OK(t, err)
			_, err = f.WriteAt([]byte("M"), 0)
			must.OK(t, err)
			must.OK(t, f.Close())
		}
		m.Amberfs("snapshot")
		for _, i := range []int{0, 1, sizes[dir] / 2, sizes[dir] - 2, sizes[dir] - 1} {
			if b, err := os.ReadFile(m.Path(".snapshots/latest", dir, fmt.Sprint("f", i))); err != nil || string(b) != "Mine" {
				t.Errorf("%s/f%d has %q in a snapshot after a write (%v)", dir, i, b, err)
			}
		}
	}

	overlay(t, t.TempDir()) // of others
	for dir, n := range sizes {
		fill(dir, n, "a")
		m.Amberfs("snapshot", dir)
		fill(dir, n, "b")
		stop := slowDevice(t, m, 2000)
		changed(dir)
		stop()
	}

	must.OK(t, syscall.Kill(m.Pid(), syscall.SIGKILL))
	fill("many", sizes["many"], "b")
	stop := slowDevice(t, m, 2000)
	changed("many")
	stop()

	overlay(t, m.Path("lower"))
	fill("many", sizes["many"], "b")
	changed("many")
}
