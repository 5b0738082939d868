package live

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/journal"
)

// Skipped are the records that a salvage did not apply.
type Skipped struct {
	Changes int64            // the number of these records
	Views   map[uint32]int64 // the number of changes by view
	Foreign []Foreign        // records of the caller's own types, at most maxForeign
}

// A Foreign is a record of the caller's own types.
type Foreign struct {
	Type    journal.Type
	Payload []byte
}

const maxForeign = 10_000

// Replay applies the records of the journal from a position on. With none, it applies no record and only
// counts them as skipped. It passes records of the caller's own types to foreign, with the forest's
// lock held.
//
// A salvage skips all records after damage in the journal: they may depend on lost records, and a part
// of a file's history would lead to contents that the file never had.
func (f *Forest) Replay(from int64, none bool, foreign func(tx *Tx, t journal.Type, payload []byte) error) (Skipped, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.mu.by, f.mu.replaying = actors.Unknown, true
	defer func() { f.mu.replaying = false }()

	p := &replay{f: f, foreign: foreign, from: from, skipAll: none, skipped: Skipped{Views: make(map[uint32]int64)}}
	err := f.log.Replay(from, p.replayRecord)
	return p.skipped, err
}

// A replay is the state of one call of Replay.
type replay struct {
	f       *Forest
	foreign func(tx *Tx, t journal.Type, payload []byte) error
	from    int64
	skipAll bool // all further records are skipped
	skipped Skipped
}

// replayRecord applies or skips the next record of the journal.
func (p *replay) replayRecord(t journal.Type, pos int64, payload []byte, payloadPos int64) error {
	switch {
	case t == recBlob:
		return nil
	case t == recActor:
		p.f.mu.by, p.f.mu.journaled = string(payload), string(payload)
		return nil
	case t == recMount:
		p.f.disinherit()
		return nil
	case p.skipAll || p.f.salvage && slices.ContainsFunc(p.f.log.Damage(), func(d *journal.DamageError) bool { return !d.Bytes && d.Pos >= p.from && d.Pos < pos }):
		p.skipAll = true
		p.skipped.add(t, payload)
		return nil
	}

	if err := p.apply(t, payload, payloadPos); err != nil {
		return p.skipFailed(pos, t, payload, err)
	}

	return p.relieve()
}

// relieve seals the replayed changes if they take too much memory, see Memory.Relieve.
func (p *replay) relieve() error {
	p.f.mu.Unlock()
	defer p.f.mu.Lock()
	return p.f.memory.Relieve()
}

// apply applies a record. A record of a view that does not exist has no effect: the view was dropped.
func (p *replay) apply(t journal.Type, payload []byte, payloadPos int64) error {
	if t >= FirstForeign {
		return p.foreign(newTx(p.f), t, bytes.Clone(payload))
	}
	r, data, err := decodeRecord(t, payload)
	if err != nil {
		return err
	}
	if r.kind == recWrite {
		r.pos, r.payload = payloadPos+int64(data), payloadPos
	}
	if r.request != 0 {
		p.f.requests.inherit(r.request, requestResult{node: r.answer()})
	}

	v, ok := p.f.mu.views[r.view]
	if !ok {
		return nil
	}

	v.recharge(r)

	return v.apply(r)
}

// skipFailed skips a record that could not be applied, and all records after it, in a salvage. Else it
// returns the error.
func (p *replay) skipFailed(pos int64, t journal.Type, payload []byte, err error) error {
	if !p.f.salvage {
		return fmt.Errorf("record at %d of the journal: %w", pos, err)
	}
	p.f.logger.Warn("left out a record of the journal and those behind it", "position", pos, "error", err)
	p.skipAll = true
	p.skipped.add(t, payload)

	return nil
}

// add adds a record that is skipped.
func (l *Skipped) add(t journal.Type, payload []byte) {
	l.Changes++
	if t >= FirstForeign {
		if len(l.Foreign) < maxForeign {
			l.Foreign = append(l.Foreign, Foreign{t, bytes.Clone(payload)})
		}
		return
	}

	if r, _, err := decodeRecord(t, payload); err == nil {
		l.Views[r.view]++
	}
}
