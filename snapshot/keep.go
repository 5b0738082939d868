package snapshot

import (
	"reflect"
	"slices"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/loops"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// keeper wakes what captures and culls automatically.
type keeper struct {
	*core
	signal   loops.Wake
	captured []Event // of snapshots between two actors; guarded by the lock of the forest
}

// keepLoop captures at intervals and removes what expired. It sleeps until a time
// comes that counts, or something changes.
func (k *keeper) keepLoop() {
	times := &keepTimes{seen: make(map[uint32]*lastSeen)}
	for k.loops.Context.Err() == nil {
		changed := k.log.Appended()
		due := k.keepRound(times)
		select {
		case <-k.loops.Context.Done():
			return
		case <-k.signal:
			continue
		case <-time.After(min(max(due.Sub(k.opt.Now()), times.tick), longestSleep)):
			continue
		case <-changed:
		}
		select {
		case <-k.loops.Context.Done():
		case <-k.signal:
		case <-time.After(times.tick):
		}
	}
}

const (
	// keepTick is how exactly the times of a policy are kept, and quietTick
	// the end of a quiet time.
	keepTick  = time.Second
	quietTick = 50 * time.Millisecond
	// longestSleep is how late something may be whose time came while the machine
	// slept, or whose clock was set.
	longestSleep = time.Minute
)

// keepTimes is what keepLoop knows.
type keepTimes struct {
	seen   map[uint32]*lastSeen // by view
	culled time.Time
	tick   time.Duration // between two rounds while something changes
}

// lastSeen is what keepLoop knows of a workspace.
type lastSeen struct {
	captured time.Time // automatically
	changes  uint64    // live.Tx.Changed
	changed  time.Time // when that was seen to grow
}

// keepRound does what is due, and returns when something will be if nothing changes.
func (k *keeper) keepRound(times *keepTimes) time.Time {
	var captured []Event
	k.alter(func(*live.Tx) { captured, k.captured = k.captured, nil })
	for _, e := range captured {
		k.event(e)
	}
	now := k.opt.Now()
	due := now.Add(longestSleep)
	cull := now.Sub(times.culled) >= keepTick
	if cull {
		times.culled = now
	} else {
		due = times.culled.Add(keepTick)
	}
	times.tick = keepTick
	for _, w := range k.Workspaces() {
		p := times.seen[w.view]
		if p == nil {
			p = &lastSeen{captured: now}
			times.seen[w.view] = p
		}
		at, quiet := k.captureDue(w, p, now)
		if quiet {
			times.tick = quietTick
		}
		if !at.After(now) {
			if _, err := w.Capture(CaptureOptions{Kind: KindAuto}); err != nil {
				k.logger.Warn("automatic capture", "workspace", w.Name(), "err", err)
			}
			p.captured = now
			at = now.Add(keepTick)
		}
		due = earlier(due, at)
		if !cull {
			continue
		}
		if err := k.cull(w, now); err != nil {
			k.logger.Warn("removing old snapshots", "workspace", w.Name(), "err", err)
		}
		if err := w.Forks().expire(now); err != nil {
			k.logger.Warn("forks whose time is over", "workspace", w.Name(), "err", err)
		}
		due = earlier(due, w.Snapshots().cullDue(now))
	}
	return due
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// captureDue returns when the present state is to be captured automatically: far in the
// future if nothing changed. quiet tells that the policy asks for captures after a
// quiet time: after it the state is captured, so that the next change is preceded by
// it.
func (k *keeper) captureDue(w *Workspace, last *lastSeen, now time.Time) (due time.Time, quiet bool) {
	due = now.Add(longestSleep)
	k.look(func(tx *live.Tx) {
		n := tx.Changed(w.view)
		if n != last.changes {
			last.changes, last.changed = n, now
		}
		p := w.policy
		quiet = p.QuietSeconds > 0
		if n == w.at {
			return
		}
		if p.IntervalSeconds > 0 {
			due = earlier(due, last.captured.Add(time.Duration(p.IntervalSeconds)*time.Second))
		}
		if quiet {
			due = earlier(due, last.changed.Add(time.Duration(p.QuietSeconds)*time.Second))
		}
	})
	return due, quiet
}

// cullBatch is how many snapshots are removed in one step. Other operations go between the
// steps.
const cullBatch = 1000

// cull removes the snapshots that expired or that no rule keeps.
func (k *keeper) cull(w *Workspace, now time.Time) error {
	rules, views := w.Snapshots().culled(now)
	for views := range slices.Chunk(views, cullBatch) {
		names, err := k.cullSome(w, now, rules, views)
		if err != nil {
			return err
		}
		for _, name := range names {
			k.event(Event{Workspace: w.view, Action: "expired", From: name})
		}
	}
	return nil
}

// cullSome removes those of some snapshots for which what culled found still holds.
func (k *keeper) cullSome(w *Workspace, now time.Time, rules policy.Policy, views []uint32) (names []string, err error) {
	err = k.forest.Update(true, func(tx *live.Tx) error {
		if !reflect.DeepEqual(rules, w.policy) {
			return nil // the next round asks the new policy
		}
		var r deleteRecord
		for _, view := range views {
			sn, ok := k.cat.snaps[view]
			if !ok || sn.Pinned || view == w.undo || sn == w.snaps.Newest() && !sn.Expired(now) {
				continue
			}
			r.Views = append(r.Views, view)
			names = append(names, sn.Name)
		}
		if len(r.Views) == 0 {
			return nil
		}
		return k.commit(tx, recDelete, &r)
	})
	return names, err
}

// culled returns the views, oldest first, of the snapshots that expired, or that the rule of
// their kind does not keep. cullSome asks again with the lock held.
func (ss Snapshots) culled(now time.Time) (rules policy.Policy, views []uint32) {
	var undo uint32
	ss.w.read(func() { rules, undo = ss.w.policy, ss.w.undo })
	selections := make(map[string]*policy.Selection)
	for kind, rule := range rules.Keep.Rules() {
		selections[kind] = rule.Select(now)
	}
	minAge := time.Duration(rules.MinAgeSeconds) * time.Second
	newest := true
	for i := range ss.Newest() {
		sel := selections[i.Kind]
		kept := sel == nil || sel.Keeps(i.Created) || newest
		newest = false
		if !i.Pinned && i.View != undo && (i.Expired(now) || !kept && now.Sub(i.Created) >= minAge) {
			views = append(views, i.View)
		}
	}
	slices.Reverse(views)
	return rules, views
}

// cullDue returns when the next snapshot or fork may have to go: far in the future if
// none has a time.
func (ss Snapshots) cullDue(now time.Time) time.Time {
	due := now.Add(longestSleep)
	next := func(at time.Time) {
		if at.After(now) {
			due = earlier(due, at)
		}
	}
	var rules map[string]*policy.Rule
	var minAge time.Duration
	ss.w.read(func() {
		rules = ss.w.policy.Keep.Rules()
		minAge = time.Duration(ss.w.policy.MinAgeSeconds) * time.Second
		for _, f := range ss.w.forks {
			if f.expires != nil {
				next(*f.expires)
			}
		}
	})
	for i := range ss.Newest() {
		if i.Expires != nil {
			next(*i.Expires)
		}
		next(i.Created.Add(minAge))
		if rule, ok := rules[i.Kind]; ok {
			next(i.Created.Add(time.Duration(rule.Within)))
		}
	}
	return due
}
