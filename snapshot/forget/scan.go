package forget

import (
	"context"
	"io"

	"github.com/amberfs/amberfs/cas"
)

// windowLen is the number of bytes that the rolling hash covers. Contents with fewer bytes are only found if they
// are whole objects.
const windowLen = 16

// A Fingerprint identifies removed bytes without containing them.
type Fingerprint struct {
	Hash   cas.Hash `json:"hash"`
	Length int      `json:"length"`
	First  uint64   `json:"first,omitempty"` // the rolling hash of the first bytes
}

func fingerprintOf(b []byte) Fingerprint {
	p := Fingerprint{Hash: cas.Sum(b), Length: len(b)}
	for i := 0; i < windowLen && len(b) >= windowLen; i++ {
		p.First = p.First*hashBase + uint64(b[i]) + 1
	}
	return p
}

// hashBase is the base of the rolling hash, and oldestWeight the weight of the byte that leaves the window.
const hashBase = 0x9E3779B97F4A7C15

var oldestWeight = func() (n uint64) {
	n = 1
	for range windowLen {
		n *= hashBase
	}
	return n
}()

// A Scanner finds forgotten bytes.
type Scanner struct {
	hashes      map[cas.Hash]bool
	byFirstHash map[uint64][]Fingerprint
	firstBits   [1 << 10]uint64 // a bit for the upper bits of each rolling hash in byFirstHash
}

// NewScanner returns a Scanner that finds the bytes with the given fingerprints.
func NewScanner(prints []Fingerprint) *Scanner {
	s := &Scanner{hashes: make(map[cas.Hash]bool), byFirstHash: make(map[uint64][]Fingerprint)}
	for _, p := range prints {
		s.hashes[p.Hash] = true
		if p.Length >= windowLen {
			s.byFirstHash[p.First] = append(s.byFirstHash[p.First], p)
			s.firstBits[p.First>>54] |= 1 << (p.First >> 48 & 63)
		}
	}
	return s
}

// IsForgotten reports whether an object is one of the forgotten chunks.
func (s *Scanner) IsForgotten(h cas.Hash) bool { return s.hashes[h] }

// Contains reports whether b contains forgotten bytes at any offset.
func (s *Scanner) Contains(b []byte) bool {
	var sum uint64
	for i, c := range b {
		sum = sum*hashBase + uint64(c) + 1
		if i >= windowLen {
			sum -= oldestWeight * (uint64(b[i-windowLen]) + 1)
		}
		if i < windowLen-1 || s.firstBits[sum>>54]>>(sum>>48&63)&1 == 0 {
			continue
		}

		for _, p := range s.byFirstHash[sum] {
			if from := i + 1 - windowLen; from+p.Length <= len(b) && cas.Sum(b[from:from+p.Length]) == p.Hash {
				return true
			}
		}
	}
	return false
}

// fileWindowSize is the number of bytes of a file that FileContains searches at a time.
const fileWindowSize = 8 << 20

// FileContains reports whether a file with the given size in bytes contains forgotten bytes.
func (s *Scanner) FileContains(ctx context.Context, f io.ReaderAt, size int64) (bool, error) {
	b := make([]byte, min(size, fileWindowSize+cas.MaxObject))

	for off := int64(0); off < size; off += fileWindowSize {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := f.ReadAt(b, off)
		if err != nil && err != io.EOF {
			return false, err
		}
		if s.Contains(b[:n]) {
			return true, nil
		}
	}

	return false, nil
}
