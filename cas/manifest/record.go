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
	errTooMuch   = errors.New("more metadata than a manifest holds")
	errNoRecord  = errors.New("no record of a manifest")
	errMalformed = errors.New("malformed entries")
)

func newEncoder() *zstd.Encoder {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // the options are wrong
	}
	return enc
}

// encode writes the body of a record with count ops.
func encode(w io.Writer, enc *zstd.Encoder, count int, ops iter.Seq[Op]) error {
	enc.Reset(w)
	return errors.Join(writeOps(&limitWriter{w: enc}, count, ops), enc.Close())
}

// A limitWriter fails when more than maxBodySize bytes are written.
type limitWriter struct {
	w io.Writer
	n int
}

func (p *limitWriter) Write(b []byte) (int, error) {
	if p.n += len(b); p.n > maxBodySize {
		return 0, errTooMuch
	}
	return p.w.Write(b)
}

// decode calls fn for the ops of a body. If fn returns an error, decode ends and returns it. decode
// reads at most maxBodySize decompressed bytes.
func decode(body io.Reader, fn func(Op) error) error {
	dec, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBodySize))
	if err != nil {
		return err
	}
	defer dec.Close()
	return readOps(bufio.NewReader(io.LimitReader(dec, maxBodySize)), fn)
}

func encodeHeader(h recordHeader) []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[4:], version)
	binary.LittleEndian.PutUint64(b[8:], h.seq)
	binary.LittleEndian.PutUint32(b[16:], uint32(h.length))
	binary.LittleEndian.PutUint32(b[20:], h.crc)
	binary.LittleEndian.PutUint32(b[24:], crc32.Checksum(b[:24], crcTable))

	return b
}

// A recordHeader has the fields of the header of a record.
type recordHeader struct {
	seq    uint64
	length int64  // of the body
	crc    uint32 // of the body
}

// decodeHeader decodes a header. For an intact header of another version it returns errs.Format.
func decodeHeader(b []byte) (recordHeader, error) {
	if len(b) < headerSize || string(b[:4]) != magic || crc32.Checksum(b[:24], crcTable) != binary.LittleEndian.Uint32(b[24:]) {
		return recordHeader{}, errNoRecord
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != version {
		return recordHeader{}, errs.New(errs.Format, "manifest version %d, this version of amberfs reads version %d", v, version)
	}

	h := recordHeader{binary.LittleEndian.Uint64(b[8:]), int64(binary.LittleEndian.Uint32(b[16:])), binary.LittleEndian.Uint32(b[20:])}
	if h.length > maxBodySize {
		return recordHeader{}, errNoRecord
	}

	return h, nil
}

// A recordSearch finds records in a file of any content. It uses a bounded amount of memory and time.
type recordSearch struct {
	r          io.ReaderAt
	size       int64
	bodyBudget int64 // bytes of bodies that it may still read
	buf        []byte
	bufOff     int64 // offset of buf[0]
}

const searchReadSize = 1 << 20 // bytes of a read

// window returns at least n bytes of the file from off on, or fewer at the end of the file.
func (s *recordSearch) window(off int64, n int) ([]byte, error) {
	if off < s.bufOff || off+int64(n) > s.bufOff+int64(len(s.buf)) {
		if s.buf == nil {
			s.buf = make([]byte, min(searchReadSize, s.size))
		}

		k, err := s.r.ReadAt(s.buf[:cap(s.buf)], off)
		if k < n && err != nil && err != io.EOF {
			s.buf = s.buf[:0]
			return nil, err
		}

		s.buf, s.bufOff = s.buf[:k], off
	}
	return s.buf[off-s.bufOff:], nil
}

// readRecord reads the header of the record at off, and compares the body with its checksum. It returns
// errNoRecord if there is no intact record.
func (s *recordSearch) readRecord(off int64) (recordHeader, error) {
	b, err := s.window(off, headerSize)
	if err != nil {
		return recordHeader{}, err
	}

	h, err := decodeHeader(b)
	if err != nil {
		return h, err
	}
	if h.length > s.size-off-headerSize || h.length > s.bodyBudget {
		return h, errNoRecord
	}

	s.bodyBudget -= h.length
	sum := crc32.New(crcTable)
	if _, err := io.Copy(sum, io.NewSectionReader(s.r, off+headerSize, h.length)); err != nil {
		return h, err
	}
	if sum.Sum32() != h.crc {
		return h, errNoRecord
	}

	return h, nil
}

// nextMagic returns the offset of the next magic bytes after off, or the size of the file. It skips blocks
// that the disk cannot read.
func (s *recordSearch) nextMagic(off int64) int64 {
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

// writeOps writes count ops in the format of a body.
func writeOps(w io.Writer, count int, ops iter.Seq[Op]) error {
	b := binary.AppendUvarint(nil, uint64(count))

	for op := range ops {
		if op.Delete {
			op.Value = nil
		}
		if _, err := w.Write(appendOp(b, op)); err != nil {
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

// appendOp appends an op without its value.
func appendOp(b []byte, op Op) []byte {
	kind := byte(0)
	if op.Delete {
		kind = 1
	}
	b = binary.AppendUvarint(append(b, kind), uint64(len(op.Key)))
	return binary.AppendUvarint(append(b, op.Key...), uint64(len(op.Value)))
}

// readOps calls fn for the entries of a body. It returns errMalformed for bytes that writeOps cannot have
// written.
func readOps(r *bufio.Reader, fn func(Op) error) error {
	count, err := binary.ReadUvarint(r)
	if err != nil {
		return malformedError(err)
	}

	for ; count > 0; count-- {
		op, err := readOp(r)
		if err != nil {
			return malformedError(err)
		}
		if err := fn(op); err != nil {
			return err
		}
	}

	if _, err := r.ReadByte(); err != io.EOF {
		return malformedError(err)
	}

	return nil
}

func readOp(r *bufio.Reader) (Op, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return Op{}, err
	}

	key, err := readField(r, MaxKey)
	if err != nil {
		return Op{}, err
	}

	value, err := readField(r, MaxValue)
	if err != nil {
		return Op{}, err
	}

	op := Op{Key: string(key), Value: value, Delete: kind == 1}
	if kind > 1 || op.Key == "" || op.Delete && len(op.Value) > 0 {
		return Op{}, errMalformed
	}

	return op, nil
}

// malformedError returns errMalformed. If err is not nil, the result wraps both.
func malformedError(err error) error {
	if err == nil || err == errMalformed {
		return errMalformed
	}
	return fmt.Errorf("%w: %w", errMalformed, err)
}

// readField reads a length, which must be at most limit, and then a field of this length in bytes.
func readField(r *bufio.Reader, limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, errMalformed
	}

	v := make([]byte, n)
	_, err = io.ReadFull(r, v)
	return v, err
}
