package live

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// SkippedRecords are the records that a salvage did not apply.
type SkippedRecords struct {
	Count       int64            // number of all skipped records
	CountByView map[uint32]int64 // number of skipped changes, by view
	Foreign     []ForeignRecord  // records of the caller's own types, at most maxForeignRecords
}

// A ForeignRecord is a record of a type that belongs to the caller of Replay.
type ForeignRecord struct {
	Type    journal.Type
	Payload []byte
}

const maxForeignRecords = 10_000

// A Recovery has the methods that restore the forest from the last checkpoint and the journal.
type Recovery struct {
	trees   *trees
	salvage bool
}

// SetSource makes the forest read from the source local, which does not wait for the network but fails with a
// cas.AbsentError. From then on the forest reads from disk only without the lock. SetSource is called before other
// goroutines use the forest.
func (r Recovery) SetSource(local *tree.Source) {
	r.trees.localSrc = local
	r.trees.residentSrc = local.Resident().CountingCopies(r.trees.copiedPageBytes)
}

// SetReadOnly makes all changes of a view fail with ErrReadOnlyAfterKills.
func (r Recovery) SetReadOnly(view uint32) {
	r.trees.mu.Lock()
	defer r.trees.mu.Unlock()
	r.trees.mu.views[view].readOnly = true
}

// Replay applies the records of the journal from a position on. If skipAll is set, it applies no records, but
// counts all as skipped. It passes records of the caller's own types to applyForeign, with the forest's lock held.
//
// A salvage skips all records after damage in the journal: they may depend on lost records, and a part of a file's
// history would lead to contents that the file never had.
func (r Recovery) Replay(from int64, skipAll bool, applyForeign func(tx *Tx, t journal.Type, payload []byte) error) (SkippedRecords, error) {
	r.trees.mu.Lock()
	defer r.trees.mu.Unlock()

	r.trees.mu.actor, r.trees.mu.replaying = actors.Unknown, true
	defer func() { r.trees.mu.replaying = false }()

	p := &replay{Recovery: r, applyForeign: applyForeign, from: from, skipAll: skipAll, skipped: SkippedRecords{CountByView: make(map[uint32]int64)}}
	err := r.trees.log.Replay(from, p.replayRecord)
	return p.skipped, err
}

// A replay is the state of one call of Replay.
type replay struct {
	Recovery
	applyForeign func(tx *Tx, t journal.Type, payload []byte) error
	from         int64
	skipAll      bool // all further records are skipped
	skipped      SkippedRecords
}

// replayRecord applies or skips the next record of the journal.
func (p *replay) replayRecord(t journal.Type, pos int64, payload []byte, payloadPos int64) error {
	switch {
	case t == recBlob:
		return nil
	case t == recActor:
		p.trees.mu.actor, p.trees.mu.journaledActor = string(payload), string(payload)
		return nil
	case t == recMount:
		p.trees.disinherit()
		return nil
	case p.skipAll || p.salvage && slices.ContainsFunc(p.trees.log.Damage(), func(d *journal.DamageError) bool { return !d.OnlyBytes && d.Pos >= p.from && d.Pos < pos }):
		p.skipAll = true
		p.skipped.add(t, payload)
		return nil
	}

	if err := p.apply(t, payload, payloadPos); err != nil {
		return p.handleFailedRecord(pos, t, payload, err)
	}

	return p.sealIfNearlyFull()
}

// sealIfNearlyFull seals the replayed changes if they take too much memory, see Memory.SealIfNearlyFull.
func (p *replay) sealIfNearlyFull() error {
	p.trees.mu.Unlock()
	defer p.trees.mu.Lock()
	return p.trees.memory.SealIfNearlyFull()
}

// apply applies a record. It ignores a record of a view that does not exist, because the view was dropped.
func (p *replay) apply(t journal.Type, payload []byte, payloadPos int64) error {
	if t >= FirstForeign {
		return p.applyForeign(newTx(p.trees), t, bytes.Clone(payload))
	}
	r, data, err := decodeRecord(t, payload)
	if err != nil {
		return err
	}
	if r.kind == recWrite {
		r.dataPos, r.payloadPos = payloadPos+int64(data), payloadPos
	}
	if r.request != 0 {
		p.trees.requests.addInherited(r.request, requestResult{node: r.answer()})
	}

	v, ok := p.trees.mu.views[r.view]
	if !ok {
		return nil
	}

	v.chargeReplayed(r)

	return v.apply(r)
}

// handleFailedRecord is called for a record that could not be applied. In a salvage it skips this record and all
// records after it. Otherwise it returns the error.
func (p *replay) handleFailedRecord(pos int64, t journal.Type, payload []byte, err error) error {
	if !p.salvage {
		return fmt.Errorf("record at %d of the journal: %w", pos, err)
	}
	p.trees.logger.Warn("left out a record of the journal and those behind it", "position", pos, "error", err)
	p.skipAll = true
	p.skipped.add(t, payload)

	return nil
}

// add adds a skipped record.
func (l *SkippedRecords) add(t journal.Type, payload []byte) {
	l.Count++
	if t >= FirstForeign {
		if len(l.Foreign) < maxForeignRecords {
			l.Foreign = append(l.Foreign, ForeignRecord{t, bytes.Clone(payload)})
		}
		return
	}

	if r, _, err := decodeRecord(t, payload); err == nil {
		l.CountByView[r.view]++
	}
}
