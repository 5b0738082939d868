package history_test

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

const (
	labels = 20
	claims = 100
)

func label(i int) string { return fmt.Sprintf("box-%d", i%labels) }

// claimAll has many processes claim few labels at once, and returns how often each
// label came about in which way. Without mayFail every claim succeeds.
func claimAll(t *testing.T, m *harness.Mount, mayFail bool) map[string]map[string]int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	tiers := make(map[string]map[string]int)
	for i := range claims {
		wg.Go(func() {
			out, err := m.TryAmberfs("claim", label(i), "--json")
			var got struct{ Path, Tier string }
			if err == nil {
				err = json.Unmarshal([]byte(out), &got)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && !mayFail:
				t.Errorf("claim of %s: %v: %s", label(i), err, out)
			case err == nil && got.Path != m.Path(".forks", label(i)):
				t.Errorf("claim of %s got %s", label(i), got.Path)
			case err == nil:
				if tiers[label(i)] == nil {
					tiers[label(i)] = make(map[string]int)
				}
				tiers[label(i)][got.Tier]++
			}
		})
	}
	wg.Wait()
	return tiers
}

// one checks that each label has one fork, and that the first claim alone made it.
func one(t *testing.T, m *harness.Mount, tiers map[string]map[string]int, first func(i int) string) {
	t.Helper()
	var forks []struct{ Name string }
	must.OK(t, json.Unmarshal([]byte(m.Amberfs("forks", "--json")), &forks))
	if len(forks) != labels {
		t.Errorf("%d labels have %d forks", labels, len(forks))
	}
	for i := range labels {
		want := map[string]int{"resumed": claims / labels}
		if first(i) != "resumed" {
			want = map[string]int{first(i): 1, "resumed": claims/labels - 1}
		}
		if got := tiers[label(i)]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, not %v", label(i), got, want)
		}
	}
}

// A label has one fork, at any time, and whatever happened to the daemon:
// the running one, or its last state, or a fresh one.
func TestClaimsAtOnce(t *testing.T) {
	m := harness.New(t)
	write(t, m.Path("f"), "base")
	always := func(tier string) func(int) string { return func(int) string { return tier } }
	check := func(i int, want string) {
		t.Helper()
		if got := read(t, m.Path(".forks", label(i), "f")); got != want {
			t.Errorf("%s has %q, not %q", label(i), got, want)
		}
	}

	one(t, m, claimAll(t, m, false), always("fresh"))
	for i := range labels {
		write(t, m.Path(".forks", label(i), "f"), label(i))
	}
	m.Kill()
	m.Start()
	one(t, m, claimAll(t, m, false), always("resumed"))
	for i := range labels {
		check(i, label(i))
	}

	// Half of them end; what they were is what the next claim goes on from.
	for i := range labels / 2 {
		must.OK(t, os.Remove(m.Path(".forks", label(i))))
	}
	m.Stop()
	m.Start()
	one(t, m, claimAll(t, m, false), func(i int) string {
		if i < labels/2 {
			return "snapshot"
		}
		return "resumed"
	})
	for i := range labels {
		check(i, label(i))
	}

	// All end, and the daemon is killed while they are claimed.
	for i := range labels {
		must.OK(t, os.Remove(m.Path(".forks", label(i))))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		claimAll(t, m, true)
	}()
	harness.Eventually(t, "the first are claimed", func() bool {
		forks, err := os.ReadDir(m.Path(".forks"))
		return err == nil && len(forks) > 0
	})
	m.Kill()
	<-done
	m.Start()
	tiers := claimAll(t, m, false)
	one(t, m, tiers, func(i int) string {
		if tiers[label(i)]["snapshot"] > 0 { // it was not claimed before the kill
			return "snapshot"
		}
		return "resumed"
	})
	for i := range labels {
		check(i, label(i))
	}
}
