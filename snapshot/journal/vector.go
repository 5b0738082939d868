package journal

import (
	"errors"
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A descriptor is what the kernel knows a file by. There is none for a file that
// is not on a real disk.
type descriptor struct {
	asked, real bool
	fd          int
}

func (s *segment) descriptor() (fd int, real bool) {
	d := &s.desc
	if d.asked {
		return d.fd, d.real
	}
	d.asked = true
	if f, ok := s.f.(syscall.Conn); ok {
		if c, err := f.SyscallConn(); err == nil {
			d.real = c.Control(func(fd uintptr) { d.fd = int(fd) }) == nil
		}
	}
	return d.fd, d.real
}

// writeAt writes buffers with one pwritev(2), which the file must stay open for. Go's
// scheduler knows of the system call: a disk that blocks for long keeps no other
// goroutine, and no collection of garbage, waiting.
func writeAt(fd int, off int64, bufs ...[]byte) error {
	for {
		var vec [4]unix.Iovec
		n := 0
		for _, b := range bufs {
			if len(b) > 0 {
				vec[n].Base = &b[0]
				vec[n].SetLen(len(b))
				n++
			}
		}
		if n == 0 {
			return nil
		}
		done, _, errno := syscall.Syscall6(unix.SYS_PWRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vec)), uintptr(n), uintptr(off), uintptr(uint64(off)>>32), 0)
		switch {
		case errors.Is(errno, unix.EINTR):
			continue
		case errno != 0:
			return errno
		case done == 0:
			return io.ErrShortWrite
		}
		off += int64(done)
		for i, left := 0, int(done); left > 0; i++ {
			k := min(left, len(bufs[i]))
			bufs[i] = bufs[i][k:]
			left -= k
		}
	}
}
