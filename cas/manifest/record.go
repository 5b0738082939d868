package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

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

// A codec encodes records.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() codec {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	dec, derr := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBody))
	if err = errors.Join(err, derr); err != nil {
		panic(err) // the options above are wrong
	}
	return codec{enc, dec}
}

func (c codec) encode(seq uint64, ops []Op) ([]byte, error) {
	plain := appendOps(nil, ops)
	if len(plain) > maxBody {
		return nil, errTooMuch
	}
	b := c.enc.EncodeAll(plain, make([]byte, headerSize))
	if len(b)-headerSize > maxBody {
		return nil, errTooMuch
	}
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[4:], version)
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(b)-headerSize))
	binary.LittleEndian.PutUint32(b[20:], crc32.Checksum(b[headerSize:], crcTable))
	binary.LittleEndian.PutUint32(b[24:], crc32.Checksum(b[:24], crcTable))
	return b, nil
}

// decode returns the entries of a record whose checksums hold.
func (c codec) decode(body []byte) ([]Op, error) {
	plain, err := c.dec.DecodeAll(body, nil)
	if err != nil {
		return nil, err
	}
	return decodeOps(plain)
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

// next returns where the next record may begin behind off, or the size. What the disk
// cannot read is passed over.
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

func appendOps(b []byte, ops []Op) []byte {
	b = binary.AppendUvarint(b, uint64(len(ops)))
	for _, op := range ops {
		if op.Delete {
			op.Value = nil
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
		b = binary.AppendUvarint(b, uint64(len(op.Key)))
		b = append(b, op.Key...)
		b = binary.AppendUvarint(b, uint64(len(op.Value)))
		b = append(b, op.Value...)
	}
	return b
}

// decodeOps returns the entries that appendOps wrote, and refuses everything else. The
// values are parts of b.
func decodeOps(b []byte) (ops []Op, err error) {
	count, b, err := number(b, uint64(len(b)))
	for ; err == nil && count > 0; count-- {
		if len(b) == 0 || b[0] > 1 {
			return nil, errBody
		}
		op := Op{Delete: b[0] == 1}
		var key []byte
		if key, b, err = field(b[1:], MaxKey); err == nil {
			op.Value, b, err = field(b, MaxValue)
		}
		if err != nil || len(key) == 0 || op.Delete && len(op.Value) > 0 {
			return nil, errBody
		}
		op.Key = string(key)
		ops = append(ops, op)
	}
	if err == nil && len(b) > 0 {
		return nil, errBody
	}
	return ops, err
}

// number reads one of at most limit, and returns what follows.
func number(b []byte, limit uint64) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > limit {
		return 0, nil, errBody
	}
	return v, b[n:], nil
}

// field reads a length of at most limit and that many bytes.
func field(b []byte, limit uint64) (v, rest []byte, err error) {
	n, b, err := number(b, limit)
	if err != nil || n > uint64(len(b)) {
		return nil, nil, errBody
	}
	return b[:n:n], b[n:], nil
}
