package cas

import (
	"encoding/hex"
	"fmt"
	"sync"

	"lukechampine.com/blake3/guts"
)

// A Hash names an object: the BLAKE3-256 of its plain (uncompressed) bytes.
type Hash [32]byte

// groupSize is how many bytes the vector instructions hash at once.
const groupSize = guts.MaxSIMD * guts.ChunkSize

var groups = sync.Pool{New: func() any { return new([groupSize]byte) }}

// Sum returns the hash of b. It stays on one processor: blake3.Sum256 starts a
// goroutine for every 16 KiB, which costs more than hashing them, and those who hash
// much do so on all processors anyway.
func Sum(b []byte) Hash {
	if len(b) <= groupSize {
		return rootOf(lastGroup(b, 0))
	}
	var stack [48][8]uint32 // roots of whole subtrees, ever smaller ones
	top := 0
	n := uint64(0) // groups so far; its bits tell which subtrees are on the stack
	for ; len(b) > groupSize; b = b[groupSize:] {
		cv := guts.ChainingValue(guts.CompressBuffer((*[groupSize]byte)(b), groupSize, &guts.IV, n*guts.MaxSIMD, 0))
		for i := n; i&1 == 1; i >>= 1 {
			top--
			cv = parent(stack[top], cv)
		}
		stack[top] = cv
		top++
		n++
	}
	node := lastGroup(b, n*guts.MaxSIMD)
	for top--; top >= 0; top-- {
		node = guts.ParentNode(stack[top], guts.ChainingValue(node), &guts.IV, 0)
	}
	return rootOf(node)
}

func parent(left, right [8]uint32) [8]uint32 {
	return guts.ChainingValue(guts.ParentNode(left, right, &guts.IV, 0))
}

// lastGroup hashes at most groupSize bytes, before which there are so many chunks.
func lastGroup(b []byte, chunks uint64) guts.Node {
	if len(b) <= guts.ChunkSize {
		return guts.CompressChunk(b, &guts.IV, chunks, 0)
	}
	if len(b) == groupSize {
		return guts.CompressBuffer((*[groupSize]byte)(b), groupSize, &guts.IV, chunks, 0)
	}
	buf := groups.Get().(*[groupSize]byte)
	defer groups.Put(buf)
	return guts.CompressBuffer(buf, copy(buf[:], b), &guts.IV, chunks, 0)
}

func rootOf(n guts.Node) (h Hash) {
	n.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(n))
	copy(h[:], out[:])
	return h
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

// IsZero reports whether h is the zero value, which names no object.
func (h Hash) IsZero() bool { return h == Hash{} }
