package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/amberfs/amberfs/internal/errs"
)

// Type is the meaning of a record to its writer. 0 is reserved.
type Type uint8

// typeMark is the type of a mark: an empty record that states the position up to which the log is durable.
// Close appends a mark, because no later record would state that the last records of the run are durable.
const typeMark Type = 0

// MaxPayload is the largest payload of a record in bytes, head and data together.
const MaxPayload = 16 << 20

const (
	recordHeaderSize = 32 // bytes before the payload
	recordAlign      = 8  // records begin at multiples of this
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A recordHead is the decoded header of a record. FORMAT.md has the layout.
type recordHead struct {
	length     uint32
	typ        Type
	seq        uint64
	durablePos int64  // position up to which the log was durable when the record was written
	payloadCRC uint32 // checksum of the payload
}

// putRecordHead encodes h into b[:recordHeaderSize].
func putRecordHead(b []byte, h recordHead, seed uint32) {
	binary.LittleEndian.PutUint32(b[0:], h.length)
	b[4], b[5], b[6], b[7] = byte(h.typ), 0, 0, 0
	binary.LittleEndian.PutUint64(b[8:], h.seq)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.durablePos))
	binary.LittleEndian.PutUint32(b[24:], h.payloadCRC)
	binary.LittleEndian.PutUint32(b[28:], crc32.Update(seed, castagnoli, b[:28]))
}

// peekRecordHead decodes b without checking its checksum. It returns false if b cannot be a header
// at position pos.
func peekRecordHead(b []byte, pos int64) (recordHead, bool) {
	if len(b) < recordHeaderSize {
		return recordHead{}, false
	}
	h := recordHead{
		length:     binary.LittleEndian.Uint32(b[0:]),
		typ:        Type(b[4]),
		seq:        binary.LittleEndian.Uint64(b[8:]),
		durablePos: int64(binary.LittleEndian.Uint64(b[16:])),
		payloadCRC: binary.LittleEndian.Uint32(b[24:]),
	}

	ok := h.seq != 0 && h.length <= MaxPayload && b[5]|b[6]|b[7] == 0 && h.durablePos >= 0 && h.durablePos <= pos
	return h, ok
}

// getRecordHead decodes and checks the header in b.
func getRecordHead(b []byte, seed uint32, pos int64) (recordHead, bool) {
	h, ok := peekRecordHead(b, pos)
	if !ok || crc32.Update(seed, castagnoli, b[:28]) != binary.LittleEndian.Uint32(b[28:]) {
		return recordHead{}, false
	}
	return h, true
}

// recordSize returns the size of a record with a payload of n bytes.
func recordSize(n int64) int64 {
	return (recordHeaderSize + n + recordAlign - 1) &^ (recordAlign - 1)
}

const (
	segmentHeaderSize = 128 // bytes before the first record
	headerMagic       = "amberjnl"
	formatVersion     = 2
)

// A header is the decoded header of a segment. FORMAT.md has the layout.
type header struct {
	base       int64  // position of the first byte of the file
	firstSeq   uint64 // sequence number of the first record
	durablePos int64  // position up to which the log was durable when the segment was created
	id         [16]byte
	nonce      uint64
}

func (h header) encode() []byte {
	b := make([]byte, segmentHeaderSize)
	copy(b, headerMagic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.base))
	binary.LittleEndian.PutUint64(b[24:], h.firstSeq)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.durablePos))
	copy(b[40:], h.id[:])
	binary.LittleEndian.PutUint64(b[56:], h.nonce)
	binary.LittleEndian.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))

	return b
}

// decodeHeader decodes the header of a segment. It returns false if b is not a header, and an error for a
// header of an unknown version.
func decodeHeader(b []byte) (header, bool, error) {
	if len(b) < segmentHeaderSize || string(b[:8]) != headerMagic {
		return header{}, false, nil
	}
	if crc32.Checksum(b[:124], castagnoli) != binary.LittleEndian.Uint32(b[124:]) {
		return header{}, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return header{}, false, fmt.Errorf("%w: version %d, this version of amberfs reads %d", errs.Format, v, formatVersion)
	}

	h := header{
		base:       int64(binary.LittleEndian.Uint64(b[16:])),
		firstSeq:   binary.LittleEndian.Uint64(b[24:]),
		durablePos: int64(binary.LittleEndian.Uint64(b[32:])),
		id:         [16]byte(b[40:56]),
		nonce:      binary.LittleEndian.Uint64(b[56:]),
	}

	ok := h.base >= 0 && h.firstSeq > 0 && h.durablePos >= 0 && h.durablePos <= h.base
	return h, ok, nil
}

// seed returns the initial value of the checksums of the segment's record headers. The seed depends on the
// id of the journal, and on the position and the random nonce of the segment, so that a record of another
// segment is not valid in this segment.
func (h header) seed() uint32 {
	var b [32]byte
	copy(b[:], h.id[:])
	binary.LittleEndian.PutUint64(b[16:], uint64(h.base))
	binary.LittleEndian.PutUint64(b[24:], h.nonce)
	return crc32.Checksum(b[:], castagnoli)
}
