package catalogue

import (
	"math"
	"testing"
)

// TestSum: what does not fit is the largest number, and comes back.
func TestSum(t *testing.T) {
	var s Sum
	s.Add(5)
	for range 9 {
		s.Add(math.MaxInt64)
		if got := s.Int64(); got != math.MaxInt64 {
			t.Errorf("a sum of large sizes is %d", got)
		}
	}
	for range 9 {
		s.Subtract(math.MaxInt64)
	}
	if got := s.Int64(); got != 5 {
		t.Errorf("after they are taken away it is %d, want 5", got)
	}
}
