package keeper

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxFailed is how many starts in a row may fail by themselves, and maxKilled how many may
	// be killed before they are ready.
	maxFailed = 3
	maxKilled = 30
	// frugalKills is how many of them make the next one take less memory.
	frugalKills = 2
	// maxCrashes is how many daemons in a row may crash within shortLife.
	maxCrashes = 10
	shortLife  = 10 * time.Second
	// A request is poison when so many daemons have died while they carried it out again.
	// One more died when it came first. Daemons that were killed may have died of something
	// else.
	poisonCrashes = 2
	poisonKills   = 10
	// maxSuspects is how many requests are suspected at a time.
	maxSuspects = 1000
	// The pauses between starts grow from firstPause to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// freeKills is how many starts in a row may be killed without a pause.
	freeKills = 2
)

// deaths decides when a daemon is not started again, how long the keeper waits before a start, and
// which requests a daemon must not answer.
type deaths struct {
	Failed, Killed, Crashes int // in a row
	// Shortages counts the starts in a row that failed for want of something, the first of
	// them at Short.
	Shortages int
	Short     time.Time
	Requests  map[uint64]suspect
	Poison    []uint64
	since     time.Time // when the daemon became ready
}

// A suspect counts the daemons that died while they carried a request out again, and no other
// suspect.
type suspect struct{ Crashes, Kills int }

func (d *deaths) ready() {
	d.Failed, d.Killed, d.Shortages, d.Short, d.since = 0, 0, 0, time.Time{}, time.Now()
}

// A death is the end of a daemon.
type death struct {
	status  unix.WaitStatus
	ready   bool     // the daemon was
	failure *Failure // why it was not, if it said so
	begun   map[uint64]bool
}

// add counts a death.
func (d *deaths) add(end death) {
	killed := end.status.Signaled() && end.status.Signal() == unix.SIGKILL
	switch {
	case !end.ready && end.failure != nil && end.failure.Shortage:
		if d.Shortages++; d.Shortages == 1 {
			d.Short = time.Now()
		}
	case !end.ready && killed:
		d.Killed++
	case !end.ready:
		d.Failed++
	case killed || time.Since(d.since) > shortLife:
		d.Crashes = 0
	default:
		d.Crashes++
	}

	d.blame(end.begun, killed)
}

// blame counts a death against the request that was being carried out. If there were several, they
// become suspects, which the next daemon carries out one at a time.
func (d *deaths) blame(begun map[uint64]bool, killed bool) {
	if d.Requests == nil {
		d.Requests = make(map[uint64]suspect)
	}

	var guilty []uint64
	for unique := range begun {
		if _, suspected := d.Requests[unique]; suspected || len(begun) == 1 {
			guilty = append(guilty, unique)
		} else if len(d.Requests) < maxSuspects {
			d.Requests[unique] = suspect{}
		}
	}
	if len(guilty) != 1 {
		return
	}

	unique := guilty[0]
	s := d.Requests[unique]
	if killed {
		s.Kills++
	} else {
		s.Crashes++
	}

	d.Requests[unique] = s
	if s.Crashes >= poisonCrashes || s.Kills >= poisonKills {
		d.Poison = append(d.Poison, unique)
		delete(d.Requests, unique)
	}
}

// suspects returns the requests that are carried out one at a time.
func (d *deaths) suspects() []uint64 { return slices.Sorted(maps.Keys(d.Requests)) }

// pause is how long the keeper waits before the next start.
func (d *deaths) pause() time.Duration {
	n := d.Failed + d.Shortages + max(0, d.Killed-freeKills)
	if n == 0 {
		return 0
	}
	return min(longestPause, firstPause<<min(n-1, 10))
}

// frugal reports whether the next daemon should take less memory to open the store.
func (d *deaths) frugal() bool { return d.Killed >= frugalKills }

// forget ends the suspicion of a request that was answered.
func (d *deaths) forget(unique uint64) { delete(d.Requests, unique) }

// tooMany says why no other daemon is started, "" if one is. patience is how long starts may fail
// for want of something, negative for ever.
func (d *deaths) tooMany(patience time.Duration) string {
	switch {
	case d.Shortages > 0 && patience >= 0 && time.Since(d.Short) > patience:
		return fmt.Sprintf("%d starts failed within %v for want of something", d.Shortages, time.Since(d.Short).Round(time.Second))
	case d.Failed >= maxFailed:
		return fmt.Sprintf("%d starts in a row failed", d.Failed)
	case d.Killed >= maxKilled:
		return fmt.Sprintf("%d starts in a row were killed", d.Killed)
	case d.Crashes >= maxCrashes:
		return fmt.Sprintf("%d daemons in a row crashed within %v", d.Crashes, shortLife)
	}
	return ""
}
