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
	// minRoundInterval is the shortest time between two rounds. If a policy has QuietSeconds, it is
	// minQuietRoundInterval.
	minRoundInterval      = time.Second
	minQuietRoundInterval = 50 * time.Millisecond
	// maxRoundInterval is the longest time between two rounds. It is short because a timer does not notice that the
	// machine was suspended or that the clock was set.
	maxRoundInterval = time.Minute
	// neverDelay is longer than any store stays open. A time that is neverDelay after the present time means
	// "never".
	neverDelay = 365 * 24 * time.Hour
	// If the wall clock and the monotonic clock diverge by more than maxClockJump, no snapshot is removed for
	// jumpPause. If the newest snapshot is more than jumpPause from the present time when a store is opened, no
	// snapshot is removed for openingPause. In both cases the clock may be wrong.
	maxClockJump = 10 * time.Minute
	jumpPause    = 24 * time.Hour
	openingPause = time.Hour
	// removalBatchSize is the number of snapshots that are removed at a time. Other operations can run between
	// two batches.
	removalBatchSize = 1000
)

// A Workspace describes a workspace for a round of the Enforcer.
type Workspace struct {
	View              uint32
	Name              string
	Policy            Policy
	UndoView          uint32              // view of the snapshot of the last restore, see catalogue.WorkspaceRecord.UndoView
	ChangeNumber      uint64              // result of live.Tx.ChangeNumber
	RecordChangeCount uint64              // grows when Policy, UndoView, the snapshots or the forks change
	HasChanges        bool                // the workspace has changes since the last snapshot
	NewestFirst       iter.Seq[info.Info] // the snapshots, newest first
	Capture           func() error        // takes an automatic snapshot
	// Remove removes the snapshots with the given views, except snapshots that must stay now, such as pinned ones.
	Remove func(rules Policy, snapshots []uint32, now time.Time) error
	// EndForks ends the forks that have expired. It returns the earlier of next and the time at which
	// the next fork expires.
	EndForks func(now, next time.Time) (time.Time, error)
}

// An Enforcer takes and removes snapshots by the policies. The caller sets the exported fields.
type Enforcer struct {
	Workspaces func(views []uint32) iter.Seq[Workspace] // existing workspaces with the views; nil: all workspaces
	// ChangedViews returns the views of workspaces that have ended, or whose ChangeNumber or RecordChangeCount may
	// have grown, since the last call.
	ChangedViews func() []uint32
	Now          func() time.Time
	Elapsed      func() time.Duration // a monotonic clock
	// PauseRemovals stores the end of a pause in which no snapshots are removed, after the clock
	// jumped. PausedUntil returns the stored time, also in the next process.
	PauseRemovals func(until time.Time)
	PausedUntil   func() time.Time
	NextRecord    func() <-chan struct{} // returns a channel that is closed by the next journal record
	Signal        loops.Signal           // wakes Loop, which then makes a round
	Loops         *loops.Group
	Logger        *slog.Logger

	seenWorkspaces map[uint32]seenWorkspace // by view
	due            dueTimes                 // for the workspaces in seenWorkspaces
	quietCount     int                      // number of workspaces in seenWorkspaces with QuietSeconds
	lastCull       time.Time                // time of the last round in which snapshots may have been removed
	minInterval    time.Duration            // shortest time between two rounds

	// lastRound and lastRoundElapsed are the time of the last round by Now and by Elapsed. pausedUntilElapsed is a
	// time of Elapsed, too.
	lastRound          time.Time
	lastRoundElapsed   time.Duration
	pausedUntilElapsed time.Duration
}

// seenWorkspace is the state of a workspace after the last round with it.
type seenWorkspace struct {
	lastCapture       time.Time // time of the last automatic snapshot
	changeNumber      uint64    // Workspace.ChangeNumber
	lastChange        time.Time // time of the last round in which changeNumber had grown
	recordChangeCount uint64    // Workspace.RecordChangeCount at the last cull
	lastCull          time.Time // time of the last cull
	nextCull          time.Time // time of the next cull, unless recordChangeCount grows before that time
	nextRound         time.Time // time of the next round with this workspace, unless the workspace changes before
	hasQuietSeconds   bool      // the policy of the workspace has QuietSeconds
}

// dueTimes is a heap of workspaces by due time, with the earliest at the top. It may have several entries for a
// workspace. Only the entry that equals seenWorkspace.nextRound is valid.
type dueTimes []dueTime

type dueTime struct {
	due  time.Time
	view uint32
}

