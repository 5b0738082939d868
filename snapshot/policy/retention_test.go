package policy

import (
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/amberfs/amberfs/snapshot/info"
)

// history is a workspace in which snapshots come and go.
type history struct {
	now     time.Time
	elapsed time.Duration
	held    time.Time
	all     []info.Info // newest first
	next    uint32
	keeper  *Enforcer
}

func newHistory() *history {
	h := &history{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.open()
	return h
}

// open begins with a new keeper.
func (h *history) open() {
	p := Default()
	p.IntervalSeconds = 0
	h.keeper = &Enforcer{
		Now: func() time.Time { return h.now }, Elapsed: func() time.Duration { return h.elapsed }, Logger: slog.New(slog.DiscardHandler),
		PauseRemovals: func(until time.Time) { h.held = until }, PausedUntil: func() time.Time { return h.held },
		Workspaces: func([]uint32) iter.Seq[Workspace] {
			return slices.Values([]Workspace{{
				View: 1, Name: "main", Policy: p, RecordChangeCount: uint64(h.next), NewestFirst: slices.Values(slices.Clone(h.all)),
				Remove: func(_ Policy, gone []uint32, _ time.Time) error {
					h.all = slices.DeleteFunc(h.all, func(i info.Info) bool { return slices.Contains(gone, i.View) })
					return nil
				},
				EndForks: func(_, next time.Time) (time.Time, error) { return next, nil },
			}})
		},
	}
}

// pass lets time go on, in rounds of an hour.
func (h *history) pass(d time.Duration) {
	for ; d > 0; d -= time.Hour {
		h.now, h.elapsed = h.now.Add(time.Hour), h.elapsed+time.Hour
		h.keeper.Round()
	}
}

func (h *history) take(kind string) {
	h.next++
	h.all = slices.Insert(h.all, 0, info.Info{View: h.next, Kind: kind, Created: h.now})
}

func (h *history) count(kind string) (n int) {
	for _, i := range h.all {
		if i.Kind == kind {
			n++
		}
	}
	return n
}

// TestWithinCountsFromTheNewest: time alone removes nothing that a rule keeps by its age.
func TestWithinCountsFromTheNewest(t *testing.T) {
	h := newHistory()
	for range 3 {
		h.take("fork")
		h.pass(day)
	}
	h.take("manual")
	h.pass(5 * 7 * day)
	if n := h.count("fork"); n != 3 {
		t.Errorf("%d of 3 are left after five weeks", n)
	}
	h.take("fork")
	h.pass(2 * day)
	if n := h.count("fork"); n != 1 {
		t.Errorf("%d are left once there is a new one", n)
	}
}

// TestClockJumps: a clock that is wrong for a while removes nothing, also not when it is right
// again, whatever was taken meanwhile, and also if the store is opened again meanwhile.
func TestClockJumps(t *testing.T) {
	for i, jump := range []time.Duration{31 * day, -31 * day, 31 * day, -31 * day} {
		h := newHistory()
		h.take("fork")
		h.pass(10 * day)
		h.take("fork")
		h.pass(day)
		h.now = h.now.Add(jump)
		h.keeper.Round()
		h.take("fork") // by a clock that is wrong
		h.take("manual")
		if i >= 2 {
			h.open()
		}
		h.pass(2 * time.Hour)
		h.now = h.now.Add(-jump)
		h.pass(3 * day)
		if n := h.count("fork"); n != 3 {
			t.Errorf("after a clock that was wrong by %v, %d of 3 are left", jump, n)
		}
	}
}

// TestOpenedWithAWrongClock: a clock that was wrong already when the store was opened has an
// hour to be set.
func TestOpenedWithAWrongClock(t *testing.T) {
	h := newHistory()
	h.take("fork")
	h.take("manual")
	h.now = h.now.Add(31 * day)
	h.keeper.Round()
	h.take("fork")
	h.keeper.Round()
	h.now = h.now.Add(-31 * day)
	h.pass(3 * day)
	if n := h.count("fork"); n != 2 {
		t.Errorf("%d of 2 are left", n)
	}
}

// TestLooksWhenSomethingIsDue: while files change, snapshots are looked at when their records
// changed or the time of one comes, and not each second.
func TestLooksWhenSomethingIsDue(t *testing.T) {
	h := newHistory()
	expires := h.now.Add(30 * time.Second)
	h.all = []info.Info{{View: 2, Created: h.now}, {View: 1, Created: h.now, Expires: &expires}}
	records, changes, looks := uint64(1), uint64(0), 0
	workspaces := h.keeper.Workspaces
	h.keeper.Workspaces = func([]uint32) iter.Seq[Workspace] {
		return func(yield func(Workspace) bool) {
			for w := range workspaces(nil) {
				changes++
				newest, remove := w.NewestFirst, w.Remove
				w.RecordChangeCount, w.ChangeNumber, w.HasChanges = records, changes, true
				w.NewestFirst = func(yield func(info.Info) bool) {
					looks++
					newest(yield)
				}
				w.Remove = func(p Policy, gone []uint32, now time.Time) error {
					records++
					return remove(p, gone, now)
				}
				yield(w)
			}
		}
	}
	round := func(want int, what string) {
		t.Helper()
		h.now, h.elapsed, looks = h.now.Add(time.Second), h.elapsed+time.Second, 0
		if h.keeper.Round(); looks != want {
			t.Errorf("%s: %d looks, want %d", what, looks, want)
		}
	}
	h.keeper.Round()
	for range 29 {
		round(0, "nothing is due")
	}
	records++
	round(1, "a record changed just when a snapshot still lives")
	round(1, "the time of a snapshot has come")
	if len(h.all) != 1 {
		t.Errorf("%d snapshots are left, want 1", len(h.all))
	}
	round(1, "it was removed")
	round(0, "nothing is due")
	h.now = h.now.Add(-10 * time.Second)
	round(1, "the clock was set back")
}
