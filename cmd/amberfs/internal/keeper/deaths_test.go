package keeper

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	killed  = unix.WaitStatus(unix.SIGKILL)
	crashed = unix.WaitStatus(exitPanic << 8)
)

// TestPoison: the third daemon that dies of a request is the last one: the first had it as a
// new request, the others as one that was sent again.
func TestPoison(t *testing.T) {
	var d deaths
	d.ready()
	begun := map[uint64]bool{7: true, 8: true}
	d.add(crashed, true, nil)
	if p := d.add(crashed, true, begun); len(p) > 0 {
		t.Errorf("poison after two deaths: %v", p)
	}
	d.forget(8) // it was answered
	if p := d.add(crashed, true, begun); !slices.Equal(p, []uint64{7}) {
		t.Errorf("poison after three deaths: %v", p)
	}
}

// TestKillsAreNoPoison: what kills daemons from outside does not fail the requests that wait.
func TestKillsAreNoPoison(t *testing.T) {
	var d deaths
	begun := map[uint64]bool{7: true}
	for range poisonKills - 1 {
		d.ready()
		if p := d.add(killed, true, begun); len(p) > 0 {
			t.Fatalf("poison: %v", p)
		}
	}
	if why := d.tooMany(); why != "" {
		t.Error(why)
	}
}

func TestTooMany(t *testing.T) {
	for name, c := range map[string]struct {
		ws    unix.WaitStatus
		ready bool
		most  int
	}{
		"starts that fail":        {crashed, false, maxFailed},
		"starts that are killed":  {killed, false, maxKilled},
		"daemons that crash soon": {crashed, true, maxCrashes},
	} {
		var d deaths
		for i := range c.most {
			if why := d.tooMany(); why != "" {
				t.Errorf("%s: gives up after %d: %s", name, i, why)
			}
			if c.ready {
				d.ready()
			}
			d.add(c.ws, c.ready, nil)
		}
		if d.tooMany() == "" {
			t.Errorf("%s: does not give up", name)
		}
	}
}
