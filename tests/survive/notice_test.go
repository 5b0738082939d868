package survive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestWaitingNotice: a daemon that is killed while it writes a notice does not come to its end. The
// notice waits for a directory, whose lock a program has that waits for an answer. The next daemon
// gets all that it needs from the store all the same, and gives the answer.
func TestWaitingNotice(t *testing.T) {
	m := newMount(t)
	must.OK(t, os.WriteFile(m.Path("f"), []byte("one"), 0o644))
	m.Amberfs("snapshot", "first")
	m.Amberfs("snapshot", "second")
	must.OK(t, os.WriteFile(m.Path("f"), []byte("two"), 0o644))
	unlinked, err := os.Create(m.Path("unlinked"))
	must.OK(t, err)
	defer unlinked.Close()
	_, err = unlinked.WriteString("kept")
	must.OK(t, err)
	must.OK(t, os.Remove(m.Path("unlinked")))

	for _, c := range []struct{ restored, removed string }{{"first", "second"}, {"base", "first"}} {
		m.Amberfs("freeze", "--for", "10m")
		renamed := make(chan error, 1)
		// It locks .snapshots, and waits for the end of the freeze.
		go func() { renamed <- os.Rename(m.Path(".snapshots/restore"), m.Path(".snapshots/restore@"+c.restored)) }()
		harness.Eventually(t, "the rename waits", func() bool { return inKernel(os.Getpid(), "request_wait_answer") || len(renamed) > 0 })
		m.Amberfs("rm", c.removed)
		daemon := m.Pid()
		harness.Eventually(t, "a notice waits", func() bool { return inKernel(daemon, "fuse_reverse_inval_entry") })

		must.OK(t, syscall.Kill(daemon, syscall.SIGKILL))
		if err := <-renamed; err != nil {
			t.Errorf("the rename: %v", err)
		}
	}
	b := make([]byte, 10)
	if n, err := unlinked.ReadAt(b, 0); string(b[:n]) != "kept" {
		t.Errorf("the unlinked file has %q (%v)", b[:n], err)
	}
	if out := m.Amberfs("list"); strings.Contains(out, "second") || strings.Contains(out, "first") {
		t.Errorf("a removed snapshot is listed:\n%s", out)
	}
}

// inKernel reports whether a thread of a process waits in a function of the kernel.
func inKernel(pid int, function string) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	for _, name := range files {
		if b, _ := os.ReadFile(name); strings.Contains(string(b), function) {
			return true
		}
	}
	return false
}
