package actors

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestCopyBetweenForks: what a copy into a fork changes is by the actor of that fork, and so is
// the privilege that the file loses.
func TestCopyBetweenForks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a file loses its privileges when another user than root writes to it")
	}
	m := harness.New(t, "-o", "allow_other")
	m.Amberfs("fork", "f")
	open := func(name string, mode os.FileMode) *os.File {
		f, err := os.Create(m.Path(name))
		if err == nil {
			_, err = f.WriteString("text\n")
		}
		if err == nil {
			err = f.Chmod(mode)
		}
		must.OK(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	from, to := open("from", 0o777), open(".forks/f/to", 0o777|os.ModeSetuid)
	m.Amberfs("-C", m.Path(".forks/f"), "snapshot", "before")
	copied := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		pid := fmt.Sprint(os.Getpid())
		m.Amberfs("actor", "outside", "--pid", pid)
		m.Amberfs("-C", m.Path(".forks/f"), "actor", "inside", "--pid", pid)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			copied <- errno
			return
		}
		var at, into int64
		_, err := unix.CopyFileRange(int(from.Fd()), &at, int(to.Fd()), &into, 5, 0)
		copied <- err
	}()
	must.OK(t, <-copied)
	if st, err := to.Stat(); err != nil || st.Mode()&os.ModeSetuid != 0 {
		t.Errorf("the file has the mode %v: %v", st.Mode(), err)
	}
	if by := m.Amberfs("-C", m.Path(".forks/f"), "actors"); strings.Contains(by, "outside") || !strings.Contains(by, "inside") {
		t.Errorf("the actors of the fork are\n%s", by)
	}
}
