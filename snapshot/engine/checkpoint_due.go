package engine

import (
	"time"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/loops"
)

const (
	// While writers are idle, a checkpoint is due after idleCheckpointBytes of journal. If there are changes, it is
	// also due idleCheckpointInterval after the last checkpoint. Files that are removed before the checkpoint are
	// never sealed.
	idleCheckpointBytes    = 256 << 20
	idleCheckpointInterval = 30 * time.Second
	// Writers are idle when they have written less than idleBytesPerSecond for idleTime.
	idleBytesPerSecond = 4 << 20
	idleTime           = 3 * time.Second
	// While writers are active, a checkpoint is due after busyCheckpointBytes of journal, because they take disk
	// space, or after busyCheckpointRecords records, because they take time to replay. Each step of a restore, a
	// merge or an import counts as a record.
	busyCheckpointBytes   = JournalSealSize
	busyCheckpointRecords = 150_000
)

// Loop makes the checkpoints that are due, until the store is closed.
func (p *Checkpointer) Loop() {
	lastCheckpoint, busyAt, seenEnd := time.Now(), time.Now(), p.Log.End()

	for {
		p.AwaitChange(seenEnd, lastCheckpoint.Add(idleCheckpointInterval))
		if p.Loops.Context.Err() != nil {
			return
		}

		end := p.Log.End()
		if end-seenEnd >= idleBytesPerSecond {
			busyAt = time.Now()
		}

		seenEnd = end

		tooLarge := p.Room.JournalTooLarge()
		if !tooLarge && !p.IsDue(time.Since(busyAt) >= idleTime, time.Since(lastCheckpoint)) {
			continue
		}

		if err := p.Checkpoint(p.Loops.Context); err != nil && p.Loops.Context.Err() == nil {
			p.Logger.Warn("checkpoint", "err", err, guard.Stack(err))
			p.Loops.Pause(5 * time.Second)
		} else if tooLarge {
			p.ShrinkJournal()
		}

		lastCheckpoint = time.Now()
	}
}

// AwaitChange waits for a second, or until a caller calls CheckSoon. In two cases it first waits for a record:
//
//   - If the journal has no record since the last checkpoint, it waits for a record without a limit.
//   - If the journal has no record after the position seenEnd, it waits for a record until the time due.
func (p *Checkpointer) AwaitChange(seenEnd int64, due time.Time) {
	appended := p.Log.NextAppend()
	var wait time.Duration
	switch p.Log.End() {
	case p.LastPos.Load():
		p.ShrinkJournal() // may append a mark to the journal; a mark needs no checkpoint
		wait = loops.Forever
	case seenEnd:
		wait = max(time.Until(due), time.Second)
	}

	if wait == 0 || p.awaitRecord(appended, wait) {
		p.Loops.Await(p.signal, nil, time.Second)
	}
}

// awaitRecord waits until a record is journaled or a caller asks for a checkpoint, but at most for the duration
// wait. It reports whether a record was journaled.
func (p *Checkpointer) awaitRecord(appended <-chan struct{}, wait time.Duration) bool {
	return p.Loops.Await(p.signal, appended, wait)
}

// IsDue reports whether a checkpoint is due. idle is true while writers are idle. sinceLast is the time
// since the last checkpoint.
func (p *Checkpointer) IsDue(idle bool, sinceLast time.Duration) bool {
	if idle {
		grown := p.JournalGrowth()
		return grown >= idleCheckpointBytes || grown > 0 && sinceLast >= idleCheckpointInterval
	}
	return p.JournalOutgrown() || p.StepsToReplay() >= busyCheckpointRecords || p.Memory.ReplayNeedsMuchMemory()
}

// JournalGrowth returns the number of bytes that were journaled since the last checkpoint.
func (p *Checkpointer) JournalGrowth() int64 { return p.Log.End() - p.LastPos.Load() }

// JournalOutgrown reports whether the journal has grown so much that a checkpoint is due while writers
// are active.
func (p *Checkpointer) JournalOutgrown() bool { return p.JournalGrowth() >= busyCheckpointBytes }

// AddEditSteps adds the number of steps of a restore, a merge or an import to EditStepCount.
func (p *Checkpointer) AddEditSteps(steps int) {
	if p.EditStepCount.Add(int64(steps)) >= busyCheckpointRecords {
		p.CheckSoon()
	}
}

// CheckSoon makes Loop check at once whether a checkpoint is due.
func (p *Checkpointer) CheckSoon() { p.signal.Send() }

// TryCheckpoint makes a checkpoint at once, and logs its error. It returns false, without a checkpoint, if a
// checkpoint or a gc is running.
func (p *Checkpointer) TryCheckpoint() (tried bool) {
	if !p.mu.TryAcquire(1) {
		return false
	}
	defer p.mu.Release(1)
	defer p.Sealer.Pacer.BeginUrgent()()

	if err := p.checkpoint(p.Loops.Context); err != nil {
		p.Logger.Warn("the disk is nearly full, and the journal cannot be sealed", "err", err)
	}

	return true
}

// StepsToReplay returns the number of records and steps of edits that a recovery would replay.
func (p *Checkpointer) StepsToReplay() int64 {
	return int64(p.Log.RecordCount()-p.RecordsBeforeLastPos.Load()) + p.EditStepCount.Load()
}
