package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// Spawn starts this program again with args, which must end up in Run, and
// waits until the mount is ready. What happens meanwhile goes to s. When ctx
// ends first, the daemon is told to end.
func Spawn(ctx context.Context, args []string, s Starter, attr *syscall.SysProcAttr) (Ready, *exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return Ready{}, nil, fmt.Errorf("making the readiness pipe: %w", err)
	}
	defer r.Close()
	// In memory: a container may have no directory for temporary files.
	fd, err := unix.MemfdCreate("stderr", unix.MFD_CLOEXEC)
	if err != nil {
		w.Close()
		return Ready{}, nil, fmt.Errorf("starting the daemon: %w", err)
	}
	errs := os.NewFile(uintptr(fd), "stderr")
	defer errs.Close()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "amberfs" // by its other names it is a helper of mount(8)
	cmd.Dir = "/"
	cmd.Env = append(unmanaged(os.Environ()), readyEnv+"=3")
	cmd.ExtraFiles = []*os.File{w} // descriptor 3
	cmd.Stderr = errs
	if attr == nil {
		attr = &syscall.SysProcAttr{Setsid: true}
	}
	cmd.SysProcAttr = attr
	err = cmd.Start()
	w.Close()
	if err != nil {
		return Ready{}, nil, fmt.Errorf("starting the daemon: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	ready, err := await(r, s)
	if err == nil {
		// Until fusefs has answered an OPEN with ENOSYS, the kernel sends a RELEASE for
		// every file that a program creates.
		if f, err := os.Open(filepath.Join(ready.Mountpoint, naming.SnapshotsDir, "README")); err == nil {
			f.Close()
		}
		return ready, cmd, nil
	}
	werr := cmd.Wait()
	if ctx.Err() != nil {
		return Ready{}, nil, ctx.Err()
	}
	if errors.Is(err, errSilent) {
		said, _ := io.ReadAll(io.NewSectionReader(errs, 0, maxSaid))
		return Ready{}, nil, fail.New(fail.Failed, "the daemon ended before the mount was ready (%v)%s", werr, firstLines(said, 5))
	}
	return Ready{}, nil, err
}

// maxSaid bounds what is read of a daemon's last words, in bytes.
const maxSaid = 1 << 16

// firstLines is the beginning of what a process said last.
func firstLines(b []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if lines[0] == "" {
		return ""
	}
	return ": " + strings.Join(lines[:min(n, len(lines))], "\n  ")
}