func (d dueTimes) Len() int           { return len(d) }
func (d dueTimes) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dueTimes) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueTimes) Push(x any)        { *d = append(*d, x.(dueTime)) }

func (d *dueTimes) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// Loop makes a round when a workspace is due or has changed.
func (k *Enforcer) Loop() {
	for k.Loops.Context.Err() == nil {
		changed := k.NextRecord()
		due := k.Round()
		if k.Loops.Await(k.Signal, changed, min(max(due.Sub(k.Now()), k.minInterval), maxRoundInterval)) {
			k.Loops.Await(k.Signal, nil, k.minInterval)
		}
	}
}

// Round takes and removes the due snapshots of workspaces that changed or whose due time is over. It returns the
// time of the next round if no workspace changes before.
func (k *Enforcer) Round() time.Time {
	now := k.Now()
	views := k.viewsToCheck(now)
	due := now.Add(maxRoundInterval)
	cull := now.Sub(k.lastCull).Abs() >= minRoundInterval
	if cull {
		k.lastCull = now
	} else {
		due = k.lastCull.Add(minRoundInterval)
	}

	paused := k.updateRemovalPause(now)
	cull = !paused && cull
	retryAt := k.lastCull.Add(minRoundInterval) // the next cull of a workspace that this round does not cull
	if paused {
		retryAt = now.Add(maxRoundInterval)
	}

	previous := k.takeSeen(views)

	for w := range k.Workspaces(views) {
		ws, known := previous[w.View]
		if !known {
			ws.lastCapture = now
		}

		ws.nextRound = w.nextCaptureTime(&ws, now)
		if !ws.nextRound.After(now) {
			if err := w.Capture(); err != nil {
				k.Logger.Warn("automatic capture", "workspace", w.Name, "err", err)
			}

			ws.lastCapture = now
			ws.nextRound = now.Add(minRoundInterval)
		}

		if ws.hasQuietSeconds = w.Policy.QuietSeconds > 0; ws.hasQuietSeconds {
			k.quietCount++
		}

		if w.RecordChangeCount != ws.recordChangeCount || !now.Before(ws.nextCull) || now.Before(ws.lastCull) {
			if cull {
				ws.recordChangeCount, ws.lastCull, ws.nextCull = w.RecordChangeCount, now, k.cull(w, now)
			}
			if !cull || !ws.nextCull.After(now) {
				ws.nextCull = retryAt
			}
		}

		ws.nextRound = earlier(ws.nextRound, ws.nextCull)
		k.seenWorkspaces[w.View] = ws
		heap.Push(&k.due, dueTime{ws.nextRound, w.View})
	}

	if k.minInterval = minRoundInterval; k.quietCount > 0 {
		k.minInterval = minQuietRoundInterval
	}
	if first, ok := k.firstDue(); ok {
		due = earlier(due, first.due)
	}

	return due
}

// viewsToCheck returns the views of workspaces that changed or are due, nil for all workspaces.
func (k *Enforcer) viewsToCheck(now time.Time) []uint32 {
	views := []uint32{}
	if k.ChangedViews != nil {
		views = append(views, k.ChangedViews()...)
	}
	if k.ChangedViews == nil || k.seenWorkspaces == nil || now.Before(k.lastRound) { // check all workspaces, also if the clock was set back
		return nil
	}

	for first, ok := k.firstDue(); ok && !first.due.After(now); first, ok = k.firstDue() {
		views = append(views, first.view)
		heap.Pop(&k.due)
	}

	slices.Sort(views)

	return slices.Compact(views)
}

// firstDue returns the earliest valid entry of due, and removes invalid entries before it.
func (k *Enforcer) firstDue() (d dueTime, ok bool) {
	for ; len(k.due) > 0; heap.Pop(&k.due) {
		if d = k.due[0]; k.seenWorkspaces[d.view].nextRound.Equal(d.due) {
			return d, true
		}
	}
	return d, false
}

// takeSeen removes the workspaces with the given views from k.seenWorkspaces, or all workspaces if views is nil. It
// returns the removed entries.
func (k *Enforcer) takeSeen(views []uint32) map[uint32]seenWorkspace {
	previous := k.seenWorkspaces
	if views == nil {
		k.seenWorkspaces, k.due, k.quietCount = make(map[uint32]seenWorkspace), nil, 0
		return previous
	}

	previous = make(map[uint32]seenWorkspace, len(views))

	for _, view := range views {
		if last, ok := k.seenWorkspaces[view]; ok {
			previous[view] = last
			delete(k.seenWorkspaces, view)
			if last.hasQuietSeconds {
				k.quietCount--
			}
		}
	}

	return previous
}

