package cas

import "hash/crc32"

// mendHeader tries every single bit of a header, in place, until it is valid.
func mendHeader(b []byte, id uint64, off int64) (header, bool) {
	for i := range headerSize * 8 {
		b[i/8] ^= 1 << (i % 8)
		if h, err := decodeHeader(b, id, off); err == nil {
			return h, true
		}
		b[i/8] ^= 1 << (i % 8)
	}
	return header{}, false
}

// mendBody corrects a single wrong bit in b, in place, so that b has the
// checksum want. A CRC is linear: a flipped bit changes it by a value that
// depends only on how far from the end the bit is, and those values can be
// stepped through from the last bit to the first.
func mendBody(b []byte, want uint32) bool {
	diff := crc32.Checksum(b, crcTable) ^ want
	if diff == 0 {
		return true
	}
	d := uint32(crc32.Castagnoli) // of the last bit, the highest of the last byte
	for i := len(b)*8 - 1; i >= 0; i-- {
		if d == diff {
			b[i/8] ^= 1 << (i % 8)
			return true
		}
		lsb := d & 1
		d >>= 1
		if lsb != 0 {
			d ^= crc32.Castagnoli
		}
	}
	return false
}
