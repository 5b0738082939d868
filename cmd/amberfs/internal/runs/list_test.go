package runs

import (
	"testing"
	"time"

	"github.com/amberfs/amberfs/service"
)

// TestExpired: runs that are applied, unchanged or removed expire after some time. Other runs do not expire.
func TestExpired(t *testing.T) {
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for _, c := range []struct {
		state   string
		changed int
		more    bool
		age     time.Duration
		want    bool
	}{
		{service.RunApplied, 3, false, 13 * day, false},
		{service.RunApplied, 3, false, 15 * day, true},
		{service.RunKept, 0, false, 13 * day, false},
		{service.RunKept, 0, false, 15 * day, true},
		{service.RunKept, 0, true, 1000 * day, false}, // not all changes were counted
		{service.RunKept, 1, false, 1000 * day, false},
		{service.RunRunning, 0, false, 1000 * day, false},
		{service.RunRemoved, 1, false, 23 * time.Hour, false},
		{service.RunRemoved, 1, false, 25 * time.Hour, true},
		{service.RunApplied, 1, false, -1000 * day, false}, // the clock was wrong
	} {
		r := Run{State: c.state, Changed: c.changed, CountIncomplete: c.more, LastUsed: now.Add(-c.age)}
		if got := r.isExpired(now); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
