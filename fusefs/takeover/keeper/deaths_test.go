package keeper

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killed  = unix.WaitStatus(unix.SIGKILL)
	crashed = unix.WaitStatus(exitPanic << 8)
)

// dead returns the death of a daemon that was ready, with the requests that it had begun.
func dead(ws unix.WaitStatus, begun ...uint64) death {
	d := death{status: ws, ready: true, begunRequests: make(map[uint64]bool)}
	for _, unique := range begun {
		d.begunRequests[unique] = true
	}
	return d
}

// TestPoison: a request is poison after three daemons died of it: one that read it as a new request, and two to which
// the kernel sent it again.
func TestPoison(t *testing.T) {
	var d deaths
	d.noteReady()
	d.add(dead(crashed))
	d.add(dead(crashed, 7))
	if len(d.Poison) > 0 {
		t.Errorf("poison after two deaths: %v", d.Poison)
	}
	if d.add(dead(crashed, 7)); !slices.Equal(d.Poison, []uint64{7}) {
		t.Errorf("poison after three deaths: %v", d.Poison)
	}
}

// TestBystanders: of several requests that were begun together, only the request is poison that a daemon carried out
// alone when it died.
func TestBystanders(t *testing.T) {
	var d deaths
	d.add(dead(crashed, 7, 8, 9))
	if s := d.suspects(); !slices.Equal(s, []uint64{7, 8, 9}) {
		t.Errorf("suspects: %v", s)
	}
	d.removeSuspect(8) // it was answered
	for i := range uint64(poisonCrashes) {
		if len(d.Poison) > 0 {
			t.Errorf("poison: %v", d.Poison)
		}
		d.add(dead(crashed, 7, 10+i)) // 9 waits until 7 is answered, and the other is new
	}
	if !slices.Equal(d.Poison, []uint64{7}) {
		t.Errorf("poison: %v", d.Poison)
	}
}

// TestKillsAreNoPoison: requests that wait do not fail because daemons were killed from outside.
func TestKillsAreNoPoison(t *testing.T) {
	var d deaths
	for range poisonKills - 1 {
		d.noteReady()
		d.add(dead(killed, 7))
	}
	if len(d.Poison) > 0 {
		t.Fatalf("poison: %v", d.Poison)
	}
	if why := d.giveUpReason(0); why != "" {
		t.Error(why)
	}
}

func TestTooMany(t *testing.T) {
	for name, c := range map[string]struct {
		death
		most int
	}{
		"starts that fail":        {death{status: crashed}, maxFailedStarts},
		"starts that are killed":  {death{status: killed}, maxKilledStarts},
		"daemons that crash soon": {death{status: crashed, ready: true}, maxCrashes},
	} {
		var d deaths
		for i := range c.most {
			if why := d.giveUpReason(-1); why != "" {
				t.Errorf("%s: gives up after %d: %s", name, i, why)
			}
			if c.ready {
				d.noteReady()
			}
			d.add(c.death)
		}
		if d.giveUpReason(-1) == "" {
			t.Errorf("%s: does not give up", name)
		}
	}
}

// TestShortage: starts that fail for want of a resource are repeated for as long as Config.Patience, with growing
// pauses.
func TestShortage(t *testing.T) {
	var d deaths
	last := time.Duration(0)
	for range 20 {
		d.add(death{status: crashed, failure: &Failure{Reason: "the disk is full", Shortage: true}})
		if d.pause() < last || d.pause() > longestPause {
			t.Errorf("a pause of %v after one of %v", d.pause(), last)
		}
		last = d.pause()
	}
	if last != longestPause {
		t.Errorf("the last pause is %v", last)
	}
	if why := d.giveUpReason(-1) + d.giveUpReason(time.Hour); why != "" {
		t.Error(why)
	}
	d.FirstShortage = d.FirstShortage.Add(-time.Hour)
	if d.giveUpReason(time.Minute) == "" {
		t.Error("it does not give up")
	}
	if why := d.giveUpReason(-1); why != "" {
		t.Error(why)
	}
}
