package policy

import (
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/snapshot/info"
)

const (
	// tick is how exactly the times of a policy are kept, and quietTick the end of a
	// quiet time.
	tick      = time.Second
	quietTick = 50 * time.Millisecond
	// longestSleep is how late something may be whose time came while the machine
	// slept, or whose clock was set.
	longestSleep = time.Minute
	// maxJump is how far the clock may go differently from one that goes on evenly.
	// Beyond it nothing is removed for jumpHold, and after an opening for startHold if the
	// clock is so far from the newest snapshot: the machine may have begun with a wrong time.
	maxJump   = 10 * time.Minute
	jumpHold  = 24 * time.Hour
	startHold = time.Hour
	// batch is how many snapshots are removed in one step. Other operations go between the
	// steps.
	batch = 1000
)

// A Workspace is what one look sees of a workspace.
type Workspace struct {
	View    uint32
	Name    string
	Policy  Policy
	Undo    uint32 // view of the snapshot
	Changes uint64 // live.Tx.Changed
	Records uint64 // grows with each change of what Policy, Undo, Newest and EndForks are of
	Changed bool   // since the last snapshot
	Newest  iter.Seq[info.Info]
	// Capture takes a snapshot.
	Capture func() error
	// Remove removes those of some snapshots for which what a look found still holds.
	Remove func(rules Policy, snapshots []uint32, now time.Time) error
	// EndForks ends the forks whose time is over. It returns when that of another one is, or
	// next if that is earlier.
	EndForks func(now, next time.Time) (time.Time, error)
}

// A Keeper does what the policies ask for. The fields down to Logger are the caller's.
type Keeper struct {
	Workspaces func() iter.Seq[Workspace]
	Now        func() time.Time
	Elapsed    func() time.Duration   // goes on evenly whatever becomes of Now
	Appended   func() <-chan struct{} // closed by the next change of anything
	Signal     loops.Wake
	Loops      *loops.Group
	Logger     *slog.Logger

	seen   map[uint32]lastSeen // by view
	culled time.Time
	tick   time.Duration // between two rounds while something changes

	// When the last round was, by both clocks, and from when on something is removed.
	last      time.Time
	elapsed   time.Duration
	heldUntil time.Duration
}

// lastSeen is what was known of a workspace in the last round.
type lastSeen struct {
	captured time.Time // automatically
	changes  uint64
	changed  time.Time // when changes was seen to grow
	records  uint64    // when it was looked for what to remove
	culled   time.Time // then
	next     time.Time // before which there is nothing, as long as the records are the same
}

// Loop makes rounds. It sleeps until a time comes that counts, or something changes.
func (k *Keeper) Loop() {
	for k.Loops.Context.Err() == nil {
		changed := k.Appended()
		due := k.Round()
		if k.Loops.Await(k.Signal, changed, min(max(due.Sub(k.Now()), k.tick), longestSleep)) {
			k.Loops.Await(k.Signal, nil, k.tick)
		}
	}
}

// Round does what is due, and returns when something will be if nothing changes.
func (k *Keeper) Round() time.Time {
	now := k.Now()
	due := now.Add(longestSleep)
	cull := now.Sub(k.culled).Abs() >= tick
	if cull {
		k.culled = now
	} else {
		due = k.culled.Add(tick)
	}
	cull = !k.holds(now) && cull
	k.tick = tick
	was := k.seen
	k.seen = make(map[uint32]lastSeen)
	for w := range k.Workspaces() {
		last, known := was[w.View]
		if !known {
			last.captured = now
		}
		at := w.captureDue(&last, now)
		if !at.After(now) {
			if err := w.Capture(); err != nil {
				k.Logger.Warn("automatic capture", "workspace", w.Name, "err", err)
			}
			last.captured = now
			at = now.Add(tick)
		}
		if w.Policy.QuietSeconds > 0 {
			k.tick = quietTick
		}
		if due = earlier(due, at); cull {
			if w.Records != last.records || !now.Before(last.next) || now.Before(last.culled) {
				last.records, last.culled, last.next = w.Records, now, k.cull(w, now)
			}
			due = earlier(due, last.next)
		}
		k.seen[w.View] = last
	}
	return due
}

