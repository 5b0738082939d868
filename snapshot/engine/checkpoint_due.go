package engine

import (
	"time"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/loops"
)

const (
	// While writers are idle, a checkpoint is due after checkpointBytes of journal, or
	// checkpointTime after the last checkpoint if there are changes. Files that are removed before
	// the checkpoint are never sealed.
	checkpointBytes = 256 << 20
	checkpointTime  = 30 * time.Second
	// Writers are idle when they have written less than restfulBytes a second for calmTime.
	restfulBytes = 4 << 20
	calmTime     = 3 * time.Second
	// While writers are active, a checkpoint is due after checkpointMost bytes of journal, because
	// they take disk space, or checkpointRecords records, because they take time to replay. Each step
	// of a restore, a merge or an import counts as a record.
	checkpointMost    = JournalMost
	checkpointRecords = 150_000
)

// Loop makes the checkpoints that are due, until the store is closed.
func (p *Checkpointer) Loop() {
	last, busy, seen := time.Now(), time.Now(), p.Log.End()

	for {
		p.AwaitChange(seen, last.Add(checkpointTime))
		if p.Loops.Context.Err() != nil {
			return
		}

		end := p.Log.End()
		if end-seen >= restfulBytes {
			busy = time.Now()
		}

		seen = end

		tooLarge := p.Room.JournalTooLarge()
		if !tooLarge && !p.Due(time.Since(busy) >= calmTime, time.Since(last)) {
			continue
		}

		if err := p.Checkpoint(p.Loops.Context); err != nil && p.Loops.Context.Err() == nil {
			p.Logger.Warn("checkpoint", "err", err, guard.Stack(err))
			p.Loops.Pause(5 * time.Second)
		} else if tooLarge {
			p.ShrinkJournal()
		}

		last = time.Now()
	}
}

// AwaitChange waits for a second, or until a caller calls Ask. Before that second it waits for a
// record:
//
//   - without a limit, if the journal has no record since the last checkpoint;
//   - until the time due, if the journal has no record after the position seen.
func (p *Checkpointer) AwaitChange(seen int64, due time.Time) {
	appended := p.Log.Appended()
	var rest time.Duration
	switch p.Log.End() {
	case p.At.Load():
		p.ShrinkJournal() // may append a mark to the journal; a mark needs no checkpoint
		rest = loops.Forever
	case seen:
		rest = max(time.Until(due), time.Second)
	}

	if rest == 0 || p.awaitRecord(appended, rest) {
		p.Loops.Await(p.signal, nil, time.Second)
	}
}

// awaitRecord waits until a record is journaled, a caller asks for a checkpoint, or the time rest
// is over. It reports whether a record was journaled.
func (p *Checkpointer) awaitRecord(appended <-chan struct{}, rest time.Duration) bool {
	return p.Loops.Await(p.signal, appended, rest)
}

// Due reports whether a checkpoint is due. calm is true while writers are idle. since is the time
// that has passed after the last checkpoint.
func (p *Checkpointer) Due(calm bool, since time.Duration) bool {
	if calm {
		grown := p.Grown()
		return grown >= checkpointBytes || grown > 0 && since >= checkpointTime
	}
	return p.Outgrown() || p.ToRedo() >= checkpointRecords || p.Memory.ManyToRedo()
}

// Grown returns the number of bytes that were journaled since the last checkpoint.
func (p *Checkpointer) Grown() int64 { return p.Log.End() - p.At.Load() }

// Outgrown reports whether the journal has grown so much that a checkpoint is due while writers
// are active.
func (p *Checkpointer) Outgrown() bool { return p.Grown() >= checkpointMost }

// Edited adds the steps of a restore, a merge or an import to Changes.
func (p *Checkpointer) Edited(steps int) {
	if p.Changes.Add(int64(steps)) >= checkpointRecords {
		p.Ask()
	}
}

// Ask makes Loop check at once whether a checkpoint is due.
func (p *Checkpointer) Ask() { p.signal.Send() }

// Try makes a checkpoint at once. It returns false if a checkpoint or a gc is running.
func (p *Checkpointer) Try() (tried bool) {
	if !p.mu.TryAcquire(1) {
		return false
	}
	defer p.mu.Release(1)
	defer p.Sealer.Pacer.Urgent()()

	if err := p.checkpoint(p.Loops.Context); err != nil {
		p.Logger.Warn("the disk is nearly full, and the journal cannot be sealed", "err", err)
	}

	return true
}

// ToRedo returns the number of records and steps of edits that a recovery would replay.
func (p *Checkpointer) ToRedo() int64 {
	return int64(p.Log.Records()-p.Records.Load()) + p.Changes.Load()
}
