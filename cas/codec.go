package cas

import (
	"errors"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress"
	"github.com/klauspost/compress/zstd"
)

const (
	minCompressLen = 128         // bytes; in shorter objects a zstd frame costs more than it saves
	samplePartLen  = 4 << 10 / 3 // bytes of each part of a sample, see looksRandom
	minSampledLen  = 16 << 10    // bytes; shorter objects are compressed without sampling
	// maxRandomEstimate separates random from compressible bytes by the result of compress.Estimate. The
	// result is smaller for 98 % of the samples of random bytes, and larger for nearly all samples of
	// compressible bytes.
	maxRandomEstimate = 0.05
)

// compressionLevel was chosen by measurement: see "Why one level of compression" in docs/dev/RATIONALE.md.
const compressionLevel = zstd.SpeedFastest

// A codec compresses and expands objects. It is safe for concurrent use.
type codec struct {
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	bufs sync.Pool // *[]byte: records being built
}

func newCodec() *codec {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(compressionLevel), zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
	dec, derr := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxObject), zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderLowmem(true))
	if err = errors.Join(err, derr); err != nil {
		panic(err) // impossible: the options above are valid
	}

	c := &codec{enc: enc, dec: dec}
	c.bufs.New = func() any { return new([]byte) }
	return c
}

func (c *codec) close() {
	c.dec.Close()
}

// buildRecord lays out a record in a pooled buffer: room for the header, the bytes (compressed if that
// saves 5 %), the padding. header.encode writes the header when the record's place is known. The
// caller gives the buffer back with releaseBuffer.
func (c *codec) buildRecord(kind Kind, hash Hash, plain []byte) (*header, *[]byte) {
	bp := c.bufs.Get().(*[]byte)
	b := (*bp)[:0]
	if cap(b) < headerSize {
		b = make([]byte, 0, headerSize+len(plain)+recordAlign)
	}

	b = b[:headerSize]
	h := &header{kind: kind, plainLen: uint32(len(plain)), hash: hash}
	if len(plain) >= minCompressLen && !looksRandom(plain) {
		b = c.enc.EncodeAll(plain, b)
		if len(b)-headerSize <= len(plain)-len(plain)/20 {
			h.flags |= flagZstd
		}
	}

	if h.flags&flagZstd == 0 {
		b = append(b[:headerSize], plain...)
	}

	h.storedLen = uint32(len(b) - headerSize)
	var zero [recordAlign]byte
	b = append(b, zero[:h.size()-int64(len(b))]...)
	h.crc = crc32.Checksum(b[headerSize:], crcTable)
	*bp = b
	return h, bp
}

// looksRandom reports whether b need not be compressed: b has at least minSampledLen bytes, and a sample
// of three parts of b looks random, as in files that are compressed already.
func looksRandom(b []byte) bool {
	if len(b) < minSampledLen {
		return false
	}

	var sample [3 * samplePartLen]byte
	for i, at := range []int{0, (len(b) - samplePartLen) / 2, len(b) - samplePartLen} {
		copy(sample[i*samplePartLen:], b[at:at+samplePartLen])
	}

	return compress.Estimate(sample[:]) <= maxRandomEstimate
}

// releaseBuffer gives a buffer back to the pool, unless it is too large to be kept.
func (c *codec) releaseBuffer(bp *[]byte) {
	if cap(*bp) <= 1<<20 {
		c.bufs.Put(bp)
	}
}

// expand appends the uncompressed bytes of a record to dst[:0]. It fails if their number is not plainLen.
func (c *codec) expand(flags uint8, plainLen uint32, stored, dst []byte) ([]byte, error) {
	if flags&flagZstd == 0 {
		dst = append(dst[:0], stored...)
	} else {
		if cap(dst) < int(plainLen) {
			dst = make([]byte, 0, plainLen)
		}

		var err error
		dst, err = c.dec.DecodeAll(stored, dst[:0])
		if err != nil {
			return dst, err
		}
	}
	if len(dst) != int(plainLen) {
		return dst, errors.New("length does not match the header")
	}
	return dst, nil
}
