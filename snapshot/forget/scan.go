package forget

import (
	"context"
	"io"

	"github.com/amberfs/amberfs/cas"
)

// window is the number of bytes that the rolling hash covers. Shorter contents are only found if they are
// whole objects.
const window = 16

// A Print identifies removed bytes without containing them.
type Print struct {
	Hash   cas.Hash `json:"hash"`
	Length int      `json:"length"`
	First  uint64   `json:"first,omitempty"` // the rolling hash of the first bytes
}

func printOf(b []byte) Print {
	p := Print{Hash: cas.Sum(b), Length: len(b)}
	for i := 0; i < window && len(b) >= window; i++ {
		p.First = p.First*factor + uint64(b[i]) + 1
	}
	return p
}

// factor is the base of the rolling hash, and oldest the weight of the byte that leaves the window.
const factor = 0x9E3779B97F4A7C15

var oldest = func() (n uint64) {
	n = 1
	for range window {
		n *= factor
	}
	return n
}()

// A Scanner finds forgotten bytes.
type Scanner struct {
	whole map[cas.Hash]bool
	first map[uint64][]Print
	maybe [1 << 10]uint64 // a bit for the upper bits of each rolling hash in first
}

// NewScanner returns a Scanner for prints.
func NewScanner(prints []Print) *Scanner {
	s := &Scanner{whole: make(map[cas.Hash]bool), first: make(map[uint64][]Print)}
	for _, p := range prints {
		s.whole[p.Hash] = true
		if p.Length >= window {
			s.first[p.First] = append(s.first[p.First], p)
			s.maybe[p.First>>54] |= 1 << (p.First >> 48 & 63)
		}
	}
	return s
}

// Object reports whether an object is one of the forgotten chunks.
func (s *Scanner) Object(h cas.Hash) bool { return s.whole[h] }

// In reports whether b contains forgotten bytes at any offset.
func (s *Scanner) In(b []byte) bool {
	var sum uint64
	for i, c := range b {
		sum = sum*factor + uint64(c) + 1
		if i >= window {
			sum -= oldest * (uint64(b[i-window]) + 1)
		}
		if i < window-1 || s.maybe[sum>>54]>>(sum>>48&63)&1 == 0 {
			continue
		}

		for _, p := range s.first[sum] {
			if from := i + 1 - window; from+p.Length <= len(b) && cas.Sum(b[from:from+p.Length]) == p.Hash {
				return true
			}
		}
	}
	return false
}

// fileWindow is the number of bytes of a file that InFile searches at a time.
const fileWindow = 8 << 20

// InFile reports whether a file with the given size in bytes contains forgotten bytes.
func (s *Scanner) InFile(ctx context.Context, f io.ReaderAt, size int64) (bool, error) {
	b := make([]byte, min(size, fileWindow+cas.MaxObject))

	for off := int64(0); off < size; off += fileWindow {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := f.ReadAt(b, off)
		if err != nil && err != io.EOF {
			return false, err
		}
		if s.In(b[:n]) {
			return true, nil
		}
	}

	return false, nil
}
