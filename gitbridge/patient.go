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

// patientReader reads a pipe that git writes a piece for each object to. A
// reader that waits for the next piece is woken by each, and on a machine with
// few processors that costs both sides more than the piece. So one who has
// emptied the pipe looks again only a little later.
type patientReader struct {
	r       io.Reader
	emptied bool
}

// patient makes the pipe wide. What cannot be made so is read as it is: git would
// have to wait for the reader.
func patient(r io.Reader) io.Reader {
	f, ok := r.(*os.File)
	if !ok {
		return r
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return r
	}
	wide := false
	err = raw.Control(func(fd uintptr) {
		n, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize)
		wide = err == nil && n >= pipeSize
	})
	if err != nil || !wide {
		return r
	}
	return &patientReader{r: r}
}

func (p *patientReader) Read(b []byte) (int, error) {
	if p.emptied {
		time.Sleep(patience)
	}
	n, err := p.r.Read(b)
	p.emptied = n < len(b)
	return n, err
}
