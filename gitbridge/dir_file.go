package gitbridge

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// hostFile is a regular file of the host, read up to the size that it had in
// the beginning. It is a SparseReader.
type hostFile struct {
	ctx  context.Context
	f    *os.File
	size int64
	off  int64
	data []Extent
}

func newHostFile(ctx context.Context, f *os.File, st *unix.Stat_t) (*hostFile, error) {
	h := &hostFile{ctx: ctx, f: f, size: st.Size}
	if st.Size == 0 {
		return h, nil
	}
	h.data = []Extent{{0, st.Size}}
	if st.Blocks*512 >= st.Size {
		return h, nil
	}
	var data []Extent
	fd := int(f.Fd())
	for off := int64(0); off < st.Size; {
		from, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if errors.Is(err, unix.EINVAL) {
			return h, nil // a file system without holes
		}
		if err != nil {
			return nil, err
		}
		to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		if from >= st.Size {
			break
		}
		to = min(to, st.Size)
		data = append(data, Extent{from, to - from})
		off = to
	}
	h.data = data
	return h, nil
}

// Data returns the parts that are not holes.
func (h *hostFile) Data() []Extent { return h.data }

// Read reads on. Holes are not asked for from the host.
func (h *hostFile) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	if h.off >= h.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), h.size-h.off)]
	for len(h.data) > 0 && h.data[0].Offset+h.data[0].Length <= h.off {
		h.data = h.data[1:]
	}
	if hole := h.nextData() - h.off; hole > 0 {
		p = p[:min(int64(len(p)), hole)]
		clear(p)
		h.off += int64(len(p))
		return len(p), nil
	}
	p = p[:min(int64(len(p)), h.data[0].Offset+h.data[0].Length-h.off)]
	n, err := h.f.ReadAt(p, h.off)
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

func (h *hostFile) nextData() int64 {
	if len(h.data) == 0 {
		return h.size
	}
	return h.data[0].Offset
}
