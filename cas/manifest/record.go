package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/errs"
)

const (
	magic      = "amMF"
	version    = 3
	headerSize = 28

	// MaxKey and MaxValue are the longest key and value in bytes.
	MaxKey   = 1024
	MaxValue = 4 << 20

	maxBytes = 512 << 20 // of all keys and values
	maxBody  = 640 << 20 // of a record, expanded
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

// cutRecord returns the sequence number and the body of the record that b begins with.
// The error is errs.Format for a sound header of another version.
func cutRecord(b []byte) (seq uint64, body []byte, err error) {
	if len(b) < headerSize || string(b[:4]) != magic || crc32.Checksum(b[:24], crcTable) != binary.LittleEndian.Uint32(b[24:]) {
		return 0, nil, errNoRecord
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != version {
		return 0, nil, errs.New(errs.Format, "manifest version %d, this version of amberfs reads version %d", v, version)
	}
	n := binary.LittleEndian.Uint32(b[16:])
	body = b[headerSize:]
	if uint64(n) > uint64(len(body)) || crc32.Checksum(body[:n], crcTable) != binary.LittleEndian.Uint32(b[20:]) {
		return 0, nil, errNoRecord
	}
	return binary.LittleEndian.Uint64(b[8:]), body[:n:n], nil
}

// recordBehind reports whether there is a record behind the first byte of b. Then what b
// begins with was damaged; otherwise a kill or a power cut may have torn it.
func recordBehind(b []byte) bool {
	for len(b) > 0 {
		i := bytes.Index(b[1:], []byte(magic))
		if i < 0 {
			return false
		}
		b = b[1+i:]
		if _, _, err := cutRecord(b); err == nil {
			return true
		}
	}
	return false
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
