package survive_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/service"
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
	p := &pointed{harness.NewUnmounted(t, "", args...), t.TempDir()}
	p.Program, p.Env = harness.TaggedBinary(t, "points"), []string{"AMBERFS_TEST_POINTS=" + p.points}
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
	nameless, err := unix.Open(p.Dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
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

// TestNoErrorWhileSuccessorsFail: programs see no error though one successor of three dies, too.
func TestNoErrorWhileSuccessorsFail(t *testing.T) {
	p := newPointed(t)
	kills := harness.Count(t, "ROUNDS", 9, 1000)
	whileWorking(t, p.Mount, func() {
		for i := range kills {
			if i%3 == 0 {
				p.arm(t, points[i/3%len(points)], ends[i/3%3])
			}
			p.Crash()
			_, _ = os.Stat(p.Path(fmt.Sprint("none", i))) // a daemon is ready
		}
	})
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

// TestManyUsers: however many runs use a mount, the next daemon gets to know them all.
func TestManyUsers(t *testing.T) {
	const users = 3000
	m := newMount(t)
	defer m.StopUnused()
	must.OK(t, os.WriteFile(m.Path("f"), nil, 0o644))
	for i := range users {
		j, err := service.Join(t.Context(), m.Store, "", fmt.Sprint("fork-with-a-long-name-", i))
		must.OK(t, err)
		if j.MountCopy != nil {
			must.OK(t, j.MountCopy.Close())
			j.MountCopy = nil
		}
		defer j.Close()
	}
	for i := range 2 {
		m.Crash()
		_, err := os.Stat(m.Path(fmt.Sprint("none", i)))
		if !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	if out, err := m.TryAmberfs("umount", m.Dir); err == nil {
		t.Errorf("the daemon does not know its users: %s", out)
	}
}

// TestFirstDaemonDies: a command that mounts gets its answer from the daemon that becomes ready, if not
// from the first one.
func TestFirstDaemonDies(t *testing.T) {
	p := newPointed(t)
	p.Stop()
	for _, how := range []string{"fail", "exit", "kill"} {
		p.arm(t, "serving", how)
		cmd := exec.Command(p.Program, "mount", p.Store, p.Dir)
		cmd.Env = append(os.Environ(), p.Env...)
		out, err := cmd.CombinedOutput()
		if err != nil || p.armed("serving") {
			t.Errorf("mount, whose first daemon does not become ready (%s): %v\n%s", how, err, out)
		}
		if _, err := os.Stat(p.Path(".snapshots")); err != nil {
			t.Error(err)
		}
		p.Amberfs("umount", p.Dir)
		harness.Eventually(t, "the keeper has ended", func() bool { return len(harness.Processes(p.Store)) == 0 })
	}
}

// TestShortage: on a full disk the next daemon is started again until there is space, and programs wait.
func TestShortage(t *testing.T) {
	newMount(t).Stop() // for the kernel
	if os.Geteuid() != 0 {
		t.Skip("mounts a small disk")
	}
	disk := t.TempDir()
	must.OK(t, unix.Mount("none", disk, "tmpfs", 0, "size=64m"))
	defer func() { _ = unix.Unmount(disk, unix.MNT_DETACH) }()
	m := harness.NewUnmounted(t, filepath.Join(disk, "store"), "-o", "timeout=10m")
	m.Start()
	defer m.Stop()
	must.OK(t, os.WriteFile(m.Path("f"), []byte("kept"), 0o644))
	full, err := os.Create(filepath.Join(disk, "full"))
	must.OK(t, err)
	defer full.Close()
	fill := func() {
		for b := make([]byte, 1<<20); len(b) > 0; {
			if n, err := full.Write(b); n == 0 || err != nil {
				b = b[:len(b)/2]
			}
		}
	}
	fill()
	m.Crash() // the next one gives the reserve up
	_, err = os.Stat(m.Path("ready"))
	if !os.IsNotExist(err) {
		t.Error(err)
	}
	fill()

	must.OK(t, syscall.Kill(m.Pid(), syscall.SIGKILL))
	read := make(chan error, 1)
	go func() {
		_, err := os.Stat(m.Path("none"))
		read <- err
	}()
	harness.Eventually(t, "starts fail", func() bool { return strings.Count(m.Log(), "must stay free") > 4 })
	if len(read) > 0 {
		t.Errorf("a program did not wait: %v", <-read)
	}
	must.OK(t, full.Truncate(0))
	if err := <-read; !os.IsNotExist(err) {
		t.Error(err)
	}
	if b, err := os.ReadFile(m.Path("f")); string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
}
