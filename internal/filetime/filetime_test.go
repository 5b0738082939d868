package filetime

import (
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/must"
)

func TestTimes(t *testing.T) {
	for _, text := range []string{
		"1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z", "1901-12-13T20:45:52Z",
		"2026-11-27T12:00:00.123456789Z", "2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775808Z",
		"2300-01-01T00:00:00.5Z", "2446-05-10T22:38:55Z", "2486-07-02T20:20:23.999999999Z",
	} {
		at, err := time.Parse(time.RFC3339Nano, text)
		must.OK(t, err)
		n, ok := FromUnix(at.Unix(), int64(at.Nanosecond()))
		if got := Time(n).UTC().Format(time.RFC3339Nano); !ok || got != text {
			t.Errorf("%s comes back as %s, in range: %v", text, got, ok)
		}
		if ts := Timespec(n); ts.Nsec < 0 || ts.Nsec >= 1e9 {
			t.Errorf("%s has a fraction of %d ns", text, ts.Nsec)
		}
	}
	for sec, want := range map[int64]int64{firstSecond - 1: firstSecond, -1 << 62: firstSecond, lastSecond + 1: lastSecond, 1 << 62: lastSecond} {
		n, ok := FromUnix(sec, 0)
		if got := Timespec(n).Sec; ok || got != want {
			t.Errorf("second %d becomes %d, in range: %v; want %d", sec, got, ok, want)
		}
	}
}
