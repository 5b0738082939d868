package snapshot

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestManyClaims: of a hundred claims of twenty labels at once, all of one label get
// the same fork, and one of them makes it.
func TestManyClaims(t *testing.T) {
	now := time.Now()
	w := openAt(t, &now).Main()
	var mu sync.Mutex
	views, tiers := map[string][]uint32{}, map[string]int{}
	var g errgroup.Group
	for i := range 100 {
		g.Go(func() error {
			label := fmt.Sprint("agent", i%20)
			c, err := w.Forks().Claim(ForkOptions{Name: label})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			tiers[c.Tier]++
			if v := c.Fork.View(); !slices.Contains(views[label], v) {
				views[label] = append(views[label], v)
			}
			return nil
		})
	}
	must.OK(t, g.Wait())
	for label, v := range views {
		if len(v) != 1 {
			t.Errorf("%s is %d forks", label, len(v))
		}
	}
	if n := len(w.Forks().List()); n != 20 || tiers[TierFresh] != 20 || tiers[TierResumed] != 80 {
		t.Errorf("%d forks, %v", n, tiers)
	}
}

// TestClaimTiers: a claim gets the fork that is there, then what it left, also after
// the store was opened again, and a fresh one when it was discarded.
func TestClaimTiers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var s *Store
	var w *Workspace
	reopen := func() {
		t.Helper()
		if s != nil {
			must.OK(t, s.Close())
		}
		var err error
		if s, err = Open(dir, Options{Quiet: true}); err != nil {
			t.Fatal(err)
		}
		w = s.Main()
	}
	claim := func(tier, from string) ClaimResult {
		t.Helper()
		c, err := w.Forks().Claim(ForkOptions{Name: "me", Snapshot: "start"})
		if err != nil || c.Tier != tier || c.From != from {
			t.Fatalf("%+v, %v; want %s from %q", c, err, tier, from)
		}
		return c
	}
	reopen()
	capture(t, w, CaptureOptions{Name: "start"})
	f := claim(TierFresh, "start").Fork
	_, err := s.Forest().Create(f.Root(), "work", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	reopen()
	claim(TierResumed, "")
	last, err := w.Forks().End("me", actors.Caller{})
	if err != nil || last.Claim != "me" {
		t.Fatal(last, err)
	}
	reopen()
	f = claim(TierSnapshot, last.Name).Fork
	if _, err := s.Forest().Lookup(f.Root(), "work"); err != nil {
		t.Error("what was worked on is not there:", err)
	}
	must.OK(t, w.Forks().Discard("me", actors.Caller{}))
	must.OK(t, w.Snapshots().Delete(last.Name, actors.Caller{}))
	before := len(w.List())
	f = claim(TierFresh, "start").Fork
	if _, err := s.Forest().Lookup(f.Root(), "work"); err == nil {
		t.Error("a fresh one has what another left")
	}
	if err := w.Forks().Discard("me", actors.Caller{}); err != nil || len(w.List()) != before || len(w.Forks().List()) != 0 {
		t.Error("a fork that is discarded leaves something", err)
	}
	must.OK(t, s.Close())
}

// TestForkTTL: a fork ends when its time is over, as EndFork ends it, unless it was
// claimed again; also after the store was opened again.
func TestForkTTL(t *testing.T) {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	s := openAt(t, &now)
	w := s.Main()
	var said []string
	s.Hooks.OnEvent(func(e events.Event, _ actors.Caller) { said = append(said, e.Action+" "+e.From+e.Detail) })
	for _, label := range []string{"a", "b"} {
		_, err := w.Forks().Claim(ForkOptions{Name: label, TTL: "1h"})
		must.OK(t, err)
	}
	now = now.Add(50 * time.Minute)
	_, err := w.Forks().Claim(ForkOptions{Name: "b", TTL: "1h"})
	must.OK(t, err)
	now = now.Add(50 * time.Minute)
	_, err = w.Forks().endExpired(now, now)
	must.OK(t, err)
	forks := w.Forks().List()
	if len(forks) != 1 || forks[0].Name != "b" || !forks[0].Expires.Equal(now.Add(10*time.Minute)) {
		t.Errorf("the forks are %+v", forks)
	}
	if i, err := w.Find("a"); err != nil || i.Kind != info.KindFork {
		t.Errorf("it left %+v, %v", i, err)
	}
	if !slices.Contains(said, "forked a") || !slices.Contains(said, "fork-deleted aa") || !slices.Contains(said, "captured a") {
		t.Errorf("the events are %q", said)
	}
}

// TestForkDiscarded: a fork that was made to be discarded leaves no snapshot when it ends, with the
// forks in it when its time is over, also after the store was opened again.
func TestForkDiscarded(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "store"), time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	options := Options{Quiet: true, Now: func() time.Time { return now }}
	s, err := Open(dir, options)
	must.OK(t, err)
	a, err := s.Main().Forks().New(ForkOptions{Name: "a", Discard: true, TTL: "1h"})
	must.OK(t, err)
	_, err = s.Forest().Create(a.Root(), "work", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	// A fork of what another fork has now takes no snapshot in that.
	b, err := s.Main().Forks().New(ForkOptions{Name: "b", Snapshot: "a/", Discard: true})
	must.OK(t, err)
	_, err = s.Forest().Create(a.Root(), "later", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	_, err = a.Forks().New(ForkOptions{Name: "inner"})
	must.OK(t, err)
	if n := len(a.List()); n != 0 || b.BaseSnapshotName() != "" {
		t.Errorf("the fork has %d snapshots, and the other one began from %q", n, b.BaseSnapshotName())
	}
	must.OK(t, s.Close())
	s, err = Open(dir, options)
	must.OK(t, err)
	defer func() { must.OK(t, s.Close()) }()
	w := s.Main()
	if b, err = w.Forks().Named("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Forest().Lookup(b.Root(), "work"); err != nil {
		t.Error("it lacks what the other fork had:", err)
	}
	if _, err := s.Forest().Lookup(b.Root(), "later"); err == nil {
		t.Error("it has what was written later")
	}
	now = now.Add(2 * time.Hour)
	_, err = w.Forks().endExpired(now, now)
	must.OK(t, err)
	if last, err := w.Forks().End("b", actors.Caller{}); err != nil || last.Name != "" {
		t.Errorf("it left %q, %v", last.Name, err)
	}
	if forks, left := w.Forks().List(), w.List(); len(forks) > 0 || len(left) > 0 {
		t.Errorf("forks %+v and snapshots %+v are left", forks, left)
	}
}

// TestClaimNotPlanted: a claim begins with nothing that users, forks or remotes have
// labelled.
func TestClaimNotPlanted(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	w := s.Main()
	f, err := w.Forks().New(ForkOptions{Name: "attacker"})
	must.OK(t, err)
	planted := map[string]string{"claim": "victim"}
	capture(t, f, CaptureOptions{Name: "state", Labels: planted})
	info, err := f.Snapshots().WaitSealed(t.Context(), "state")
	must.OK(t, err)
	st, _, err := f.HoldState("state")
	must.OK(t, err)
	id, _ := st.ID()
	info.Name, info.Claim = "pulled", "victim"
	_, err = w.Remotes().AddPulled(info, id, actors.Caller{})
	must.OK(t, err)
	capture(t, w, CaptureOptions{Name: "labelled", Labels: planted})
	_, err = w.Forks().End("attacker", actors.Caller{})
	must.OK(t, err)
	if c, err := w.Forks().Claim(ForkOptions{Name: "victim"}); err != nil || c.Tier != TierFresh {
		t.Errorf("%+v, %v", c, err)
	}
}
