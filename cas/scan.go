package cas

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
)

// readFull reads until p is full or the file ends, which is no error.
func readFull(r io.ReaderAt, p []byte, off int64) (int, error) {
	n, err := r.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// readExactly fills p or fails.
func readExactly(r io.ReaderAt, p []byte, off int64) error {
	n, err := readFull(r, p, off)
	if err == nil && n < len(p) {
		err = errors.New("the pack ends before the record")
	}
	return err
}

// An item is what a scan found at one place of a pack: a record, or bytes that
// are none.
type item struct {
	header
	off    int64
	length int64  // bytes up to the next item
	raw    []byte // the whole record, if bodies were asked for; valid during the call
	bad    string // why the record is damaged; empty if it is good
	lost   bool   // the header is damaged, too
}

func (it *item) body() []byte { return it.raw[headerSize : headerSize+int64(it.stored)] }

// A scan walks the records of a pack from one offset to another.
type scan struct {
	r        io.ReaderAt
	id       uint64
	from, to int64
	bodies   bool // read the bytes and check their checksum

	buf   []byte
	start int64 // offset of buf[0]
}

// scanBytes are read at a time, also when only headers are wanted: reading on costs less than
// going to the next header of chunks.
const scanBytes = 1 << 20

// window returns [off, off+n) of the pack, shorter where the range ends.
func (s *scan) window(off, n int64) ([]byte, error) {
	n = min(n, s.to-off)
	if n <= 0 {
		return nil, nil
	}
	if off >= s.start && off+n <= s.start+int64(len(s.buf)) {
		return s.buf[off-s.start:][:n], nil
	}
	want := min(max(n, scanBytes), s.to-off)
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.start = s.buf[:want], off
	got, err := readFull(s.r, s.buf, off)
	s.buf = s.buf[:got]
	if int64(got) >= n {
		return s.buf[:n], nil
	}
	return s.buf, err
}

// run calls fn for every item in order, without gaps between them. A damaged
// header costs the records up to the next intact one, which is searched.
func (s *scan) run(ctx context.Context, fn func(it *item) error) error {
	for off := s.from; off < s.to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		it := s.at(off)
		if err := fn(&it); err != nil {
			return err
		}
		off += it.length
	}
	return nil
}

func (s *scan) at(off int64) item {
	it := item{off: off}
	b, err := s.window(off, headerSize)
	if err == nil {
		it.header, err = decodeHeader(b, s.id, off)
	}
	if err != nil {
		it.header = header{}
		it.lost = true
		it.bad = err.Error()
		it.length = s.resync(off) - off
		return it
	}
	it.length = it.size()
	if off+it.length > s.to {
		it.length = s.to - off
		if it.kind == kindFree {
			return it // the pack was cut within free space: nothing is missing
		}
		it.bad = "the pack ends within the record"
		return it
	}
	if it.kind == kindFree || !s.bodies {
		return it
	}
	it.raw, err = s.window(off, it.length)
	switch {
	case err != nil:
		it.bad = err.Error()
	case int64(len(it.raw)) < it.length:
		it.bad = "the pack ends within the record"
	case crc32.Checksum(it.raw[headerSize:], crcTable) != it.crc:
		it.bad = "checksum of the bytes does not match"
	}
	return it
}

// resync finds the next intact header after off, or the end.
func (s *scan) resync(off int64) int64 {
	const sector = 4096
	for off += recordAlign; off < s.to; {
		b, err := s.window(off, headerSize)
		if err != nil {
			off = (off/sector + 1) * sector
			continue
		}
		if _, err := decodeHeader(b, s.id, off); err == nil {
			return off
		}
		off += recordAlign
	}
	return s.to
}
