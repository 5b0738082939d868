package live

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/journal"
)

// Skipped are the changes that a salvage had to leave out.
type Skipped struct {
	Changes int64
	Views   map[uint32]int64 // changes by view
	Foreign []Foreign        // records of the caller's own types; 10,000 at most
}

// A Foreign is a record of the caller's own types.
type Foreign struct {
	Type    journal.Type
	Payload []byte
}

const maxForeign = 10_000

// Replay applies the journal from a position on, or, with none, only counts
// what it holds. Records of the caller's own types are handed to foreign, with
// the lock held.
//
// In a salvage, what follows damage in the journal is left out: it may build on
// what is lost, and half of a file's history makes contents that never were.
func (f *Forest) Replay(from int64, none bool, foreign func(tx *Tx, t journal.Type, payload []byte) error) (Skipped, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.by, f.mu.replaying = actors.Unknown, true
	defer func() { f.mu.replaying = false }()
	p := &replay{f: f, foreign: foreign, from: from, over: none, skipped: Skipped{Views: make(map[uint32]int64)}}
	err := f.log.Replay(from, p.next)
	return p.skipped, err
}

// A replay is one under way.
type replay struct {
	f       *Forest
	foreign func(tx *Tx, t journal.Type, payload []byte) error
	from    int64
	over    bool // nothing more is applied
	skipped Skipped
}

func (p *replay) next(t journal.Type, pos int64, payload []byte, payloadPos int64) error {
	switch {
	case t == recBlob:
		return nil
	case t == recActor:
		p.f.mu.by, p.f.mu.journaled = string(payload), string(payload)
		return nil
	case t == recMount:
		p.f.disinherit()
		return nil
	case p.over || p.f.salvage && slices.ContainsFunc(p.f.log.Damage(), func(d *journal.DamageError) bool { return !d.Bytes && d.Pos >= p.from && d.Pos < pos }):
		p.over = true
		p.skipped.note(t, payload)
		return nil
	}
	if err := p.apply(t, payload, payloadPos); err != nil {
		return p.failed(pos, t, payload, err)
	}
	return p.relieve()
}

// relieve has what was replayed sealed if it takes too much memory.
func (p *replay) relieve() error {
	p.f.mu.Unlock()
	defer p.f.mu.Lock()
	return p.f.memory.Relieve()
}

// apply makes the change of a record. Records of dropped views are skipped.
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
		p.f.requests.inherit(r.request, carried{node: r.answer()})
	}
	if v, ok := p.f.mu.views[r.view]; ok {
		v.recharge(r)
		return v.apply(r)
	}
	return nil
}

func (p *replay) failed(pos int64, t journal.Type, payload []byte, err error) error {
	if !p.f.salvage {
		return fmt.Errorf("record at %d of the journal: %w", pos, err)
	}
	p.f.logger.Warn("left out a record of the journal and those behind it", "position", pos, "error", err)
	p.over = true
	p.skipped.note(t, payload)
	return nil
}

func (l *Skipped) note(t journal.Type, payload []byte) {
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
