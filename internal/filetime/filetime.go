// Package filetime converts the times of files to and from 64-bit integers.
//
// A time is a number of nanoseconds since 1970. The range begins in December 1901, as in XFS: smaller
// numbers stand for times 2^64 ns later, so that the range ends in July 2486.
package filetime

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// The first and the last second of the range, since 1970.
const (
	first = math.MinInt32
	last  = first + math.MaxUint64/1_000_000_000 - 1
)

// Of returns the time sec seconds and nsec nanoseconds after 1970. If it is out of the range, Of
// returns the nearest time in the range and ok is false.
func Of(sec, nsec int64) (t int64, ok bool) {
	s := min(max(sec, first), last)
	return s*1_000_000_000 + nsec, s == sec
}

// OfTime converts a time of package time. Out of the range, it returns the nearest time in the range.
func OfTime(at time.Time) int64 {
	t, _ := Of(at.Unix(), int64(at.Nanosecond()))
	return t
}

// Timespec converts a time for system calls. Its nanoseconds are never negative.
func Timespec(t int64) unix.Timespec {
	begin := int64(first) * 1_000_000_000
	since := uint64(t) - uint64(begin)
	return unix.Timespec{Sec: first + int64(since/1_000_000_000), Nsec: int64(since % 1_000_000_000)}
}

// Time converts a time to a time of package time.
func Time(t int64) time.Time {
	ts := Timespec(t)
	return time.Unix(ts.Sec, ts.Nsec)
}
