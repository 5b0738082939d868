package catalogue

import (
	"math"
	"math/bits"
)

// A Sum is of sizes. Those of sparse files can be more together than 64 bits hold.
type Sum struct{ high, low uint64 }

func (s *Sum) Add(size int64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(size), 0)
	s.high += carry
}

// Take takes away what was added.
func (s *Sum) Take(size int64) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, uint64(size), 0)
	s.high -= borrow
}

// Int64 returns the sum, or the largest number if it is more.
func (s *Sum) Int64() int64 {
	if s.high > 0 || s.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(s.low)
}
