package engine

import (
	"time"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/loops"
)

const (
	// While writers rest, a checkpoint is due after this many bytes of journal, or this long
	// after the last one if anything changed. What writers remove before is never sealed.
	checkpointBytes = 256 << 20
	checkpointTime  = 30 * time.Second
	// Writers rest when they have written less than restfulBytes a second for calmTime.
	restfulBytes = 4 << 20
	calmTime     = 3 * time.Second
	// While writers are active, a checkpoint is due after this many bytes of journal, which take
	// space, or records, which take time to replay. Each step of a restore, a merge or an import
	// counts as a record.
	checkpointMost    = JournalMost
	checkpointRecords = 150_000
)

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

// AwaitChange returns after a second, or at once when a checkpoint is asked for. If nothing changed
// since the last one, it waits for a change first. If nothing changed since the journal was seen to end
// at seen, it waits for a change, too, but no longer than until a checkpoint is due.
func (p *Checkpointer) AwaitChange(seen int64, due time.Time) {
	appended := p.Log.Appended()
	var rest time.Duration
	switch p.Log.End() {
	case p.At.Load():
		p.ShrinkJournal() // the mark that it appends is not a change
		rest = loops.Forever
	case seen:
		rest = max(time.Until(due), time.Second)
	}
	if rest == 0 || p.awaitRecord(appended, rest) {
		p.Loops.Await(p.signal, nil, time.Second)
	}
}

// awaitRecord waits until something is journaled, which it reports, a checkpoint is asked for, or the
// time is over.
func (p *Checkpointer) awaitRecord(appended <-chan struct{}, rest time.Duration) bool {
	return p.Loops.Await(p.signal, appended, rest)
}

// Due reports whether a checkpoint is due. since is the time since the last one.
func (p *Checkpointer) Due(calm bool, since time.Duration) bool {
	if calm {
		grown := p.Grown()
		return grown >= checkpointBytes || grown > 0 && since >= checkpointTime
	}
	return p.Outgrown() || p.ToRedo() >= checkpointRecords || p.Memory.ManyToRedo()
}

// Grown is how many bytes were journaled since the last checkpoint.
func (p *Checkpointer) Grown() int64 { return p.Log.End() - p.At.Load() }

// Outgrown reports whether that is so much that a checkpoint is due while writers are active.
func (p *Checkpointer) Outgrown() bool { return p.Grown() >= checkpointMost }

// Edited notes how many steps a restore, a merge or an import made.
func (p *Checkpointer) Edited(steps int) {
	if p.Changes.Add(int64(steps)) >= checkpointRecords {
		p.Ask()
	}
}

func (p *Checkpointer) Ask() { p.signal.Up() }

// Try makes a checkpoint at once, unless one or a gc is under way.
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

// ToRedo is how many records, and steps of edits, a recovery would replay.
func (p *Checkpointer) ToRedo() int64 {
	return int64(p.Log.Records()-p.Records.Load()) + p.Changes.Load()
}
