// Package crash_test kills the daemon at random instants, again and again, and
// compares the tree after the next mount with what was acknowledged.
//
// A round: several writers change their own directories as fast as they can,
// a historian captures, restores, forks, deletes and collects garbage; kill -9
// hits somewhere, now and then once more while the next daemon recovers; the
// store is mounted again. Then every directory must be exactly what its writer
// was told, give or take the one call that was never answered, and so must
// every snapshot and every fork.
//
//	ROUNDS=1000 go test ./tests/crash -timeout 0 -v     (make crash)
//	SEED=…                                              the choices of an earlier run
package crash_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) {
	unix.Umask(0)
	os.Exit(harness.Run(m))
}

func TestKillAnywhere(t *testing.T) {
	rounds := harness.Count(t, "ROUNDS", 6, 1000)
	seed := harness.NumberFromEnv(t, "SEED", uint64(time.Now().UnixNano()))
	t.Logf("SEED=%d, %d rounds", seed, rounds)
	rng := rand.New(rand.NewPCG(seed, 0))

	m := harness.New(t)
	w := newWorld(t, m, seed)
	for round := range rounds {
		w.begin(round)
		time.Sleep(time.Duration(20+rng.IntN(500)) * time.Millisecond)
		m.Kill()
		w.end()
		for rng.IntN(3) == 0 {
			m.KillWhileStarting(time.Duration(rng.IntN(60_000)) * time.Microsecond)
		}
		m.Start()
		w.compare()
		if t.Failed() {
			t.Fatalf("round %d of SEED=%d", round, seed)
		}
		if round%50 == 49 {
			t.Logf("round %d: %s", round+1, w.counts())
		}
	}
	t.Log(w.counts())
	m.Stop()
	if out, err := harness.RunAmberfs("verify", m.Store); err != nil {
		t.Errorf("amberfs verify: %v\n%s", err, out)
	}
}
