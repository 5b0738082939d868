package crash_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

const forgotten = "KEY=7c1f0b9d5e3a82461f0e9d8c7b6a5948"

// TestKillForget: a forget that kill -9 hits is finished by the next start, or was not begun: the file is in
// all snapshots and present states, or in none and nowhere in the store.
func TestKillForget(t *testing.T) {
	rng := rand.New(rand.NewPCG(harness.RandomSeed(t), 0))
	finished, rounds := 0, harness.Count(t, "ROUNDS", 4, 100)

	for range rounds {
		m := harness.New(t)
		places := forgettable(t, m)

		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = m.TryAmberfs("forget", ".env", "--now", "--yes") // it may be killed
		}()
		time.Sleep(time.Duration(rng.IntN(1200)) * time.Millisecond)
		m.Kill()
		<-ended
		m.Start()

		have := 0
		for _, p := range places {
			if _, err := os.Lstat(m.Path(p)); err == nil {
				have++
			}
		}
		switch have {
		case len(places):
		case 0:
			finished++
			harness.Eventually(t, "the bytes are erased", func() bool { return !storeHas(t, m.Store) })
		default:
			t.Fatalf("%d of %d places have the file", have, len(places))
		}

		// What an undo restores is as all others.
		for _, op := range []string{"1", "2"} {
			m.Amberfs("undo", "--op", op)
		}
		for _, p := range []string{".snapshots/v3/.env", ".forks/ended/.env"} {
			if _, err := os.Lstat(m.Path(p)); (err == nil) != (have > 0) {
				t.Errorf("%s: %v, and %d places have the file", p, err, have)
			}
		}
		m.Stop()
	}

	t.Logf("%d of %d were finished", finished, rounds)
}

// forgettable makes snapshots and forks with a file, removes some, and returns where the file is.
func forgettable(t *testing.T, m *harness.Mount) (places []string) {
	t.Helper()
	must.OK(t, os.WriteFile(m.Path(".env"), []byte(forgotten), 0o600))
	places = []string{".env", ".forks/f/.env"}

	for i := range 12 {
		must.OK(t, os.WriteFile(m.Path("other"), fmt.Append(nil, i), 0o600))
		name := fmt.Sprint("v", i)
		m.Amberfs("snapshot", name)
		if i != 3 {
			places = append(places, ".snapshots/"+name+"/.env")
		}
	}

	for _, args := range [][]string{
		{"fork", "f"}, {"fork", "ended"}, {"rm", "v3"}, {"fork", "--discard", "ended"},
	} {
		m.Amberfs(args...)
	}

	return places
}

// storeHas reports whether a file of a store has the forgotten bytes.
func storeHas(t *testing.T, store string) (has bool) {
	t.Helper()
	must.OK(t, filepath.WalkDir(store, func(name string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		b, rerr := os.ReadFile(name)
		if has = has || bytes.Contains(b, []byte(forgotten)); os.IsNotExist(rerr) {
			return err
		}
		return rerr
	}))
	return has
}
