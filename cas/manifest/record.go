package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/errs"
)

const (
	magic      = 0x464d6d61 // "amMF"
	version    = 2
	headerSize = 48
	align      = 8

	kindBase   = 1
	kindCommit = 2

	// MaxKey and MaxValue are the longest key and value in bytes.
	MaxKey   = 1024
	MaxValue = 4 << 20

	maxBody  = 96 << 20  // bytes of a commit, before it is compressed
	maxBytes = 192 << 20 // of all keys and values
)

// maxEntries is how many keys there can be. Tests set it lower.
var maxEntries = 1 << 20

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// An Op sets or deletes one value. Keys are not empty.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
}

// A record is one record of a log; see the package comment.
type record struct {
	kind uint8
	zstd bool
	gen  uint64
	seq  uint64
	off  int64
	left uint32
	body []byte
}

func padded(n int) int { return (n + align - 1) &^ (align - 1) }

// size is the length in the file in bytes.
func (r *record) size() int64 { return headerSize + int64(padded(len(r.body))) }

func (r *record) encode() []byte {
	b := make([]byte, r.size())
	copy(b[headerSize:], r.body)
	binary.LittleEndian.PutUint32(b[0:], magic)
	binary.LittleEndian.PutUint16(b[4:], version)
	b[6] = r.kind
	if r.zstd {
		b[7] = 1
	}
	binary.LittleEndian.PutUint64(b[8:], r.gen)
	binary.LittleEndian.PutUint64(b[16:], r.seq)
	binary.LittleEndian.PutUint64(b[24:], uint64(r.off))
	binary.LittleEndian.PutUint32(b[32:], uint32(len(r.body)))
	binary.LittleEndian.PutUint32(b[36:], r.left)
	binary.LittleEndian.PutUint32(b[40:], crc32.Checksum(b[headerSize:], crcTable))
	binary.LittleEndian.PutUint32(b[44:], crc32.Checksum(b[:44], crcTable))
	return b
}

var (
	errTooMuch  = errors.New("more metadata than a manifest holds")
	errNoRecord = errors.New("no record of a manifest")
	errShort    = errors.New("the file ends within the record")
	errChecksum = errors.New("the checksum does not match")
)

// decodeRecord reads the record at off of file. Its body is part of file. The error
// is errs.Format for a sound header of another version, and errShort for a sound
// header of a record that the file does not hold wholly.
func decodeRecord(file []byte, off int64) (record, error) {
	b := file[off:]
	if len(b) < headerSize || binary.LittleEndian.Uint32(b) != magic {
		return record{}, errNoRecord
	}
	if crc32.Checksum(b[:44], crcTable) != binary.LittleEndian.Uint32(b[44:]) {
		return record{}, errChecksum
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != version {
		return record{}, errs.New(errs.Format, "manifest version %d, this program knows version %d", v, version)
	}
	r := record{
		kind: b[6], zstd: b[7] == 1,
		gen: binary.LittleEndian.Uint64(b[8:]), seq: binary.LittleEndian.Uint64(b[16:]),
		off: int64(binary.LittleEndian.Uint64(b[24:])), left: binary.LittleEndian.Uint32(b[36:]),
	}
	n := int64(binary.LittleEndian.Uint32(b[32:]))
	if r.off != off || r.seq > 1<<62 || r.kind != kindBase && r.kind != kindCommit || b[7] > 1 {
		return record{}, errNoRecord
	}
	if end := headerSize + int64(padded(int(n))); end > int64(len(b)) {
		return record{}, errShort
	} else if crc32.Checksum(b[headerSize:end], crcTable) != binary.LittleEndian.Uint32(b[40:]) {
		return record{}, errChecksum
	}
	r.body = b[headerSize : headerSize+n]
	return r, nil
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

var errBody = errors.New("malformed entries")

// decodeOps calls fn with the entries that appendOps wrote, and refuses everything else.
// The values are parts of b.
func decodeOps(b []byte, fn func(Op)) error {
	count, b, err := number(b, uint64(len(b)))
	for ; err == nil && count > 0; count-- {
		if len(b) == 0 || b[0] > 1 {
			return errBody
		}
		op := Op{Delete: b[0] == 1}
		var key []byte
		if key, b, err = field(b[1:], MaxKey); err == nil {
			op.Value, b, err = field(b, MaxValue)
		}
		if err != nil || len(key) == 0 || op.Delete && len(op.Value) > 0 {
			return errBody
		}
		op.Key = string(key)
		fn(op)
	}
	if err == nil && len(b) > 0 {
		return errBody
	}
	return err
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

// A codec compresses bodies.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return codec{}, fmt.Errorf("set up compression: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBody))
	if err != nil {
		return codec{}, fmt.Errorf("set up decompression: %w", err)
	}
	return codec{enc, dec}, nil
}

// pack gives a record its body, compressed if that is smaller at all: a body that is
// not has no sector of zeros, see torn. It returns how long it is when expanded.
func (c codec) pack(r *record, ops []Op) (plainSize int) {
	plain := appendOps(nil, ops)
	r.body, r.zstd = plain, false
	if b := c.enc.EncodeAll(plain, nil); len(b) < len(plain) {
		r.body, r.zstd = b, true
	}
	return len(plain)
}

// unpack calls fn with the entries of a record.
func (c codec) unpack(r *record, fn func(Op)) error {
	b := r.body
	if r.zstd {
		var err error
		if b, err = c.dec.DecodeAll(b, nil); err != nil {
			return err
		}
	}
	return decodeOps(b, fn)
}

func (c codec) close() { c.dec.Close() }
