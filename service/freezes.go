package service

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// Freezing reports the freezes of a store to the process that outlives the daemon, and has the report of
// that process about the last freeze. The end of a daemon ends its freeze.
type Freezing struct {
	// Tell, if set, is called with the end time of a freeze when one begins, and with the zero time
	// when one is ended.
	Tell func(until time.Time)
	// Ended is the time at which the end of the previous daemon ended a freeze early; zero if it did
	// not, or if a call of freeze or thaw has reported it. Reason says why the daemon ended.
	Ended  time.Time
	Reason string
}

// freezes has the operations that begin and end freezes.
type freezes struct {
	mu sync.Mutex // guards Freezing
	Freezing
	forest *live.Forest
}

const (
	maxFreeze   = 10 * time.Minute
	usualFreeze = "30s"
)

// freeze stops all changes for a time. If a freeze of the previous daemon ended early, the new one
// clears that report.
func (fr *freezes) freeze(_ context.Context, r *Request, a Freeze) (Frozen, error) {
	d, err := policy.ParseSpan(cmp.Or(a.For, usualFreeze))
	if err != nil || d <= 0 || d > maxFreeze {
		return Frozen{}, errs.Fail(errs.Invalid, "a freeze takes a time such as 30s, of at most %s, not %q", maxFreeze, a.For)
	}

	until := time.Now().Add(d)
	fr.mu.Lock()
	defer fr.mu.Unlock()

	if !fr.forest.Freeze(d) {
		return Frozen{}, errs.Fail(errs.Busy, "the store is frozen already").WithHint("end the freeze with `amberfs thaw`")
	}

	fr.reportFreeze(until)
	r.log.Info("freeze", "for", d, "uid", r.Caller.UID, "pid", r.Caller.PID)

	return Frozen{Until: until}, nil
}

// reportFreeze reports the end of a freeze, the zero time for no freeze, to the process that outlives
// this daemon. The caller holds fr.mu, and has read Ended, which is cleared.
func (fr *freezes) reportFreeze(until time.Time) {
	fr.Ended = time.Time{}
	if fr.Tell != nil {
		fr.Tell(until)
	}
}

// thaw ends a freeze. It fails if the end of the previous daemon ended the freeze before.
func (fr *freezes) thaw(_ context.Context, r *Request, _ Thaw) (Thawed, error) {
	fr.mu.Lock()
	defer fr.mu.Unlock()

	ended := fr.Ended
	thawed := fr.forest.Thaw()
	fr.reportFreeze(time.Time{})
	r.log.Info("thaw", "uid", r.Caller.UID, "pid", r.Caller.PID)

	if !thawed && !ended.IsZero() {
		return Thawed{}, errs.Fail(errs.Failed, "the freeze ended at %s, with the daemon that held it (%s)", ended.Format(time.RFC3339), fr.Reason).
			WithHint("programs may have written since: what was copied may not fit together, so freeze and copy again")
	}

	return Thawed{Thawed: thawed}, nil
}
