package cas

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// A Hash names an object: the BLAKE3-256 of its plain (uncompressed) bytes.
type Hash [32]byte

// Sum returns the hash of b. It uses one processor.
func Sum(b []byte) Hash { return blake3.Sum256(b) }

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
