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

// newHostFile returns a reader of the whole file, a PartsReader if it has holes.
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

// part finds the next part from off on; io.EOF when there is none.
func (h *hostParts) part(off int64) (Extent, error) {
	fd := int(h.f.Fd())
	from, err := unix.Seek(fd, off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) || err == nil && from >= h.size {
		return Extent{}, io.EOF
	}
	if err != nil {
		return Extent{}, err
	}
	to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
	return Extent{from, min(to, h.size) - from}, err
}

// Parts implements PartsReader.
func (h *hostParts) Parts() ([]Extent, error) {
	var out []Extent
	for off := int64(0); ; {
		e, err := h.part(off)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		off = e.Offset + e.Length
	}
}

// Next implements SparseReader.
func (h *hostParts) Next() (int64, error) {
	e, err := h.part(h.end)
	if err != nil {
		return h.size, err
	}
	h.off, h.end = e.Offset, e.Offset+e.Length
	return e.Offset, nil
}
