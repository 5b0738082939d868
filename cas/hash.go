package cas

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"sync"

	"lukechampine.com/blake3/guts"
)

// A Hash names an object: the BLAKE3-256 of its plain (uncompressed) bytes.
type Hash [32]byte

// groupSize is the number of bytes that the vector instructions hash at once.
const groupSize = guts.MaxSIMD * guts.ChunkSize

var groupBuffers = sync.Pool{New: func() any { return new([groupSize]byte) }}

// Sum returns the hash of b. It uses one processor. blake3.Sum256 is not used: it starts a goroutine
// for every 16 KiB, which costs more than to hash them, and callers with much to hash already use all
// processors.
func Sum(b []byte) (h Hash) {
	n := hashTree(b, 0)
	n.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(n))
	copy(h[:], out[:])
	return h
}

// hashTree returns the root of the BLAKE3 tree over b. chunks is the number of chunks of the input
// before b. The left subtree has the largest power of two of whole groups that leaves at least one
// byte for the right one.
func hashTree(b []byte, chunks uint64) guts.Node {
	if len(b) <= groupSize {
		return hashGroup(b, chunks)
	}
	half := groupSize << (bits.Len(uint(len(b)-1)/groupSize) - 1)
	left := guts.ChainingValue(hashTree(b[:half], chunks))
	right := guts.ChainingValue(hashTree(b[half:], chunks+uint64(half/guts.ChunkSize)))
	return guts.ParentNode(left, right, &guts.IV, 0)
}

// hashGroup returns the root of the BLAKE3 tree over at most groupSize bytes.
func hashGroup(b []byte, chunks uint64) guts.Node {
	if len(b) <= guts.ChunkSize {
		return guts.CompressChunk(b, &guts.IV, chunks, 0)
	}
	if len(b) == groupSize {
		return guts.CompressBuffer((*[groupSize]byte)(b), groupSize, &guts.IV, chunks, 0)
	}

	buf := groupBuffers.Get().(*[groupSize]byte)
	defer groupBuffers.Put(buf)

	return guts.CompressBuffer(buf, copy(buf[:], b), &guts.IV, chunks, 0)
}

// ParseHash reads the 64 hexadecimal digits that String writes.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != hex.EncodedLen(len(h)) {
		return h, fmt.Errorf("hash %q: want %d hexadecimal digits", s, hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("hash %q: %w", s, err)
	}

	return h, nil
}

// String returns the hash in lower-case hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(b []byte) (err error) {
	*h, err = ParseHash(string(b))
	return err
}

// IsZero reports whether h is the zero value, which names no object.
func (h Hash) IsZero() bool { return h == Hash{} }
