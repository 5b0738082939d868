package manifest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/errs"
)

const (
	magic      = "amMF"
	version    = 3
	headerSize = 28
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// An Op sets or deletes one value. Keys are not empty.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
}

var (
	errTooMuch  = errors.New("more metadata than a manifest holds")
	errNoRecord = errors.New("no record of a manifest")
	errBody     = errors.New("malformed entries")
)

func newEncoder() *zstd.Encoder {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // the options are wrong
	}
	return enc
}

// encode writes the body of a record with so many entries.
func encode(w io.Writer, enc *zstd.Encoder, count int, ops iter.Seq[Op]) error {
	enc.Reset(w)
	return errors.Join(writeOps(&plainWriter{w: enc}, count, ops), enc.Close())
}

// A plainWriter refuses more than a body has.
type plainWriter struct {
	w io.Writer
	n int
}

func (p *plainWriter) Write(b []byte) (int, error) {
	if p.n += len(b); p.n > maxBody {
		return 0, errTooMuch
	}
	return p.w.Write(b)
}

// decode calls fn for the entries of a record whose checksums hold, and returns its error. What is
// beyond maxBody is not read.
func decode(body io.Reader, fn func(Op) error) error {
	dec, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBody))
	if err != nil {
		return err
	}
	defer dec.Close()
	return readOps(bufio.NewReader(io.LimitReader(dec, maxBody)), fn)
}

func header(h head) []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[4:], version)
	binary.LittleEndian.PutUint64(b[8:], h.seq)
	binary.LittleEndian.PutUint32(b[16:], uint32(h.length))
	binary.LittleEndian.PutUint32(b[20:], h.crc)
	binary.LittleEndian.PutUint32(b[24:], crc32.Checksum(b[:24], crcTable))
	return b
}

// A head is what the header of a record says.
type head struct {
	seq    uint64
	length int64 // of the body
	crc    uint32
}

// readHead decodes a header. The error is errs.Format for a sound one of another version.
func readHead(b []byte) (head, error) {
	if len(b) < headerSize || string(b[:4]) != magic || crc32.Checksum(b[:24], crcTable) != binary.LittleEndian.Uint32(b[24:]) {
		return head{}, errNoRecord
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != version {
		return head{}, errs.New(errs.Format, "manifest version %d, this version of amberfs reads version %d", v, version)
	}
	h := head{binary.LittleEndian.Uint64(b[8:]), int64(binary.LittleEndian.Uint32(b[16:])), binary.LittleEndian.Uint32(b[20:])}
	if h.length > maxBody {
		return head{}, errNoRecord
	}
	return h, nil
}

// A search finds records in a file. It reads through a buffer of bounded size.
type search struct {
	r    io.ReaderAt
	size int64
	left int64 // bytes of bodies that may still be read
	buf  []byte
	at   int64 // offset of buf[0]
}

const searchStep = 1 << 20 // bytes read at a time

// window returns the bytes at off, at least n of them unless the file ends.
func (s *search) window(off int64, n int) ([]byte, error) {
	if off < s.at || off+int64(n) > s.at+int64(len(s.buf)) {
		if s.buf == nil {
			s.buf = make([]byte, min(searchStep, s.size))
		}
		k, err := s.r.ReadAt(s.buf[:cap(s.buf)], off)
		if k < n && err != nil && err != io.EOF {
			s.buf = s.buf[:0]
			return nil, err
		}
		s.buf, s.at = s.buf[:k], off
	}
	return s.buf[off-s.at:], nil
}

// record reads the header of a record, and compares the body with its checksum.
func (s *search) record(off int64) (head, error) {
	b, err := s.window(off, headerSize)
	if err != nil {
		return head{}, err
	}
	h, err := readHead(b)
	if err != nil {
		return h, err
	}
	if h.length > s.size-off-headerSize || h.length > s.left {
		return h, errNoRecord
	}
	s.left -= h.length
	sum := crc32.New(crcTable)
	if _, err := io.Copy(sum, io.NewSectionReader(s.r, off+headerSize, h.length)); err != nil {
		return h, err
	}
	if sum.Sum32() != h.crc {
		return h, errNoRecord
	}
	return h, nil
}

// next returns where the next record may begin behind off, or the size. Blocks that the disk
// cannot read are skipped.
func (s *search) next(off int64) int64 {
	const block = 4096
	for off++; off < s.size; {
		b, err := s.window(off, len(magic))
		if err != nil {
			off = (off/block + 1) * block
			continue
		}
		if i := bytes.Index(b, []byte(magic)); i >= 0 {
			return off + int64(i)
		}
		off += int64(max(len(b)-len(magic)+1, 1))
	}
	return s.size
}

func writeOps(w io.Writer, count int, ops iter.Seq[Op]) error {
	b := binary.AppendUvarint(nil, uint64(count))
	for op := range ops {
		kind := byte(0)
		if op.Delete {
			kind, op.Value = 1, nil
		}
		b = binary.AppendUvarint(append(b, kind), uint64(len(op.Key)))
		b = binary.AppendUvarint(append(b, op.Key...), uint64(len(op.Value)))
		if _, err := w.Write(b); err != nil {
			return err
		}
		if _, err := w.Write(op.Value); err != nil {
			return err
		}
		b = b[:0]
	}
	_, err := w.Write(b)
	return err
}

// readOps calls fn for the entries that writeOps wrote, and refuses everything else.
func readOps(r *bufio.Reader, fn func(Op) error) error {
	count, err := binary.ReadUvarint(r)
	for ; err == nil && count > 0; count-- {
		kind, err := r.ReadByte()
		if err != nil || kind > 1 {
			return malformed(err)
		}
		op := Op{Delete: kind == 1}
		key, err := field(r, MaxKey)
		if err == nil {
			op.Value, err = field(r, MaxValue)
		}
		if err != nil || len(key) == 0 || op.Delete && len(op.Value) > 0 {
			return malformed(err)
		}
		op.Key = string(key)
		if err := fn(op); err != nil {
			return err
		}
	}
	if err == nil {
		if _, err = r.ReadByte(); err == io.EOF {
			return nil
		}
	}
	return malformed(err)
}

func malformed(err error) error {
	if err == nil {
		return errBody
	}
	return fmt.Errorf("%w: %w", errBody, err)
}

// field reads a length of at most limit and that many bytes.
func field(r *bufio.Reader, limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, errBody
	}
	v := make([]byte, n)
	_, err = io.ReadFull(r, v)
	return v, err
}