// updateRemovalPause looks for a jump of the clock since the last round. It reports whether removals are paused,
// because the clock may be wrong.
func (k *Enforcer) updateRemovalPause(now time.Time) bool {
	elapsed := k.Elapsed()

	if k.lastRound.IsZero() {
		if newest := k.newestSnapshotTime(); !newest.IsZero() && now.Sub(newest).Abs() > jumpPause {
			k.pausedUntilElapsed = elapsed + openingPause
		}
		if left := k.PausedUntil().Sub(now); left <= jumpPause {
			k.pausedUntilElapsed = max(k.pausedUntilElapsed, elapsed+left)
		}
	} else if jump := now.Sub(k.lastRound) - (elapsed - k.lastRoundElapsed); jump.Abs() > maxClockJump {
		k.pausedUntilElapsed = elapsed + jumpPause
		k.PauseRemovals(now.Add(jumpPause))
		k.Logger.Warn("the clock has jumped; no snapshot or fork is removed for a day", "by", jump.Round(time.Second))
	}

	k.lastRound, k.lastRoundElapsed = now, elapsed
	return elapsed < k.pausedUntilElapsed
}

// newestSnapshotTime returns the time of the newest snapshot of all workspaces.
func (k *Enforcer) newestSnapshotTime() (at time.Time) {
	for w := range k.Workspaces(nil) {
		for i := range w.NewestFirst {
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

// nextCaptureTime updates seen, and returns the time of the next automatic snapshot. If the workspace has no
// changes, it returns the time neverDelay after now. With QuietSeconds, the snapshot is due at the latest when
// QuietSeconds have passed since the last change.
func (w *Workspace) nextCaptureTime(seen *seenWorkspace, now time.Time) time.Time {
	due := now.Add(neverDelay)
	if w.ChangeNumber != seen.changeNumber {
		seen.changeNumber, seen.lastChange = w.ChangeNumber, now
	}
	if !w.HasChanges {
		return due
	}
	if n := w.Policy.IntervalSeconds; n > 0 {
		due = earlier(due, seen.lastCapture.Add(time.Duration(n)*time.Second))
	}
	if n := w.Policy.QuietSeconds; n > 0 {
		due = earlier(due, seen.lastChange.Add(time.Duration(n)*time.Second))
	}

	return due
}

// cull removes the snapshots of a workspace that no rule keeps, and ends its expired forks. It returns the time of
// the next cull.
func (k *Enforcer) cull(w Workspace, now time.Time) time.Time {
	remove, due := w.snapshotsToRemove(now)
	for views := range slices.Chunk(remove, removalBatchSize) {
		if err := w.Remove(w.Policy, views, now); err != nil {
			k.Logger.Warn("removing old snapshots", "workspace", w.Name, "err", err)
			due = earlier(due, now.Add(maxRoundInterval))
			break
		}
	}

	due, err := w.EndForks(now, due)
	if err != nil {
		k.Logger.Warn("forks whose time is over", "workspace", w.Name, "err", err)
		due = earlier(due, now.Add(maxRoundInterval))
	}

	return due
}

// snapshotsToRemove returns the views of the snapshots that have expired, or that the rule of their kind does not
// keep, oldest first. due is the time at which the result may change. If it never does, due is the time neverDelay
// after now.
func (w *Workspace) snapshotsToRemove(now time.Time) (remove []uint32, due time.Time) {
	due = now.Add(neverDelay)
	rules := w.Policy.Keep.Rules()
	selections := make(map[string]*Selection)
	for kind, rule := range rules {
		selections[kind] = rule.Select(now)
	}

	minAge := time.Duration(w.Policy.MinAgeSeconds) * time.Second
	addDue := func(at time.Time) {
		if at.After(now) {
			due = earlier(due, at)
		}
	}

	newest := true

	for i := range w.NewestFirst {
		sel := selections[i.Kind]
		kept := sel == nil || sel.KeepsNext(i.Created) || newest
		newest = false
		addDue(i.Created)
		addDue(i.Created.Add(minAge))
		if rule, ok := rules[i.Kind]; ok {
			addDue(i.Created.Add(time.Duration(rule.Within)))
		}
		if i.Expires != nil && !i.Expires.Before(now) { // the snapshot has not expired yet
			due = earlier(due, *i.Expires)
		}
		if !i.Pinned && i.View != w.UndoView && (i.IsExpired(now) || !kept && now.Sub(i.Created) >= minAge) {
			remove = append(remove, i.View)
		}
	}

	slices.Reverse(remove)

	return remove, due
}
