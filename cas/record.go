package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// kindFree is the kind of a free record: the space of removed objects.
const kindFree Kind = 255

const (
	recordMagic = 0x43526d61 // "amRC"
	headerSize  = 64
	recordAlign = 64
	flagZstd    = 1 << 0
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// A header describes the record whose bytes follow it. See FORMAT.md.
type header struct {
	kind      Kind
	flags     uint8
	plainLen  uint32 // bytes before compression
	storedLen uint32 // bytes in the pack; in a free record: its whole length in units of recordAlign
	hash      Hash
	crc       uint32 // CRC-32C of the stored bytes and their padding
}

// padded rounds up to the alignment of records.
func padded(n int64) int64 { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// size returns the length of the whole record in bytes: header, stored bytes and padding.
func (h *header) size() int64 {
	if h.kind == kindFree {
		return int64(h.storedLen) * recordAlign
	}
	return headerSize + padded(int64(h.storedLen))
}

// isObject reports whether the record is an object, not free space.
func (h *header) isObject() bool { return h.kind == KindData || h.kind == KindTree }

// encode writes the header of a record at offset off of pack id to b. The checksum includes id and
// off: so if an object's bytes contain a copy of a pack, no record of that copy is taken for a record
// of the pack around it.
func (h *header) encode(b []byte, id uint64, off int64) {
	_ = b[headerSize-1]
	binary.LittleEndian.PutUint32(b[0:], recordMagic)
	b[4] = byte(h.kind)
	b[5] = h.flags
	b[6], b[7] = 0, 0
	binary.LittleEndian.PutUint32(b[8:], h.plainLen)
	binary.LittleEndian.PutUint32(b[12:], h.storedLen)
	copy(b[16:48], h.hash[:])
	binary.LittleEndian.PutUint32(b[48:], h.crc)
	clear(b[52:60])
	binary.LittleEndian.PutUint32(b[60:], headerCRC(b, id, off))
}

func headerCRC(b []byte, id uint64, off int64) uint32 {
	var place [16]byte
	binary.LittleEndian.PutUint64(place[0:], id)
	binary.LittleEndian.PutUint64(place[8:], uint64(off))
	return crc32.Update(crc32.Checksum(b[:60], crcTable), crcTable, place[:])
}

var errNoRecord = errors.New("no record header")

// decodeHeader reads the header at offset off of pack id. It returns an error for a header that encode
// cannot have written there.
func decodeHeader(b []byte, id uint64, off int64) (header, error) {
	var h header
	if len(b) < headerSize || binary.LittleEndian.Uint32(b) != recordMagic {
		return h, errNoRecord
	}
	if binary.LittleEndian.Uint32(b[60:]) != headerCRC(b, id, off) {
		return h, errors.New("header checksum does not match")
	}

	h.kind = Kind(b[4])
	h.flags = b[5]
	h.plainLen = binary.LittleEndian.Uint32(b[8:])
	h.storedLen = binary.LittleEndian.Uint32(b[12:])
	copy(h.hash[:], b[16:48])
	h.crc = binary.LittleEndian.Uint32(b[48:])
	if h.kind != kindFree {
		return h, checkLengths(h.kind, h.flags, h.plainLen, h.storedLen)
	}
	if h.storedLen == 0 {
		return h, errors.New("free record of no length")
	}

	return h, nil
}

// checkLengths returns an error for lengths that no object can have.
func checkLengths(kind Kind, flags uint8, plainLen, storedLen uint32) error {
	if kind != KindData && kind != KindTree {
		return fmt.Errorf("unknown record kind %d", kind)
	}
	if storedLen > MaxObject || plainLen > MaxObject || flags&^flagZstd != 0 || flags == 0 && plainLen != storedLen {
		return fmt.Errorf("impossible lengths %d and %d, flags %#x", plainLen, storedLen, flags)
	}
	return nil
}

// A loc is the place of an object, and the fields of the record's header that are needed to read it.
type loc struct {
	pack      uint64
	off       int64 // offset of the record's header in the pack
	plainLen  uint32
	storedLen uint32
	kind      Kind
	flags     uint8
}

func (h *header) loc(id uint64, off int64) loc {
	return loc{pack: id, off: off, plainLen: h.plainLen, storedLen: h.storedLen, kind: h.kind, flags: h.flags}
}

// size returns the length of the record in bytes: header, stored bytes and padding.
func (l loc) size() int64 { return headerSize + padded(int64(l.storedLen)) }

// A place identifies a record.
type place struct {
	pack uint64 // id of the pack
	off  int64  // offset of the record's header in the pack
}

func (l loc) place() place { return place{l.pack, l.off} }

// samePlace reports whether l and o have the same place.
func (l loc) samePlace(o loc) bool { return l.place() == o.place() }
