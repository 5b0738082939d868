package harness

import (
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// InTheMiddle runs a command, and calls do after so many names came or went in the directories of
// Rewrite below dir, unless the command has ended before. It returns how the command ended.
func InTheMiddle(t testing.TB, cmd *exec.Cmd, dir string, many int, do func()) error {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	for _, d := range append([]string{"."}, RewriteDirs...) {
		if err == nil {
			_, err = unix.InotifyAddWatch(fd, filepath.Join(dir, d), unix.IN_CREATE|unix.IN_MOVE|unix.IN_DELETE|unix.IN_ONLYDIR)
		}
	}
	must.OK(t, err)
	defer unix.Close(fd)
	must.OK(t, cmd.Start())
	ended := make(chan struct{})
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for buf := make([]byte, 64<<10); many > 0; {
			select {
			case <-ended:
				return
			default:
			}
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10); n <= 0 || err != nil {
				continue // or it was interrupted
			}
			n, err := unix.Read(fd, buf)
			if err != nil {
				t.Error(err)
				return
			}
			for at := 0; at < n; many-- {
				at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[at+12:]))
			}
		}
		do()
	}()
	err = cmd.Wait()
	close(ended)
	<-counted
	return err
}
