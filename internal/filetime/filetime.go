// Package filetime keeps the times of files in 64 bits.
//
// A time is a number of nanoseconds since 1970. The numbers before December 1901 stand for
// times 2^64 ns later, so that the range ends in July 2486, as that of XFS does.
package filetime

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// The first and the last second that have a number, since 1970.
const (
	first = math.MinInt32
	last  = first + math.MaxUint64/1_000_000_000 - 1
)

// Of returns the time that is sec seconds and nsec nanoseconds after 1970. A time out of
// range is the nearest within, and ok is false.
func Of(sec, nsec int64) (t int64, ok bool) {
	s := min(max(sec, first), last)
	return s*1_000_000_000 + nsec, s == sec
}

// OfTime is Of for a time of package time, cut to the range.
func OfTime(at time.Time) int64 {
	t, _ := Of(at.Unix(), int64(at.Nanosecond()))
	return t
}

// Timespec returns a time as system calls have it: the fraction is never negative.
func Timespec(t int64) unix.Timespec {
	begin := int64(first) * 1_000_000_000
	since := uint64(t) - uint64(begin)
	return unix.Timespec{Sec: first + int64(since/1_000_000_000), Nsec: int64(since % 1_000_000_000)}
}

// Time returns a time for package time.
func Time(t int64) time.Time {
	ts := Timespec(t)
	return time.Unix(ts.Sec, ts.Nsec)
}
