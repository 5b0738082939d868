package policy

import (
	"container/heap"
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
	// far is when something is due that has no time.
	far = 365 * 24 * time.Hour
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
	Workspaces func(views []uint32) iter.Seq[Workspace] // those that there are; nil: all
	// Changed returns the workspaces in which any of Changes and Records may have grown, or that
	// ended, since the last call.
	Changed  func() []uint32
	Now      func() time.Time
	Elapsed  func() time.Duration   // goes on evenly whatever becomes of Now
	Hold     func(until time.Time)  // remembers, after the clock jumped, until when nothing is removed
	Held     func() time.Time       // what Hold was told last, also before a restart
	Appended func() <-chan struct{} // closed by the next change of anything
	Signal   loops.Wake
	Loops    *loops.Group
	Logger   *slog.Logger

	seen   map[uint32]lastSeen // by view
	due    dueTimes            // of all that were seen
	quiet  int                 // how many of them have a quiet time
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
	due      time.Time // when it is looked at again if nothing changes
	quiet    bool      // it has a quiet time
}

// dueTimes has the workspaces in the order in which they are due. Those that were looked at since
// are in it more than once, of which lastSeen.due counts. It is a heap.
type dueTimes []dueTime

type dueTime struct {
	at   time.Time
	view uint32
}

func (d dueTimes) Len() int           { return len(d) }
func (d dueTimes) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dueTimes) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueTimes) Push(x any)        { *d = append(*d, x.(dueTime)) }

func (d *dueTimes) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
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

// Round does what is due, and returns when something will be if nothing changes. It looks at
// workspaces that changed, and at those whose time has come.
func (k *Keeper) Round() time.Time {
	now := k.Now()
	views := k.toLookAt(now)
	due := now.Add(longestSleep)
	cull := now.Sub(k.culled).Abs() >= tick
	if cull {
		k.culled = now
	} else {
		due = k.culled.Add(tick)
	}
	held := k.holds(now)
	cull = !held && cull
	again := k.culled.Add(tick) // if it could not be removed now
	if held {
		again = now.Add(longestSleep)
	}
	was := k.forget(views)
	for w := range k.Workspaces(views) {
		last, known := was[w.View]
		if !known {
			last.captured = now
		}
		last.due = w.captureDue(&last, now)
		if !last.due.After(now) {
			if err := w.Capture(); err != nil {
				k.Logger.Warn("automatic capture", "workspace", w.Name, "err", err)
			}
			last.captured = now
			last.due = now.Add(tick)
		}
		if last.quiet = w.Policy.QuietSeconds > 0; last.quiet {
			k.quiet++
		}
		if w.Records != last.records || !now.Before(last.next) || now.Before(last.culled) {
			if cull {
				last.records, last.culled, last.next = w.Records, now, k.cull(w, now)
			}
			if !cull || !last.next.After(now) {
				last.next = again
			}
		}
		last.due = earlier(last.due, last.next)
		k.seen[w.View] = last
		heap.Push(&k.due, dueTime{last.due, w.View})
	}
	if k.tick = tick; k.quiet > 0 {
		k.tick = quietTick
	}
	if first, ok := k.first(); ok {
		due = earlier(due, first.at)
	}
	return due
}

// toLookAt returns the workspaces that changed or are due, nil for all.
func (k *Keeper) toLookAt(now time.Time) []uint32 {
	views := []uint32{}
	if k.Changed != nil {
		views = append(views, k.Changed()...)
	}
	if k.Changed == nil || k.seen == nil || now.Before(k.last) { // or the clock was set back
		return nil
	}
	for first, ok := k.first(); ok && !first.at.After(now); first, ok = k.first() {
		views = append(views, first.view)
		heap.Pop(&k.due)
	}
	slices.Sort(views)
	return slices.Compact(views)
}

// first returns what is due first.
func (k *Keeper) first() (d dueTime, ok bool) {
	for ; len(k.due) > 0; heap.Pop(&k.due) {
		if d = k.due[0]; k.seen[d.view].due.Equal(d.at) {
			return d, true
		}
	}
	return d, false
}

// forget takes workspaces out of what was seen, and returns what was known of them.
func (k *Keeper) forget(views []uint32) map[uint32]lastSeen {
	was := k.seen
	if views == nil {
		k.seen, k.due, k.quiet = make(map[uint32]lastSeen), nil, 0
		return was
	}
	was = make(map[uint32]lastSeen, len(views))
	for _, view := range views {
		if last, ok := k.seen[view]; ok {
			was[view] = last
			delete(k.seen, view)
			if last.quiet {
				k.quiet--
			}
		}
	}
	return was
}

// holds reports whether nothing is removed because the clock may be wrong.
func (k *Keeper) holds(now time.Time) bool {
	elapsed := k.Elapsed()
	if k.last.IsZero() {
		if newest := k.newest(); !newest.IsZero() && now.Sub(newest).Abs() > jumpHold {
			k.heldUntil = elapsed + startHold
		}
		if left := k.Held().Sub(now); left <= jumpHold {
			k.heldUntil = max(k.heldUntil, elapsed+left)
		}
	} else if jump := now.Sub(k.last) - (elapsed - k.elapsed); jump.Abs() > maxJump {
		k.heldUntil = elapsed + jumpHold
		k.Hold(now.Add(jumpHold))
		k.Logger.Warn("the clock has jumped; no snapshot or fork is removed for a day", "by", jump.Round(time.Second))
	}
	k.last, k.elapsed = now, elapsed
	return elapsed < k.heldUntil
}

// newest returns when the newest snapshot was taken.
func (k *Keeper) newest() (at time.Time) {
	for w := range k.Workspaces(nil) {
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
	due := now.Add(far)
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
			due = earlier(due, now.Add(longestSleep))
			break
		}
	}
	due, err := w.EndForks(now, due)
	if err != nil {
		k.Logger.Warn("forks whose time is over", "workspace", w.Name, "err", err)
		due = earlier(due, now.Add(longestSleep))
	}
	return due
}

// over returns the views, oldest first, of the snapshots that expired, or that the rule of
// their kind does not keep. due is when the next one may have to go: far in the future if
// none has a time.
func (w *Workspace) over(now time.Time) (gone []uint32, due time.Time) {
	due = now.Add(far)
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
		later(i.Created)
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
