package catalogue

import (
	"math"
	"math/bits"
)

// A Sum is a sum of sizes, in 128 bits: the sizes of sparse files may add up to more than 64 bits.
type Sum struct{ high, low uint64 }

// Add adds a size.
func (s *Sum) Add(size int64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(size), 0)
	s.high += carry
}

// Subtract subtracts a size that was added before.
func (s *Sum) Subtract(size int64) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, uint64(size), 0)
	s.high -= borrow
}

// Int64 returns the sum, or math.MaxInt64 if the sum is larger.
func (s *Sum) Int64() int64 {
	if s.high > 0 || s.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(s.low)
}
