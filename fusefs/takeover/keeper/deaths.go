package keeper

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// The keeper gives up after maxFailedStarts daemons in a row that failed before they were ready, or after
	// maxKilledStarts daemons in a row that were killed by SIGKILL before they were ready.
	maxFailedStarts = 3
	maxKilledStarts = 30
	// killsBeforeFrugal is the number of daemons killed in a row after which the next daemon must use less
	// memory (Start.Frugal).
	killsBeforeFrugal = 2
	// The keeper gives up after maxCrashes daemons in a row that each crashed within shortLife of becoming
	// ready.
	maxCrashes = 10
	shortLife  = 10 * time.Second
	// A request that the kernel sends again is poison after poisonCrashes daemons crashed, or poisonKills
	// daemons were killed, while they carried it out. The death of the first daemon that read the request is
	// not counted. More kills than crashes are needed because a kill may have another cause.
	poisonCrashes = 2
	poisonKills   = 10
	// maxSuspects is the largest number of suspects.
	maxSuspects = 1000
	// The pauses between starts grow from firstPause to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// killsWithoutPause is how many daemons may be killed in a row without a pause before the next start.
	killsWithoutPause = 2
)

// deaths decides when the keeper gives up, how long it waits before the next start, and which requests a
// daemon must not carry out.
type deaths struct {
	// The numbers of daemons in a row that failed before they were ready (see maxFailedStarts), that were
	// killed before they were ready (see maxKilledStarts), and that crashed soon after they were ready (see
	// maxCrashes).
	Failed, Killed, Crashes int
	// Shortages counts the starts in a row that failed for want of a resource, such as space on the
	// disk. FirstShortage is the time at which the first of them failed.
	Shortages     int
	FirstShortage time.Time          `json:"Short"`
	Suspects      map[uint64]suspect `json:"Requests"` // the keys are the numbers of the requests
	Poison        []uint64           // numbers of requests
	readySince    time.Time          // when the daemon became ready
}

// A suspect is a request that may have caused the death of a daemon. Crashes and Kills count the daemons that
// crashed or were killed while they carried out this request and no other suspect.
type suspect struct{ Crashes, Kills int }

// noteReady is called when a daemon became ready. It records the time, and resets the counts of failed starts.
func (d *deaths) noteReady() {
	d.Failed, d.Killed, d.Shortages, d.FirstShortage, d.readySince = 0, 0, 0, time.Time{}, time.Now()
}

// A death is the end of a daemon.
type death struct {
	status        unix.WaitStatus
	ready         bool            // the daemon had become ready
	failure       *Failure        // why the daemon did not become ready, if it sent a reason
	begunRequests map[uint64]bool // numbers of resent requests that the daemon had begun and not answered
}

// add counts a death.
func (d *deaths) add(end death) {
	killed := end.status.Signaled() && end.status.Signal() == unix.SIGKILL
	switch {
	case !end.ready && end.failure != nil && end.failure.Shortage:
		if d.Shortages++; d.Shortages == 1 {
			d.FirstShortage = time.Now()
		}
	case !end.ready && killed:
		d.Killed++
	case !end.ready:
		d.Failed++
	case killed || time.Since(d.readySince) > shortLife:
		d.Crashes = 0
	default:
		d.Crashes++
	}

	d.blameRequests(end.begunRequests, killed)
}

// blameRequests counts a death against the request that the daemon had begun. If the daemon had begun several
// requests, they become suspects, which the next daemon carries out one at a time.
func (d *deaths) blameRequests(begun map[uint64]bool, killed bool) {
	if d.Suspects == nil {
		d.Suspects = make(map[uint64]suspect)
	}

	var guilty []uint64
	for unique := range begun {
		if _, suspected := d.Suspects[unique]; suspected || len(begun) == 1 {
			guilty = append(guilty, unique)
		} else if len(d.Suspects) < maxSuspects {
			d.Suspects[unique] = suspect{}
		}
	}
	if len(guilty) != 1 {
		return
	}

	unique := guilty[0]
	s := d.Suspects[unique]
	if killed {
		s.Kills++
	} else {
		s.Crashes++
	}

	d.Suspects[unique] = s
	if s.Crashes >= poisonCrashes || s.Kills >= poisonKills {
		d.Poison = append(d.Poison, unique)
		delete(d.Suspects, unique)
	}
}

// suspects returns the requests that the next daemon carries out one at a time.
func (d *deaths) suspects() []uint64 { return slices.Sorted(maps.Keys(d.Suspects)) }

// pause returns how long the keeper waits before the next start.
func (d *deaths) pause() time.Duration {
	n := d.Failed + d.Shortages + max(0, d.Killed-killsWithoutPause)
	if n == 0 {
		return 0
	}
	return min(longestPause, firstPause<<min(n-1, 10))
}

// mustBeFrugal reports whether the next daemon must use less memory to open the store.
func (d *deaths) mustBeFrugal() bool { return d.Killed >= killsBeforeFrugal }

// removeSuspect removes a suspect whose request was answered.
func (d *deaths) removeSuspect(unique uint64) { delete(d.Suspects, unique) }

// giveUpReason returns the reason why the keeper starts no further daemon, "" if it may start one. patience is
// how long starts may fail for want of a resource; a negative patience is no limit.
func (d *deaths) giveUpReason(patience time.Duration) string {
	switch {
	case d.Shortages > 0 && patience >= 0 && time.Since(d.FirstShortage) > patience:
		return fmt.Sprintf("%d starts failed within %v for want of something", d.Shortages, time.Since(d.FirstShortage).Round(time.Second))
	case d.Failed >= maxFailedStarts:
		return fmt.Sprintf("%d starts in a row failed", d.Failed)
	case d.Killed >= maxKilledStarts:
		return fmt.Sprintf("%d starts in a row were killed", d.Killed)
	case d.Crashes >= maxCrashes:
		return fmt.Sprintf("%d daemons in a row crashed within %v", d.Crashes, shortLife)
	}
	return ""
}
