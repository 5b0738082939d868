package snapshot

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/tests/must"
)

// openAt opens a store whose time is what now is set to.
func openAt(t testing.TB, now *time.Time) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true, Now: func() time.Time { return *now }})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func capture(t testing.TB, w *Workspace, o CaptureOptions) info.Info {
	t.Helper()
	i, err := w.Capture(o)
	must.OK(t, err)
	return i
}

// TestAYearOfSnapshots: after a year with an automatic snapshot every two hours and
// five turns of an agent a day, what the rules keep is there and nothing else.
func TestAYearOfSnapshots(t *testing.T) {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	s := openAt(t, &now)
	w := s.Main()
	_, err := w.PatchPolicy([]byte(`{"keep":{"auto":{"last":3,"hourly":6,"daily":7,"weekly":4,"monthly":12}}}`), actors.Caller{})
	must.OK(t, err)
	capture(t, w, CaptureOptions{Name: "mine"})
	capture(t, w, CaptureOptions{Name: "pinned", Kind: info.KindAuto, Pinned: true})
	for hour := range 365 * 24 {
		now = now.Add(time.Hour)
		if hour%2 == 0 {
			capture(t, w, CaptureOptions{Kind: info.KindAuto})
		}
		if hour%24 < 5 {
			capture(t, w, CaptureOptions{Kind: info.KindTurn})
		}
		if hour%12 == 0 {
			s.policies.Round()
		}
	}
	s.policies.Round()
	kept := map[string][]info.Info{}
	for _, i := range w.List() {
		kept[i.Kind] = append(kept[i.Kind], i)
	}
	if len(kept[info.KindManual]) != 1 {
		t.Errorf("%d manual snapshots", len(kept[info.KindManual]))
	}
	if n := len(kept[info.KindTurn]); n != 100 {
		t.Errorf("%d of the turns are kept, want the last 100, which last more than 7 days", n)
	}
	auto := kept[info.KindAuto]
	// The newest six lie two hours apart; then one for each of the other six days, for
	// each of up to four weeks, and for each other month, some of which are the same.
	if n := len(auto); n < 6+6+9 || n > 6+6+4+11+1 {
		t.Errorf("%d automatic snapshots are kept", n)
	}
	months := map[time.Month]bool{}
	for _, i := range auto {
		months[i.Created.Month()] = true
	}
	if len(months) != 12 || auto[len(auto)-1].Name != "pinned" {
		t.Errorf("of %d months something is left; the oldest is %s", len(months), auto[len(auto)-1].Name)
	}
	for i := range 5 {
		if gap := auto[i].Created.Sub(auto[i+1].Created); gap != 2*time.Hour {
			t.Errorf("there are %v between the newest ones", gap)
		}
	}
}

// TestCullLeavesWhatIsNeeded: the newest snapshot, the one that undo means, and those
// of forks that ended less than 30 days ago stay.
func TestCullLeavesWhatIsNeeded(t *testing.T) {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	s := openAt(t, &now)
	w := s.Main()
	for _, name := range []string{"early", "late"} {
		_, err := w.Forks().New(ForkOptions{Name: name})
		must.OK(t, err)
	}
	capture(t, w, CaptureOptions{Name: "expires", Expires: now.Add(time.Hour).Format(time.RFC3339Nano)})
	_, err := w.Forks().End("early", actors.Caller{})
	must.OK(t, err)
	s.policies.Round()
	now = now.Add(40 * 24 * time.Hour)
	_, err = w.Forks().End("late", actors.Caller{})
	must.OK(t, err)
	var gone []string
	s.Hooks.OnEvent(func(e events.Event, _ actors.Caller) {
		if e.Action == "expired" {
			gone = append(gone, e.From)
		}
	})
	now = now.Add(20 * 24 * time.Hour)
	s.policies.Round()
	if got := strings.Join(gone, " "); got != "expires early" {
		t.Errorf("removed were %q", got)
	}
	now = now.Add(365 * 24 * time.Hour)
	s.policies.Round()
	if _, err := w.Find("late"); err != nil {
		t.Errorf("the newest snapshot is gone: %v", err)
	}
}

// TestRefusedPatchChangesNothing, not even what is right of it.
func TestRefusedPatchChangesNothing(t *testing.T) {
	now := time.Now()
	w := openAt(t, &now).Main()
	_, err := w.PatchPolicy([]byte(`{"protect":true}`), actors.Caller{ViaSocket: true})
	must.OK(t, err)
	before := w.Policy()
	if _, err := w.PatchPolicy([]byte(`{"protect":false,"delete":"me"}`), actors.Caller{ViaSocket: true}); err == nil {
		t.Error("it is taken")
	}
	if !reflect.DeepEqual(w.Policy(), before) || !before.Protect {
		t.Errorf("the policy is %+v", w.Policy())
	}
}

