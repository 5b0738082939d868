package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	segmentHeader = 128 // bytes before the first record
	headerMagic   = "amberjnl"
	formatVersion = 2
)

// A header is the decoded beginning of a segment. FORMAT.md has the layout.
type header struct {
	base     int64  // position of the first byte of the file
	firstSeq uint64 // of its first record
	durable  int64  // the log was durable up to here when the segment was opened
	id       [16]byte
	nonce    uint64
}

func (h header) encode() []byte {
	b := make([]byte, segmentHeader)
	copy(b, headerMagic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.base))
	binary.LittleEndian.PutUint64(b[24:], h.firstSeq)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.durable))
	copy(b[40:], h.id[:])
	binary.LittleEndian.PutUint64(b[56:], h.nonce)
	binary.LittleEndian.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))
	return b
}

// decodeHeader is false for what is no header, and an error for one of a
// version that is not known.
func decodeHeader(b []byte) (header, bool, error) {
	if len(b) < segmentHeader || string(b[:8]) != headerMagic {
		return header{}, false, nil
	}
	if crc32.Checksum(b[:124], castagnoli) != binary.LittleEndian.Uint32(b[124:]) {
		return header{}, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return header{}, false, fmt.Errorf("%w: version %d, this program knows %d", ErrFormat, v, formatVersion)
	}
	h := header{
		base:     int64(binary.LittleEndian.Uint64(b[16:])),
		firstSeq: binary.LittleEndian.Uint64(b[24:]),
		durable:  int64(binary.LittleEndian.Uint64(b[32:])),
		id:       [16]byte(b[40:56]),
		nonce:    binary.LittleEndian.Uint64(b[56:]),
	}
	ok := h.base >= 0 && h.firstSeq > 0 && h.durable >= 0 && h.durable <= h.base
	return h, ok, nil
}

// seed is what the checksums of the segment's records start with: it ties them
// to this journal, this position and this use of the file.
func (h header) seed() uint32 {
	var b [32]byte
	copy(b[:], h.id[:])
	binary.LittleEndian.PutUint64(b[16:], uint64(h.base))
	binary.LittleEndian.PutUint64(b[24:], h.nonce)
	return crc32.Checksum(b[:], castagnoli)
}
