package live

import (
	"fmt"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/journal"
)

// A Loss tells of the changes that a salvage had to leave out.
type Loss struct {
	Changes int64
	Views   map[uint32]int64 // changes by view
}

// Replay applies the journal from a position on, or, with none, only counts
// what it holds. Records of the caller's own
// types are handed to foreign, with the lock held.
//
// In a salvage, what follows damage in the journal is left out: it may build on
// what is lost, and half of a file's history makes contents that never were.
func (f *Forest) Replay(from int64, none bool, foreign func(tx *Tx, t journal.Type, payload []byte) error) (Loss, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tx := &Tx{f}
	lost := Loss{Views: make(map[uint32]int64)}
	over := none
	err := f.log.Replay(from, func(t journal.Type, recPos int64, payload []byte, pos int64) error {
		if over || f.salvage && (f.damagedBetween(from, recPos)) {
			over = true
			lost.note(t, payload)
			return nil
		}
		var err error
		if t >= FirstForeign {
			err = foreign(tx, t, payload)
		} else {
			err = f.replay(t, payload, pos)
		}
		if err != nil && f.salvage {
			f.logger.Warn("left out a record of the journal and those behind it", "position", recPos, "error", err)
			over = true
			lost.note(t, payload)
			return nil
		}
		if err != nil {
			return fmt.Errorf("record at %d of the journal: %w", recPos, err)
		}
		return nil
	})
	return lost, err
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
	if t == recBlob {
		return
	}
	l.Changes++
	if t < FirstForeign {
		d := wire.NewDecoder(payload)
		if view := uint32(d.Uint(MaxView)); d.Err() == nil {
			l.Views[view]++
		}
	}
}