// TestNothingToRestore: a restore or a promotion that changes nothing makes no
// snapshot and leaves the undo point.
func TestNothingToRestore(t *testing.T) {
	now := time.Now()
	s := openAt(t, &now)
	w, ctx := s.Main(), t.Context()
	touch := func(w *Workspace, name string) {
		_, err := s.Forest().Create(w.Root(), name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(t, err)
	}
	capture(t, w, CaptureOptions{Name: "empty"})
	touch(w, "file")
	r, err := w.Restore(ctx, RestoreOptions{Name: "empty"})
	if err != nil || r.Changed != 1 {
		t.Fatal(r, err)
	}
	undo, n := r.Undo, len(w.List())
	f, err := w.Forks().New(ForkOptions{Name: "f"})
	must.OK(t, err)
	for _, o := range []RestoreOptions{{Name: "empty"}, {Name: "latest", Paths: []naming.BytePath{"file"}}, {Name: "empty", Paths: []naming.BytePath{"."}}} {
		if o.Name == "latest" {
			continue // it has the file
		}
		if r, err := w.Restore(ctx, o); err != nil || r.Changed != 0 || r.Undo != "" {
			t.Errorf("%+v: %+v, %v", o, r, err)
		}
	}
	touch(f, "brought")
	if r, err := w.Forks().Merge(ctx, MergeOptions{Fork: "f"}); err != nil || r.Changed != 1 {
		t.Fatal(r, err)
	}
	promoted := len(w.List())
	if r, err := w.Forks().Merge(ctx, MergeOptions{Fork: "f"}); err != nil || r.Changed != 0 || len(w.List()) != promoted {
		t.Errorf("the second promotion: %+v, %v", r, err)
	}
	if promoted != n+1 {
		t.Errorf("%d snapshots, then %d", n, promoted)
	}
	if _, err := w.Find(undo); err != nil {
		t.Error(err)
	}
}

// TestKeepSleeps: nothing is looked at before the next time that counts.
func TestKeepSleeps(t *testing.T) {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	s := openAt(t, &now)
	w := s.Main()
	sleeps := func(what string, want time.Duration) {
		t.Helper()
		if d := s.policies.Round().Sub(now); d != want {
			t.Errorf("%s: the next round is in %v, not in %v", what, d, want)
		}
	}
	policy := func(p string) {
		t.Helper()
		_, err := w.PatchPolicy([]byte(p), actors.Caller{})
		must.OK(t, err)
	}
	sleeps("a new store", time.Minute)
	capture(t, w, CaptureOptions{Name: "a", Expires: "20s"})
	now = now.Add(2 * time.Second)
	sleeps("a snapshot that expires", 18*time.Second)
	policy(`{"interval_seconds":5}`)
	_, err := s.forest.Create(w.Root(), "f", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	now = now.Add(2 * time.Second)
	sleeps("a change, with an interval", time.Second)
	now = now.Add(time.Second)
	sleeps("an interval that has passed", time.Second)
	if i, err := w.Find("latest"); err != nil || i.Kind != info.KindAuto {
		t.Errorf("the newest is %+v, %v", i, err)
	}
	now = now.Add(time.Second)
	sleeps("no change since", 14*time.Second)
	policy(`{"interval_seconds":0,"keep":{"auto":{"within":"10s"}}}`)
	now = now.Add(time.Second)
	sleeps("a rule with a time", 8*time.Second)
}

// TestForksOfAllDepthsEndInTime: a fork ends when its time is over, whenever it was made or given
// that time, also one in a fork.
func TestForksOfAllDepthsEndInTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := openAt(t, &now)
	pass := func(d time.Duration) {
		now = now.Add(d)
		s.policies.Round()
	}
	claim := func(in *Workspace, label, ttl string) *Workspace {
		t.Helper()
		got, err := in.Forks().Claim(ForkOptions{Name: label, TTL: ttl})
		must.OK(t, err)
		return got.Fork
	}
	pass(time.Second)
	outer := claim(s.Main(), "outer", "20s")
	pass(time.Second)
	claim(outer, "inner", "1h")
	pass(time.Second)
	claim(outer, "inner", "5s")
	left := func(want int, what string) {
		t.Helper()
		if n := len(s.Workspaces()) - 1; n != want {
			t.Errorf("%s: %d forks, want %d", what, n, want)
		}
	}
	pass(4 * time.Second)
	left(2, "before the time of the inner one")
	pass(2 * time.Second)
	left(1, "after it")
	pass(20 * time.Second)
	left(0, "after the time of the outer one")
}

// TestRoundsLookAtWhatChanged: a round looks at workspaces that changed or of which the time of
// something has come, however many there are.
func TestRoundsLookAtWhatChanged(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := openAt(t, &now)
	var forks []*Workspace
	for i := range 20 {
		forks = append(forks, forkNamed(t, s.Main(), fmt.Sprint("f", i)))
	}
	s.policies.Round()
	var looked []string
	all := s.policies.Workspaces
	s.policies.Workspaces = func(views []uint32) iter.Seq[policy.Workspace] {
		return func(yield func(policy.Workspace) bool) {
			for w := range all(views) {
				looked = append(looked, w.Name)
				yield(w)
			}
		}
	}
	round := func(after time.Duration, want ...string) {
		t.Helper()
		now, looked = now.Add(after), nil
		s.policies.Round()
		slices.Sort(looked)
		if !slices.Equal(looked, want) {
			t.Errorf("looked at %q, want %q", looked, want)
		}
	}
	round(time.Second)
	_, err := s.forest.Create(forks[3].Root(), "file", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	round(time.Second, "f3")
	capture(t, forks[4], CaptureOptions{Name: "a", Expires: "1m"})
	round(time.Second, "f4")
	round(30 * time.Second)
	round(time.Minute, "f4")
	if n := len(forks[4].List()); n != 0 {
		t.Errorf("%d snapshots are left", n)
	}
	round(time.Second, "f4") // it was removed
	round(time.Hour, "f3")   // its state is captured
	must.OK(t, s.Main().Forks().Discard("f5", actors.Caller{}))
	round(time.Second, "f3", "main")
	round(-time.Minute, slices.Sorted(func(yield func(string) bool) {
		for _, w := range s.Workspaces() {
			yield(w.Name())
		}
	})...) // the clock was set back
}

// TestCullMany: a policy that lets hundreds of thousands of snapshots go at once does so in
// small steps, and is committed.
func TestCullMany(t *testing.T) {
	all, gone := 24_000, 20_000
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		all, gone = 600_000, 500_000
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := openAt(t, &now)
	w := s.Main()
	first := capture(t, w, CaptureOptions{Name: "first", Kind: info.KindTurn})
	must.OK(t, s.Checkpoint(t.Context()))
	s.forest.WithLock(func(tx *live.Tx) {
		sn, err := s.cat.Find(w.ws, "first")
		must.OK(t, err)
		for i := range all {
			view, err := tx.NewView()
			must.OK(t, err)
			more := sn.Record()
			more.View, more.Seq, more.Name = view, first.Seq+1+uint64(i), fmt.Sprint("turn-", i)
			a := s.applier(tx)
			must.OK(t, a.applyEffects(s.cat.Apply(a, &catalogue.Pull{Snapshot: more})))
		}
	})
	must.OK(t, s.Checkpoint(t.Context()))
	s.policies.Round()
	policy := fmt.Sprintf(`{"keep":{"turn":{"last":%d}}}`, all-gone)
	if _, err := w.PatchPolicy([]byte(policy), actors.Caller{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(365 * 24 * time.Hour)

	records := s.log.RecordCount()
	s.policies.Round()
	// A step, between two of which other operations go, is a record.
	if steps := s.log.RecordCount() - records; steps < uint64(gone/1000) {
		t.Errorf("%d snapshots went in %d steps", gone, steps)
	}
	if n := len(w.List()); n < all-gone || n > all-gone+2 {
		t.Errorf("%d snapshots are left, want %d", n, all-gone)
	}
	capture(t, w, CaptureOptions{Name: "after"})
	must.OK(t, s.Checkpoint(t.Context()))
	capture(t, w, CaptureOptions{Name: "again"})
	must.OK(t, s.Checkpoint(t.Context()))
	dir := s.dir
	must.OK(t, s.Close())
	s, err := Open(dir, Options{Quiet: true, Now: func() time.Time { return now }})
	must.OK(t, err)
	defer s.Close()
	if n := len(s.Main().List()); n < all-gone+2 || n > all-gone+4 {
		t.Errorf("%d snapshots are left after opening again, want %d", n, all-gone+2)
	}
	if _, err := os.Stat(filepath.Join(dir, "quarantine")); err == nil {
		t.Error("something was set aside")
	}
}
