package gitbridge

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pipeSize is what an ordinary user may have.
	pipeSize = 1 << 20
	// patience is too short for git to fill such a pipe.
	patience = time.Millisecond
)

// bulkPipe makes a pipe for a command that writes a piece for each object. A
// reader that waits for the next piece is woken by each, and on a machine with
// few processors that costs both sides more than the piece does. So the pipe is
// wide, and whoever has emptied it looks again only a little later. Neither does
// Go's poller watch it: that would be woken instead.
func bulkPipe() (io.ReadCloser, *os.File, error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	r, w := os.NewFile(uintptr(fd[0]), "pipe"), os.NewFile(uintptr(fd[1]), "pipe")
	n, err := unix.FcntlInt(uintptr(fd[0]), unix.F_SETPIPE_SZ, pipeSize)
	if err != nil || n < pipeSize {
		return r, w, nil // git would have to wait for the reader
	}
	return &patientReader{ReadCloser: r}, w, nil
}

type patientReader struct {
	io.ReadCloser
	emptied bool
}

func (p *patientReader) Read(b []byte) (int, error) {
	if p.emptied {
		time.Sleep(patience)
	}
	n, err := p.ReadCloser.Read(b)
	p.emptied = n < len(b)
	return n, err
}
