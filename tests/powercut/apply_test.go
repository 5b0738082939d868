package powercut_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestPowerCutInApply cuts the disk of a directory while a run is applied to it: each path is old
// or new afterwards, and a second apply does the rest and leaves nothing else. The store of the
// run is on the same disk or on another one.
func TestPowerCutInApply(t *testing.T) {
	seed := harness.RandomSeed(t)
	rounds := harness.Count(t, "CUTS", 4, 300)
	for _, store := range []string{"elsewhere", "on the same disk"} {
		t.Run(store, func(t *testing.T) {
			d := newDisk(t)
			c := &cutApply{d: d, r: rand.New(rand.NewPCG(seed, uint64(len(store)))), dir: filepath.Join(d.dir, "dir"), root: filepath.Join(t.TempDir(), "runs")}
			if store != "elsewhere" {
				c.root = filepath.Join(d.dir, "runs")
			}
			t.Cleanup(c.killAll)
			must.OK(t, os.Mkdir(c.dir, 0o755))
			harness.RewriteTree(c.dir, seed)
			harness.RewriteTree(c.dir, seed+1)
			middle := 0
			for i := range (rounds + 1) / 2 {
				if c.round(t, fmt.Sprint("run", i), seed+uint64(i)) {
					middle++
				}
				if t.Failed() {
					break
				}
			}
			t.Logf("%d cuts left a part of the changes", middle)
		})
	}
}

type cutApply struct {
	d         *disk
	r         *rand.Rand
	dir, root string
}

// round reports whether some of the paths were old and some new after the cut.
func (c *cutApply) round(t *testing.T, name string, seed uint64) bool {
	want := filepath.Join(t.TempDir(), "want")
	if out, err := exec.Command("cp", "-a", c.dir, want).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	was := harness.ReadTreeWithoutTimes(t, c.dir)
	harness.RewriteTree(want, seed)
	now := harness.ReadTreeWithoutTimes(t, want)
	harness.RewriteInRun(t, c.root, c.dir, name, seed)
	// Each change of a name is on the disk before the call returns, so that each may be the last,
	// or else no change is before a sync.
	c.killAll()
	if c.d.options = ",dirsync"; c.r.IntN(4) == 0 {
		c.d.options = ""
	}
	must.OK(t, c.d.mount())

	_, changes, _ := harness.CountOldAndNew(was, now, was)
	at := c.r.IntN(3*changes + 1) // the names are given after about as many events as there are changes
	apply := harness.ApplyRun(t, c.root, c.dir, name)
	var out strings.Builder
	apply.Stdout, apply.Stderr = &out, &out
	kill := func() { _ = apply.Process.Kill() } // it may have ended
	if err := harness.CallDuringCommand(t, apply, c.dir, at, kill); err != nil && apply.ProcessState.ExitCode() >= 0 {
		t.Fatalf("apply: %v\n%s", err, out.String())
	}
	// Without power nothing runs on and takes what it wrote for written.
	c.killAll()
	c.d.cut()
	c.d.unmount()
	must.OK(t, c.d.mount())

	got := harness.ReadTreeWithoutTimes(t, c.dir)
	for p := range got {
		if strings.Contains(p, ".amberfs-apply-") {
			delete(got, p)
		}
	}
	neither, olds, news := harness.CountOldAndNew(was, now, got)
	t.Logf("%s: cut after event %d of %d changes, %d paths are old and %d new", name, at, changes, olds, news)
	if len(neither) > 0 {
		t.Errorf("SEED=%d, after event %d of %s:\n%s", seed, at, name, strings.Join(neither, "\n"))
	}
	if out, err := harness.ApplyRun(t, c.root, c.dir, name).CombinedOutput(); err != nil {
		t.Fatalf("the second apply: %v\n%s", err, out)
	}
	harness.CheckSameTree(t, "after the second apply", now, harness.ReadTreeWithoutTimes(t, c.dir))
	return olds > 0 && news > 0
}

// killAll ends what has the store of the run open.
func (c *cutApply) killAll() {
	harness.Eventually(c.d.t, "all have ended", func() bool {
		return harness.KillAll(c.root) && len(harness.Processes(c.root)) == 0
	})
}
