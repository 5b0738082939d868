package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// The test binary is also a keeper, and its daemon.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "keeper":
		log := func(_, text string, args ...any) { fmt.Println(append([]any{text}, args...)...) }
		status, err := Run(Config{Args: []string{"daemon", os.Args[2]}, Log: log})
		fmt.Println("end", status, err)
		os.Exit(0)
	case len(os.Args) == 3 && os.Args[1] == "daemon":
		fmt.Println("daemon", serveStuck(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// stuckDaemon is a daemon that waits in a notice for a directory. A program has locked this directory, and waits for an
// answer of the daemon. The daemon does not end when it is killed.
type stuckDaemon struct {
	dir             string
	keeper, program *exec.Cmd
	pid             int
	said            func() string // by keeper and daemon
}

func newStuckDaemon(t *testing.T) *stuckDaemon {
	dir := t.TempDir()
	fd, err := mountRaw(dir)
	if err != nil {
		t.Skip("may not mount here")
	}
	_ = unix.Unmount(dir, unix.MNT_DETACH)
	unix.Close(fd)

	self, err := os.Executable()
	must.OK(t, err)
	d := &stuckDaemon{dir: dir, keeper: exec.Command(self, "keeper", dir), program: exec.Command("mkdir", filepath.Join(dir, "d", "x"))}
	said := filepath.Join(t.TempDir(), "said")
	d.said = func() string { b, _ := os.ReadFile(said); return string(b) }
	if d.keeper.Stdout, err = os.Create(said); err != nil {
		t.Fatal(err)
	}
	d.keeper.Stderr = d.keeper.Stdout
	must.OK(t, d.keeper.Start())
	t.Cleanup(func() {
		_ = d.keeper.Process.Kill()
		_ = unix.Unmount(dir, unix.MNT_FORCE)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	await.True(t, "the daemon serves", func() bool { return strings.Contains(d.said(), "serving") })
	must.OK(t, d.program.Start())
	await.True(t, "the daemon is stuck", func() bool {
		d.pid = childOf(d.keeper.Process.Pid)
		return d.pid != 0 && writesNotice(d.pid)
	})
	return d
}

// fails waits until the program gets an error.
func (d *stuckDaemon) fails(t *testing.T) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- d.program.Wait() }()
	if err := await.Receive(t, "the end of the program", ended); err == nil {
		t.Error("the program got no error")
	}
}

// TestGivesUpWhileStuck: if a stuck daemon is killed and no other daemon starts, the program gets an error.
func TestGivesUpWhileStuck(t *testing.T) {
	d := newStuckDaemon(t)
	must.OK(t, syscall.Kill(d.pid, syscall.SIGKILL))
	d.fails(t)
	ended := make(chan error, 1)
	go func() { ended <- d.keeper.Wait() }()
	if err := await.Receive(t, "the end of the keeper", ended); err != nil || !strings.Contains(d.said(), "giving up") {
		t.Errorf("the keeper: %v\n%s", err, d.said())
	}
}

// TestAbort: if the keeper of a stuck daemon is killed too, the program gets an error when the connection is aborted.
func TestAbort(t *testing.T) {
	d := newStuckDaemon(t)
	must.OK(t, errors.Join(d.keeper.Process.Kill(), syscall.Kill(d.pid, syscall.SIGKILL)))
	_ = d.keeper.Wait()
	must.OK(t, mounts.Abort(d.dir, "store"))
	d.fails(t)
}

func childOf(pid int) (child int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, of := range threads {
		b, _ := os.ReadFile(of)
		_, _ = fmt.Sscan(string(b), &child)
	}
	return child
}

// writesNotice reports whether a thread of a process waits in write(2) for a lock.
func writesNotice(pid int) bool {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return slices.ContainsFunc(tasks, func(e os.DirEntry) bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, e.Name()))
		return strings.Contains(string(b), ") D ")
	})
}

func mountRaw(dir string) (fd int, err error) {
	if fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return 0, err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, os.Geteuid(), os.Getegid())
	if err = unix.Mount("store", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// serveStuck serves a directory d. It does not answer a MKDIR in it, but notifies the kernel
// that a name of d has changed. The daemons after it end at once.
func serveStuck(dir string) error {
	link, err := InheritedLink()
	if err != nil || link.Connection != nil {
		return err
	}
	fd, err := mountRaw(dir)
	if err != nil {
		return err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := link.SendConnection(&Connection{Store: "store", Mountpoint: dir}, fd, null, null); err != nil {
		return err
	}
	link.Send(Message{Ready: true})
	fmt.Println("serving")
	const headerIn, headerOut = 40, 16
	le := binary.NativeEndian
	for in := make([]byte, 1<<20); ; {
		n, err := unix.Read(fd, in)
		if err != nil {
			return err
		}
		opcode, unique, node := le.Uint32(in[4:]), le.Uint64(in[8:]), le.Uint64(in[16:])
		attr := make([]byte, 88) // struct fuse_attr
		le.PutUint64(attr, node)
		le.PutUint32(attr[60:], unix.S_IFDIR|0o777)
		le.PutUint32(attr[64:], 2)
		var body []byte
		errno := int32(0)
		switch opcode {
		case 26: // INIT
			body = make([]byte, 64)
			le.PutUint32(body, 7)
			le.PutUint32(body[4:], 31)
			le.PutUint32(body[20:], 4096)
		case 3: // GETATTR
			body = append(make([]byte, 16), attr...)
			le.PutUint64(body, 60)
		case 1: // LOOKUP
			if node != 1 {
				errno = -int32(unix.ENOENT)
				break
			}
			le.PutUint64(attr, 2)
			body = append(make([]byte, 40), attr...)
			le.PutUint64(body, 2)
			le.PutUint64(body[16:], 60)
			le.PutUint64(body[24:], 60)
		case 9: // MKDIR
			const invalEntry = 3
			notice := binary.NativeEndian.AppendUint64(make([]byte, headerOut), 2)
			notice = append(le.AppendUint32(le.AppendUint32(notice, 1), 0), "y\x00"...)
			le.PutUint32(notice, uint32(len(notice)))
			le.PutUint32(notice[4:], invalEntry)
			_, err := unix.Write(fd, notice)
			return fmt.Errorf("the notice of %d bytes for a request of %d came back: %w", len(notice), n-headerIn, err)
		default:
			errno = -int32(unix.ENOSYS)
		}
		out := append(make([]byte, headerOut), body...)
		le.PutUint32(out, uint32(len(out)))
		le.PutUint32(out[4:], uint32(errno))
		le.PutUint64(out[8:], unique)
		if opcode == 2 || opcode == 42 { // FORGET
			continue
		}
		if _, err := unix.Write(fd, out); err != nil {
			return err
		}
	}
}
