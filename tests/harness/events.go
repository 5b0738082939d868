package harness

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// CallDuringCommand runs a command on a tree at dir, of RewriteTree or another one. It calls fn after the command has
// created or removed the given number of names in dir and in RewriteDirs, unless the command has ended before. It
// returns the error with which the command ended.
func CallDuringCommand(t testing.TB, cmd *exec.Cmd, dir string, names int, fn func()) error {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	for _, d := range append([]string{"."}, RewriteDirs...) {
		if err == nil {
			_, err = unix.InotifyAddWatch(fd, filepath.Join(dir, d), unix.IN_CREATE|unix.IN_MOVE|unix.IN_DELETE|unix.IN_ONLYDIR)
		}
		if errors.Is(err, unix.ENOENT) {
			err = nil // the tree does not have all of these directories
		}
	}
	must.OK(t, err)
	defer unix.Close(fd)
	must.OK(t, cmd.Start())
	ended := make(chan struct{})
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for buf := make([]byte, 64<<10); names > 0; {
			select {
			case <-ended:
				return
			default:
			}
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10); n <= 0 || err != nil {
				continue // no event yet, or the call was interrupted
			}
			n, err := unix.Read(fd, buf)
			if err != nil {
				t.Error(err)
				return
			}
			for off := 0; off < n; names-- {
				off += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[off+12:]))
			}
		}
		fn()
	}()
	err = cmd.Wait()
	close(ended)
	<-counted
	return err
}
