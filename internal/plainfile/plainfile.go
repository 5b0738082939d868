// Package plainfile reads small files in directories to which other programs write. These programs may
// replace a file by a pipe, by a device, or by a file that is too large for the memory.
package plainfile

import (
	"bytes"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrUnfit is the error for a file that is not regular, or that has too many bytes.
var ErrUnfit = errors.New("not a regular file, or too large")

// Read returns the contents of a regular file that has at most maxBytes bytes. It never waits for
// another program. The errors are ErrUnfit and the errors of package os.
func Read(name string, maxBytes int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil, ErrUnfit
	}

	var out bytes.Buffer
	out.Grow(int(info.Size()) + bytes.MinRead) // large enough, so that ReadFrom does not grow it again
	_, err = out.ReadFrom(io.LimitReader(f, maxBytes))
	return out.Bytes(), err
}