// holds reports whether nothing is removed because the clock may be wrong.
func (k *Keeper) holds(now time.Time) bool {
	elapsed := k.Elapsed()
	if k.last.IsZero() {
		if newest := k.newest(); !newest.IsZero() && now.Sub(newest).Abs() > jumpHold {
			k.heldUntil = elapsed + startHold
		}
	} else if jump := now.Sub(k.last) - (elapsed - k.elapsed); jump.Abs() > maxJump {
		k.heldUntil = elapsed + jumpHold
		k.Logger.Warn("the clock has jumped; no snapshot or fork is removed for a day", "by", jump.Round(time.Second))
	}
	k.last, k.elapsed = now, elapsed
	return elapsed < k.heldUntil
}

// newest returns when the newest snapshot was taken.
func (k *Keeper) newest() (at time.Time) {
	for w := range k.Workspaces() {
		for i := range w.Newest {
			if i.Created.After(at) {
				at = i.Created
			}
			break
		}
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// captureDue returns when the present state is to be captured automatically: far in the
// future if nothing changed. After a quiet time the state is captured, so that the next
// change is preceded by it.
func (w *Workspace) captureDue(last *lastSeen, now time.Time) time.Time {
	due := now.Add(longestSleep)
	if w.Changes != last.changes {
		last.changes, last.changed = w.Changes, now
	}
	if !w.Changed {
		return due
	}
	if n := w.Policy.IntervalSeconds; n > 0 {
		due = earlier(due, last.captured.Add(time.Duration(n)*time.Second))
	}
	if n := w.Policy.QuietSeconds; n > 0 {
		due = earlier(due, last.changed.Add(time.Duration(n)*time.Second))
	}
	return due
}

// cull removes the snapshots and ends the forks whose time is over, and returns when that
// of the next may be.
func (k *Keeper) cull(w Workspace, now time.Time) time.Time {
	gone, due := w.over(now)
	for some := range slices.Chunk(gone, batch) {
		if err := w.Remove(w.Policy, some, now); err != nil {
			k.Logger.Warn("removing old snapshots", "workspace", w.Name, "err", err)
			break
		}
	}
	due, err := w.EndForks(now, due)
	if err != nil {
		k.Logger.Warn("forks whose time is over", "workspace", w.Name, "err", err)
	}
	return due
}

// over returns the views, oldest first, of the snapshots that expired, or that the rule of
// their kind does not keep. due is when the next one may have to go: far in the future if
// none has a time.
func (w *Workspace) over(now time.Time) (gone []uint32, due time.Time) {
	due = now.Add(longestSleep)
	rules := w.Policy.Keep.Rules()
	selections := make(map[string]*Selection)
	for kind, rule := range rules {
		selections[kind] = rule.Select(now)
	}
	minAge := time.Duration(w.Policy.MinAgeSeconds) * time.Second
	later := func(at time.Time) {
		if at.After(now) {
			due = earlier(due, at)
		}
	}
	newest := true
	for i := range w.Newest {
		sel := selections[i.Kind]
		kept := sel == nil || sel.Keeps(i.Created) || newest
		newest = false
		later(i.Created.Add(minAge))
		if rule, ok := rules[i.Kind]; ok {
			later(i.Created.Add(time.Duration(rule.Within)))
		}
		if i.Expires != nil && !i.Expires.Before(now) { // it is over after that
			due = earlier(due, *i.Expires)
		}
		if !i.Pinned && i.View != w.Undo && (i.Expired(now) || !kept && now.Sub(i.Created) >= minAge) {
			gone = append(gone, i.View)
		}
	}
	slices.Reverse(gone)
	return gone, due
}
