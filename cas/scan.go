package cas

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
)

// readUpTo reads until p is full or the file ends. The end of the file is no error.
func readUpTo(r io.ReaderAt, p []byte, off int64) (int, error) {
	n, err := r.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// readExactly fills p. It fails if the file ends before.
func readExactly(r io.ReaderAt, p []byte, off int64) error {
	n, err := readUpTo(r, p, off)
	if err != nil {
		return err
	}
	if n < len(p) {
		return errors.New("the pack ends before the record")
	}
	return nil
}

// An item is a record that a scan found, or a range of damaged bytes.
type item struct {
	header
	off       int64
	length    int64  // bytes up to the next item
	raw       []byte // the whole record if scan.readBodies is set; overwritten by the next readItem
	damage    string // why the record is damaged; empty if it is good
	headerBad bool   // the header is damaged, and the embedded header is zero
}

// body returns the stored bytes of a record whose raw bytes were read.
func (it *item) body() []byte { return it.raw[headerSize : headerSize+int64(it.storedLen)] }

// A scan reads the records of a pack from one offset to another.
type scan struct {
	r          io.ReaderAt
	id         uint64
	start, end int64
	readBodies bool // read the bytes and check their checksum

	buf      []byte
	bufStart int64 // offset of buf[0]
}

// scanBytes is the number of bytes that a scan reads at once, also if it needs only the headers: a
// long read costs less than one read for each header.
const scanBytes = 1 << 20

// window returns n bytes of the pack from off on, or fewer at scan.end or at the end of the file. The
// next call overwrites the bytes.
func (s *scan) window(off, n int64) ([]byte, error) {
	n = min(n, s.end-off)
	if n <= 0 {
		return nil, nil
	}
	if off >= s.bufStart && off+n <= s.bufStart+int64(len(s.buf)) {
		return s.buf[off-s.bufStart:][:n], nil
	}

	want := min(max(n, scanBytes), s.end-off)
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}

	s.buf, s.bufStart = s.buf[:want], off
	got, err := readUpTo(s.r, s.buf, off)
	s.buf = s.buf[:got]
	if int64(got) >= n {
		return s.buf[:n], nil
	}

	return s.buf, err
}

// run calls fn for every item, in the order of their offsets. There are no gaps between the items: a
// range of damaged bytes extends to the next intact header.
func (s *scan) run(ctx context.Context, fn func(it *item) error) error {
	for off := s.start; off < s.end; {
		if err := ctx.Err(); err != nil {
			return err
		}

		it := s.readItem(off)
		if err := fn(&it); err != nil {
			return err
		}

		off += it.length
	}
	return nil
}

// readItem returns the item at off, which is the end of the item before.
func (s *scan) readItem(off int64) item {
	it := item{off: off}

	// Read the header. If it is damaged, the item extends to the next intact header.
	b, err := s.window(off, headerSize)
	if err == nil {
		it.header, err = decodeHeader(b, s.id, off)
	}

	if err != nil {
		it.header = header{}
		it.headerBad = true
		it.damage = err.Error()
		it.length = s.nextHeader(off) - off
		return it
	}

	it.length = it.size()
	if off+it.length > s.end {
		it.length = s.end - off
		if it.kind == kindFree {
			return it // the pack was cut within free space: no record is missing
		}

		it.damage = "the pack ends within the record"
		return it
	}
	if it.kind == kindFree || !s.readBodies {
		return it
	}

	it.raw, err = s.window(off, it.length)
	switch {
	case err != nil:
		it.damage = err.Error()
	case int64(len(it.raw)) < it.length:
		it.damage = "the pack ends within the record"
	case crc32.Checksum(it.raw[headerSize:], crcTable) != it.crc:
		it.damage = "checksum of the bytes does not match"
	}

	return it
}

// nextHeader returns the offset of the next intact header after off, or scan.end.
func (s *scan) nextHeader(off int64) int64 {
	const sector = 4096
	for off += recordAlign; off < s.end; {
		b, err := s.window(off, headerSize)
		if err != nil { // the disk cannot read this sector
			off = (off/sector + 1) * sector
			continue
		}

		if _, err := decodeHeader(b, s.id, off); err == nil {
			return off
		}

		off += recordAlign
	}

	return s.end
}
