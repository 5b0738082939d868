package fulldisk_test

import (
	"bytes"
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

// TestApplyOnAFullDisk has others take the disk of a directory to the last block while a run is
// applied to it: the error says so, each path is old or new, nothing is left beside, and with room
// a second apply does the rest.
func TestApplyOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	seed := harness.RandomSeed(t)
	rounds := harness.Count(t, "ROUNDS", 3, 100)
	for name, disk := range map[string]func(*testing.T, string, int64){"tmpfs": tmpfs, "ext4": ext4} {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "disk")
			must.OK(t, os.Mkdir(base, 0o755))
			disk(t, base, 32<<20)
			dir, root := filepath.Join(base, "dir"), filepath.Join(t.TempDir(), "runs")
			must.OK(t, os.Mkdir(dir, 0o755))
			harness.RewriteTree(dir, seed)
			r := rand.New(rand.NewPCG(seed, 2))
			refused := 0
			for i := range rounds {
				at := 0 // full from the beginning
				if i > 0 {
					at = r.IntN(100)
				}
				if applyFull(t, root, dir, fmt.Sprint("run", i), seed+uint64(i)+1, at) {
					refused++
				}
			}
			t.Logf("of %d applies, %d found no room", rounds, refused)
			if refused == 0 {
				t.Error("the disk was never full")
			}
		})
	}
}

// applyFull reports whether the first apply found no room.
func applyFull(t *testing.T, root, dir, name string, seed uint64, at int) bool {
	t.Helper()
	want := filepath.Join(t.TempDir(), "want")
	if out, err := exec.Command("cp", "-a", dir, want).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	was := harness.ReadTreeWithoutTimes(t, dir)
	harness.RewriteTree(want, seed)
	now := harness.ReadTreeWithoutTimes(t, want)
	harness.RewriteInRun(t, root, dir, name, seed)

	others := filepath.Join(filepath.Dir(dir), "others")
	apply := harness.ApplyRun(t, root, dir, name)
	var out bytes.Buffer
	apply.Stdout, apply.Stderr = &out, &out
	full := func() { takeAll(t, others) }
	if at == 0 {
		full()
		full = func() {}
	}
	err := harness.CallDuringCommand(t, apply, dir, at, full)
	const noSpace = 6
	if err != nil && (apply.ProcessState.ExitCode() != noSpace || !strings.Contains(out.String(), "no space left")) {
		t.Errorf("SEED=%d, full after event %d: %v\n%s", seed, at, err, out.String())
	}
	if neither, _, _ := harness.CountOldAndNew(was, now, harness.ReadTreeWithoutTimes(t, dir)); len(neither) > 0 {
		t.Errorf("SEED=%d, full after event %d:\n%s", seed, at, strings.Join(neither, "\n"))
	}
	if err := os.Remove(others); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if out, err := harness.ApplyRun(t, root, dir, name).CombinedOutput(); err != nil {
		t.Fatalf("the second apply: %v\n%s", err, out)
	}
	harness.CheckSameTree(t, "after the second apply", now, harness.ReadTreeWithoutTimes(t, dir))
	return err != nil
}
