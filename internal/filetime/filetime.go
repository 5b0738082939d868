// Package filetime converts the times of files to and from 64-bit integers.
//
// A time is a number of nanoseconds since 1970. The range begins in December 1901, as in XFS. A number below
// the range means a time 2^64 ns later, so that the range ends in July 2486.
package filetime

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// The first and the last second of the range, since 1970.
const (
	firstSecond = math.MinInt32
	lastSecond  = firstSecond + math.MaxUint64/1_000_000_000 - 1
)

// FromUnix returns the time sec seconds and nsec nanoseconds after 1970. If it is out of the range, FromUnix
// returns the nearest time in the range and ok is false.
func FromUnix(sec, nsec int64) (t int64, ok bool) {
	s := min(max(sec, firstSecond), lastSecond)
	return s*1_000_000_000 + nsec, s == sec
}

// FromTime converts a time of package time. Out of the range, it returns the nearest time in the range.
func FromTime(at time.Time) int64 {
	t, _ := FromUnix(at.Unix(), int64(at.Nanosecond()))
	return t
}

// Timespec converts a time for system calls. Its nanoseconds are never negative.
func Timespec(t int64) unix.Timespec {
	firstNano := int64(firstSecond) * 1_000_000_000
	sinceFirst := uint64(t) - uint64(firstNano)
	return unix.Timespec{Sec: firstSecond + int64(sinceFirst/1_000_000_000), Nsec: int64(sinceFirst % 1_000_000_000)}
}

// Time converts a time to a time of package time.
func Time(t int64) time.Time {
	ts := Timespec(t)
	return time.Unix(ts.Sec, ts.Nsec)
}
