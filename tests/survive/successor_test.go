package survive_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A pointed mount has daemons that fail where a test wants them to.
type pointed struct {
	*harness.Mount
	points string // a directory
}

func newPointed(t *testing.T, args ...string) *pointed {
	newMount(t).Stop() // for the kernel
	p := &pointed{harness.At(t, "", args...), t.TempDir()}
	p.Program, p.Env = harness.Tagged(t, "points"), []string{"AMBERFS_TEST_POINTS=" + p.points}
	p.Start()
	return p
}

// arm has the next daemon fail at a point.
func (p *pointed) arm(t *testing.T, point, how string) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(p.points, point), []byte(how), 0o600))
}

// armed reports whether a point was not reached yet.
func (p *pointed) armed(point string) bool {
	_, err := os.Stat(filepath.Join(p.points, point))
	return err == nil
}

// points are those between the opening of the store and readiness, and ends what happens there.
var (
	points = []string{"opened", "listening", "attached", "serving"}
	ends   = []string{"fail", "exit", "kill", "descriptors", "disk"}
)

// TestSuccessorFails: a daemon that does not become ready leaves to the next one all that the kernel
// refers to: what is open and has no name, which requests were carried out, and the socket.
func TestSuccessorFails(t *testing.T) {
	p := newPointed(t)
	must.OK(t, os.WriteFile(p.Path("a"), []byte("a"), 0o644))
	must.OK(t, os.WriteFile(p.Path("b"), []byte("b"), 0o644))
	unlinked, err := os.Create(p.Path("unlinked"))
	must.OK(t, err)
	defer unlinked.Close()
	_, err = unlinked.WriteString("unlinked")
	must.OK(t, err)
	must.OK(t, unlinked.Sync())
	must.OK(t, os.Remove(p.Path("unlinked")))
	nameless, err := unix.Open(p.Dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	must.OK(t, err)
	defer unix.Close(nameless)
	_, err = unix.Write(nameless, []byte("nameless"))
	must.OK(t, err)

	n := 0
	for _, point := range points {
		for _, how := range ends {
			if how == "descriptors" && point != "opened" { // a daemon that has its files goes on without others
				continue
			}
			p.arm(t, point, how)
			pid := p.Pid()
			must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
			must.OK(t, unix.Renameat2(unix.AT_FDCWD, p.Path("a"), unix.AT_FDCWD, p.Path("b"), unix.RENAME_EXCHANGE))
			n++
			for fd, want := range map[int]string{int(unlinked.Fd()): "unlinked", nameless: "nameless"} {
				_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
				b := make([]byte, 20)
				if got, err := unix.Pread(fd, b, 0); err != nil || string(b[:got]) != want {
					t.Fatalf("%s at %s: the file has %q (%v), not %s", how, point, b[:max(0, got)], err, want)
				}
			}
			b, err := os.ReadFile(p.Path("a"))
			if want := []string{"a", "b"}[n%2]; err != nil || string(b) != want {
				t.Fatalf("%s at %s: a has %q (%v), not %s", how, point, b, err, want)
			}
			if p.armed(point) {
				t.Errorf("no daemon came to the point %s", point)
			}
			if out := p.Amberfs("status"); !strings.Contains(out, "restart") {
				t.Errorf("%s", out)
			}
		}
	}
	log, err := os.ReadFile(filepath.Join(p.Store, "amberfs.log"))
	must.OK(t, err)
	for _, reason := range []string{"a test wants this start to fail", "exit status 3", "a test wants a full disk", "too many open files"} {
		if !bytes.Contains(log, []byte(reason)) {
			t.Errorf("the log does not say %q:\n%s", reason, log)
		}
	}
}

// TestNothingElseFails: what a takeover can do without is taken when it can be.
func TestNothingElseFails(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := free.Addr().String()
	must.OK(t, free.Close())
	m := newMount(t, "-o", "metrics="+address)
	must.OK(t, os.WriteFile(m.Path("f"), nil, 0o644))

	// Somebody else has the port.
	pid := m.Pid()
	must.OK(t, syscall.Kill(pid, syscall.SIGSTOP))
	taken := make(chan net.Listener)
	go func() {
		for {
			if l, err := net.Listen("tcp", address); err == nil {
				taken <- l
				return
			}
		}
	}()
	must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
	thief := <-taken
	for i := range 3 {
		if err := os.WriteFile(m.Path(fmt.Sprint("g", i)), nil, 0o644); err != nil {
			t.Error(err)
		}
		m.Crash()
	}
	must.OK(t, thief.Close())
	harness.Eventually(t, "metrics are served", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}
