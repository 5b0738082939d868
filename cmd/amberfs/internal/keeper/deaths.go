package keeper

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxFailed is how many starts in a row may fail by themselves, and maxKilled how many may
	// be killed before they are ready.
	maxFailed = 3
	maxKilled = 30
	// maxCrashes is how many daemons in a row may crash within shortLife.
	maxCrashes = 10
	shortLife  = 10 * time.Second
	// A request is poison when so many daemons have died while they answered it again.
	// One more died when it came first. Daemons that were killed may have died of something
	// else.
	poisonCrashes = 2
	poisonKills   = 10
)

// deaths decides when a daemon is not started again, and which requests it must not answer.
type deaths struct {
	Failed, Killed, Crashes int // in a row
	Requests                map[uint64]suspect
	Poison                  []uint64
	since                   time.Time // when the daemon became ready
}

// A suspect counts the daemons that died while they answered a request again.
type suspect struct{ Crashes, Kills int }

func (d *deaths) ready() { d.Failed, d.Killed, d.since = 0, 0, time.Now() }

// add counts a death, and returns the requests that are poison.
func (d *deaths) add(ws unix.WaitStatus, ready bool, begun map[uint64]bool) []uint64 {
	killed := ws.Signaled() && ws.Signal() == unix.SIGKILL
	switch {
	case !ready && killed:
		d.Killed++
	case !ready:
		d.Failed++
	case killed || time.Since(d.since) > shortLife:
		d.Crashes = 0
	default:
		d.Crashes++
	}
	if d.Requests == nil {
		d.Requests = make(map[uint64]suspect)
	}
	for unique := range begun {
		s := d.Requests[unique]
		if killed {
			s.Kills++
		} else {
			s.Crashes++
		}
		d.Requests[unique] = s
		if s.Crashes == poisonCrashes || s.Kills == poisonKills {
			d.Poison = append(d.Poison, unique)
		}
	}
	return d.Poison
}

// forget ends the suspicion of a request that was answered.
func (d *deaths) forget(unique uint64) { delete(d.Requests, unique) }

// tooMany says why no other daemon is started, "" if one is.
func (d *deaths) tooMany() string {
	switch {
	case d.Failed >= maxFailed:
		return fmt.Sprintf("%d starts in a row failed", d.Failed)
	case d.Killed >= maxKilled:
		return fmt.Sprintf("%d starts in a row were killed", d.Killed)
	case d.Crashes >= maxCrashes:
		return fmt.Sprintf("%d daemons in a row crashed within %v", d.Crashes, shortLife)
	}
	return ""
}
