package snapshot

import (
	"time"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/snapshot/engine"
)

const (
	// So much journal, or any change for so long, makes a checkpoint due as soon as
	// the writers rest: what they remove again until then is never sealed.
	checkpointBytes = 256 << 20
	checkpointTime  = 30 * time.Second
	// They rest when they have written less than restfulBytes a second for calmTime.
	restfulBytes = 4 << 20
	calmTime     = 3 * time.Second
	// So much journal, or so many records of it, are sealed while they go on: the
	// one takes space, the other time to replay. Each step of a restore, a merge or an
	// import counts as a record.
	checkpointMost    = engine.JournalMost
	checkpointRecords = 150_000
)

func (p *checkpointer) checkpointLoop() {
	last, busy, seen := time.Now(), time.Now(), p.log.End()
	for {
		p.awaitChange()
		if p.loops.Context.Err() != nil {
			return
		}
		end := p.log.End()
		if end-seen >= restfulBytes {
			busy = time.Now()
		}
		seen = end
		crowded := p.room.JournalTooLarge()
		if !crowded && !p.checkpointDue(time.Since(busy) >= calmTime, time.Since(last)) {
			continue
		}
		if err := p.Checkpoint(p.loops.Context); err != nil && p.loops.Context.Err() == nil {
			p.logger.Warn("checkpoint", "err", err, guard.Stack(err))
			p.loops.Pause(5 * time.Second)
		} else if crowded {
			p.ShrinkJournal()
		}
		last = time.Now()
	}
}

// awaitChange returns after a second, or at once when a checkpoint is asked for. If there is
// nothing that a checkpoint would have to write down, it waits until there is.
func (p *checkpointer) awaitChange() {
	appended := p.log.Appended()
	if p.log.End() == p.at.Load() {
		p.ShrinkJournal() // its mark is nothing to write down
		if !p.awaitRecord(appended) {
			return
		}
	}
	p.loops.Await(p.signal, nil, time.Second)
}

// awaitRecord waits until something is journaled, which it reports, or a checkpoint is asked for.
func (p *checkpointer) awaitRecord(appended <-chan struct{}) bool {
	return p.loops.Await(p.signal, appended, loops.Forever)
}

// checkpointDue reports whether it is time for a checkpoint, so long after the last.
func (p *checkpointer) checkpointDue(calm bool, since time.Duration) bool {
	if calm {
		grown := p.Grown()
		return grown >= checkpointBytes || grown > 0 && since >= checkpointTime
	}
	return p.Outgrown() || p.toRedo() >= checkpointRecords
}

// Grown is how many bytes were journaled since the last checkpoint.
func (p *checkpointer) Grown() int64 { return p.log.End() - p.at.Load() }

// Outgrown reports whether that is so much that it takes a checkpoint also beside writers.
func (p *checkpointer) Outgrown() bool { return p.Grown() >= checkpointMost }

func (p *checkpointer) Ask() { p.signal.Up() }

// Try makes a checkpoint at once, unless one or a gc is under way.
func (p *checkpointer) Try() (tried bool) {
	if !p.mu.TryAcquire(1) {
		return false
	}
	defer p.mu.Release(1)
	defer p.seal.Pacer.Urgent()()
	if err := p.checkpoint(p.loops.Context); err != nil {
		p.logger.Warn("the disk is nearly full, and the journal cannot be sealed", "err", err)
	}
	return true
}

// toRedo is how many records a recovery would replay, and what takes as long.
func (p *checkpointer) toRedo() int64 {
	return int64(p.log.Records()-p.records.Load()) + p.changes.Load()
}
