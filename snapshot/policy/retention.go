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
	// tick is the shortest time between two rounds; quietTick, if a policy has a quiet time.
	tick      = time.Second
	quietTick = 50 * time.Millisecond
	// longestSleep is the longest time between two rounds. A timer does not notice that the
	// machine was suspended or that its clock was set.
	longestSleep = time.Minute
	// far is the due time, from now, of what has none.
	far = 365 * 24 * time.Hour
	// If the wall clock and the monotonic clock diverge by more than maxJump, nothing is removed
	// for jumpHold. If the newest snapshot is more than jumpHold from the present time when a
	// store is opened, nothing is removed for startHold: the clock may be wrong.
	maxJump   = 10 * time.Minute
	jumpHold  = 24 * time.Hour
	startHold = time.Hour
	// batch is how many snapshots are removed at a time. Other operations run in between.
	batch = 1000
)

// A Workspace is a workspace as a round of the Keeper finds it.
type Workspace struct {
	View    uint32
	Name    string
	Policy  Policy
	Undo    uint32 // view of the snapshot
	Changes uint64 // live.Tx.Changed
	Records uint64 // grows when Policy, Undo, the snapshots or the forks change
	Changed bool   // since the last snapshot
	Newest  iter.Seq[info.Info]
	Capture func() error
	// Remove removes the given snapshots, except those that the rules keep by now.
	Remove func(rules Policy, snapshots []uint32, now time.Time) error
	// EndForks ends the forks that have expired. It returns when the next fork expires, or next
	// if that is earlier.
	EndForks func(now, next time.Time) (time.Time, error)
}

// A Keeper takes and removes snapshots as policies say. The caller sets the exported fields.
type Keeper struct {
	Workspaces func(views []uint32) iter.Seq[Workspace] // those of views that exist; nil: all
	// Changed returns the workspaces that ended, or whose Changes or Records may have grown, since
	// the last call.
	Changed  func() []uint32
	Now      func() time.Time
	Elapsed  func() time.Duration   // a monotonic clock
	Hold     func(until time.Time)  // stores, after the clock jumped, until when nothing is removed
	Held     func() time.Time       // returns what Hold stored last, also by an earlier process
	Appended func() <-chan struct{} // closed by the next change of anything
	Signal   loops.Wake
	Loops    *loops.Group
	Logger   *slog.Logger

	seen   map[uint32]lastSeen // by view
	due    dueTimes            // of the workspaces in seen
	quiet  int                 // workspaces in seen that have a quiet time
	culled time.Time           // the last round in which snapshots were removed
	tick   time.Duration       // between two rounds while something changes

	// The last round by Now and by Elapsed; heldUntil is by Elapsed, too.
	last      time.Time
	elapsed   time.Duration
	heldUntil time.Duration
}

// lastSeen is a workspace as its last round left it.
type lastSeen struct {
	captured time.Time // the last automatic snapshot
	changes  uint64    // Workspace.Changes
	changed  time.Time // when a round found that changes had grown
	records  uint64    // Workspace.Records at the last cull
	culled   time.Time // when that was
	next     time.Time // the next cull, if records does not grow
	due      time.Time // the next round that looks at it, if nothing changes
	quiet    bool      // it has a quiet time
}

// dueTimes is a heap of workspaces, the first due on top. A workspace may be in it several times:
// only the entry that is equal to lastSeen.due counts.
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

// Loop makes a round whenever something is due or has changed.
func (k *Keeper) Loop() {
	for k.Loops.Context.Err() == nil {
		changed := k.Appended()
		due := k.Round()
		if k.Loops.Await(k.Signal, changed, min(max(due.Sub(k.Now()), k.tick), longestSleep)) {
			k.Loops.Await(k.Signal, nil, k.tick)
		}
	}
}

// Round does what is due in the workspaces that changed or whose time has come. It returns when
// something is due next if nothing changes.
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
	again := k.culled.Add(tick) // for a workspace that this round does not cull
	if held {
		again = now.Add(longestSleep)
	}
	previous := k.forget(views)
	for w := range k.Workspaces(views) {
		last, known := previous[w.View]
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

func (k *Keeper) first() (d dueTime, ok bool) {
	for ; len(k.due) > 0; heap.Pop(&k.due) {
		if d = k.due[0]; k.seen[d.view].due.Equal(d.at) {
			return d, true
		}
	}
	return d, false
}

// forget removes workspaces from k.seen and returns them as they were there.
func (k *Keeper) forget(views []uint32) map[uint32]lastSeen {
	previous := k.seen
	if views == nil {
		k.seen, k.due, k.quiet = make(map[uint32]lastSeen), nil, 0
		return previous
	}
	previous = make(map[uint32]lastSeen, len(views))
	for _, view := range views {
		if last, ok := k.seen[view]; ok {
			previous[view] = last
			delete(k.seen, view)
			if last.quiet {
				k.quiet--
			}
		}
	}
	return previous
}

// holds reports whether the clock may be wrong, so that nothing is removed.
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

// cull removes the snapshots that are not kept and ends the forks that have expired. It returns
// when there may be another one.
func (k *Keeper) cull(w Workspace, now time.Time) time.Time {
	remove, due := w.toRemove(now)
	for some := range slices.Chunk(remove, batch) {
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

// toRemove returns the views, oldest first, of the snapshots that expired or that the rule of their
// kind does not keep. due is when there may be another one, far in the future if never.
func (w *Workspace) toRemove(now time.Time) (remove []uint32, due time.Time) {
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
			remove = append(remove, i.View)
		}
	}
	slices.Reverse(remove)
	return remove, due
}
