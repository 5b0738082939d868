package survive_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestPoison: a request that three daemons have died of fails with EIO, and nothing else does.
// It is an export, which waits for git: so it is known when a daemon has begun to answer.
func TestPoison(t *testing.T) {
	newMount(t).Stop() // for the kernel
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	git, err := exec.LookPath("git")
	must.OK(t, err)
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *check-ref-format*) echo >> %[1]q; while [ -e %[1]q ]; do sleep 0.05; done;; esac\nexec %[2]q \"$@\"\n", begun, git)
	must.OK(t, os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m := newMount(t)
	must.OK(t, os.WriteFile(m.Path("f"), []byte("0"), 0o644))
	m.Amberfs("snapshot", "v1")

	deadly := make(chan error, 1)
	go func() { deadly <- os.WriteFile(m.Path(".snapshots/export"), []byte("v1\n"), 0o644) }()
	for death := range 3 {
		harness.Eventually(t, "a daemon exports", func() bool {
			b, _ := os.ReadFile(begun)
			return len(b) == death+1 || len(deadly) > 0
		})
		if len(deadly) > 0 {
			t.Fatalf("it ended after %d deaths: %v", death, <-deadly)
		}
		pid := m.Pid()
		m.Signal(syscall.SIGABRT)
		harness.Eventually(t, "another daemon runs", func() bool { return m.Pid() != pid })
		if b, err := os.ReadFile(m.Path("f")); string(b) != fmt.Sprint(death) {
			t.Errorf("a file: %q, %v", b, err)
		}
		must.OK(t, os.WriteFile(m.Path("f"), []byte(fmt.Sprint(death+1)), 0o644))
	}
	if err := <-deadly; !errors.Is(err, syscall.EIO) {
		t.Errorf("the request: %v", err)
	}
	m.Amberfs("snapshot", "v2")
	if out := m.Amberfs("status"); !strings.Contains(out, "3, the last (a panic or fatal error") {
		t.Errorf("status does not count the restarts:\n%s", out)
	}
	if out := m.Amberfs("log", "--action", "restarted"); strings.Count(out, "a panic or fatal error") != 3 {
		t.Errorf("the log has not all restarts:\n%s", out)
	}
}
