package gitbridge

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// hostFile is a regular file of the host, read up to the size that it had in
// the beginning.
type hostFile struct {
	ctx context.Context
	f   *os.File
	off int64
	end int64 // of what Read yields
}

// newHostFile returns a reader of the whole file, a SparseReader if it has holes.
func newHostFile(ctx context.Context, f *os.File, st *unix.Stat_t) (io.Reader, error) {
	h := &hostFile{ctx: ctx, f: f, end: st.Size}
	if st.Blocks*512 >= st.Size {
		return h, nil
	}
	hole, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_HOLE)
	switch {
	case errors.Is(err, unix.EINVAL):
		return h, nil // a file system without holes
	case err != nil:
		return nil, err
	case hole >= st.Size:
		return h, nil // compressed, perhaps
	}
	h.end = 0
	return &hostParts{h, st.Size}, nil
}

// Read reads on.
func (h *hostFile) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	if h.off >= h.end {
		return 0, io.EOF
	}
	n, err := h.f.ReadAt(p[:min(int64(len(p)), h.end-h.off)], h.off)
	h.off += int64(n)
	if err == io.EOF {
		if err = nil; n == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		err = reason(err)
	}
	return n, err
}

// hostParts is a hostFile with holes, of which the host is not asked.
type hostParts struct {
	*hostFile
	size int64
}

// Next implements SparseReader.
func (h *hostParts) Next() (int64, error) {
	fd := int(h.f.Fd())
	from, err := unix.Seek(fd, h.end, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) || err == nil && from >= h.size {
		return h.size, io.EOF
	}
	if err != nil {
		return 0, err
	}
	to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
	if err != nil {
		return 0, err
	}
	h.off, h.end = from, min(to, h.size)
	return from, nil
}
