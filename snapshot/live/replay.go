package live

import (
	"bytes"
	"fmt"

	"github.com/amberfs/amberfs/snapshot/journal"
)

// A Loss tells of the changes that a salvage had to leave out.
type Loss struct {
	Changes int64
	Views   map[uint32]int64 // changes by view
	Foreign []ForeignRecord
	Touched map[Touched]struct{} // 10,000 at most
}

// Touched is an inode that a change was about, or, with a name, an entry of that
// directory.
type Touched struct {
	View uint32
	Ino  uint64
	Name string
}

const maxTouched = 10_000

// A ForeignRecord is one of the caller's own types.
type ForeignRecord struct {
	Type    journal.Type
	Payload []byte
}

// Replay applies the journal from a position on, or, with none, only counts
// what it holds. Records of the caller's own types are handed to foreign, with
// the lock held.
//
// In a salvage, what follows damage in the journal is left out: it may build on
// what is lost, and half of a file's history makes contents that never were.
func (f *Forest) Replay(from int64, none bool, foreign func(tx *Tx, t journal.Type, payload []byte) error) (Loss, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &replay{f: f, foreign: foreign, from: from, over: none, lost: Loss{Views: make(map[uint32]int64), Touched: make(map[Touched]struct{})}}
	err := f.log.Replay(from, p.next)
	if err == nil {
		err = p.carryOut()
	}
	for _, d := range f.log.Damage() {
		if d.Payload != nil && d.Pos >= from {
			p.lost.note(d.Type, d.Payload)
		}
	}
	return p.lost, err
}

// A replay is one under way. It holds a record back until the next has come,
// for that may say that it was not carried out.
type replay struct {
	f       *Forest
	foreign func(tx *Tx, t journal.Type, payload []byte) error
	from    int64
	over    bool // nothing more is applied
	lost    Loss

	held    bool
	pos     int64        // of the record held
	typ     journal.Type // and so on
	record  *record
	payload []byte // of a foreign record
}

func (p *replay) next(t journal.Type, pos int64, payload []byte, payloadPos int64) error {
	switch t {
	case recBlob:
		return nil
	case recVoid:
		p.held = false
		return nil
	}
	if err := p.carryOut(); err != nil {
		return err
	}
	if p.over || p.f.salvage && p.f.damagedBetween(p.from, pos) {
		p.over = true
		p.lost.note(t, payload)
		return nil
	}
	p.held, p.pos, p.typ = true, pos, t
	if t >= FirstForeign {
		p.payload = append(p.payload[:0], payload...)
		return nil
	}
	r, data, err := decodeRecord(t, payload, p.f.mu.epoch)
	if err != nil {
		p.held, p.record = false, nil
		return p.failed(pos, t, payload, err)
	}
	if r.kind == recWrite {
		r.pos = payloadPos + int64(data)
	}
	p.record = r
	return nil
}

// carryOut applies the record held. Records of views that are gone, and of
// inodes that were orphans, are passed over: nothing of them is left.
func (p *replay) carryOut() error {
	if !p.held {
		return nil
	}
	p.held = false
	var err error
	if p.typ >= FirstForeign {
		err = p.foreign(&Tx{f: p.f}, p.typ, bytes.Clone(p.payload))
	} else if v, ok := p.f.mu.views[p.record.view]; ok {
		err = p.f.apply(v, p.record)
	}
	if err != nil {
		return p.failed(p.pos, p.typ, p.payload, err)
	}
	return nil
}

func (p *replay) failed(pos int64, t journal.Type, payload []byte, err error) error {
	if !p.f.salvage {
		return fmt.Errorf("record at %d of the journal: %w", pos, err)
	}
	p.f.logger.Warn("left out a record of the journal and those behind it", "position", pos, "error", err)
	p.over = true
	if t >= FirstForeign {
		p.lost.note(t, payload)
	} else {
		p.lost.Changes++
		if r := p.record; r != nil {
			p.lost.touch(r)
		}
	}
	return nil
}

func (f *Forest) damagedBetween(from, to int64) bool {
	for _, d := range f.log.Damage() {
		if d.Pos >= from && d.Pos < to {
			return true
		}
	}
	return false
}

func (l *Loss) note(t journal.Type, payload []byte) {
	l.Changes++
	if t >= FirstForeign {
		l.Foreign = append(l.Foreign, ForeignRecord{t, bytes.Clone(payload)})
	} else if r, _, err := decodeRecord(t, payload, 0); err == nil {
		l.Views[r.view]++
		l.touch(r)
	}
}

func (l *Loss) touch(r *record) {
	if len(l.Touched) >= maxTouched {
		return
	}
	if r.name != "" && r.parent != 0 {
		l.Touched[Touched{r.view, r.parent, r.name}] = struct{}{}
	}
	if r.name2 != "" && r.parent2 != 0 {
		l.Touched[Touched{r.view, r.parent2, r.name2}] = struct{}{}
	}
	if r.ino != 0 {
		l.Touched[Touched{r.view, r.ino, ""}] = struct{}{}
	}
}
