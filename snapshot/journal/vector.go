package journal

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas/vfs"
)

// A vectored file can write several buffers with one pwritev(2).
type vectored struct{ c syscall.RawConn }

// vectorOf is false for files that are not on a real disk.
func vectorOf(f vfs.File) (vectored, bool) {
	s, ok := f.(syscall.Conn)
	if !ok {
		return vectored{}, false
	}
	c, err := s.SyscallConn()
	return vectored{c}, err == nil
}

func (v vectored) writeAt(off int64, bufs ...[]byte) error {
	for {
		for len(bufs) > 0 && len(bufs[0]) == 0 {
			bufs = bufs[1:]
		}
		if len(bufs) == 0 {
			return nil
		}
		var n int
		var err error
		cerr := v.c.Control(func(fd uintptr) { n, err = unix.Pwritev(int(fd), bufs, off) })
		switch {
		case cerr != nil:
			return cerr
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrShortWrite
		}
		off += int64(n)
		for n > 0 {
			k := min(n, len(bufs[0]))
			bufs[0] = bufs[0][k:]
			n -= k
			if len(bufs[0]) == 0 {
				bufs = bufs[1:]
			}
		}
	}
}
