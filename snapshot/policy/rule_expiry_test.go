package policy

import (
	"testing"
	"time"
)

func TestParseExpiry(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"30m": 30 * time.Minute, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "1.5d": 36 * time.Hour,
		"2030-01-02T04:04:05Z": time.Hour,
	} {
		got, err := ParseExpiry(in, now)
		if err != nil || got.Sub(now) != want {
			t.Errorf("ParseExpiry(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"0s", "-1h", "soon", "d", "2029-01-01T00:00:00Z"} {
		if got, err := ParseExpiry(in, now); err == nil {
			t.Errorf("ParseExpiry(%q) = %v", in, got)
		}
	}
}
