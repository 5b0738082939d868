package snapshot

import (
	"encoding/json"
	"fmt"

	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
)

// The records of this package in the journal; their payload is JSON. See
// FORMAT.md.
const (
	recCapture journal.Type = live.FirstForeign + iota
	recEdit
	recFork
	recEndFork
	recRenameFork
	recDelete
	recRename
	recAmend
	recPolicy
	recBegin
	recBookmark
	recPull
	recLease
)

// A record changes the catalogue and the views, for a program and for recovery: apply does
// it with the lock of the forest held.
type record interface {
	apply(c *entries, tx *live.Tx) error
}

var newRecord = map[journal.Type]func() record{
	recCapture:    func() record { return &captureRecord{} },
	recEdit:       func() record { return &editRecord{} },
	recFork:       func() record { return &forkRecord{} },
	recEndFork:    func() record { return &endForkRecord{} },
	recRenameFork: func() record { return &renameForkRecord{} },
	recDelete:     func() record { return &deleteRecord{} },
	recRename:     func() record { return &renameRecord{} },
	recAmend:      func() record { return &amendRecord{} },
	recPolicy:     func() record { return &policyRecord{} },
	recBegin:      func() record { return &beginRecord{} },
	recBookmark:   func() record { return &bookmarkRecord{} },
	recPull:       func() record { return &pullRecord{} },
	recLease:      func() record { return &leaseRecord{} },
}

// commit journals a record and applies it. The lock of the forest is held.
func (s *core) commit(tx *live.Tx, t journal.Type, r record) error {
	if err := s.journal(tx, t, r); err != nil {
		return err
	}
	return r.apply(s.cat, tx)
}

func (s *core) journal(tx *live.Tx, t journal.Type, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := tx.Append(t, b); err != nil {
		return err
	}
	// What changes history is soon on the disk, though the caller does not wait.
	s.log.SyncSoon()
	return nil
}

// replay applies a record of the journal after a crash or a remount.
func (c *entries) replay(tx *live.Tx, t journal.Type, payload []byte) error {
	make, ok := newRecord[t]
	if !ok {
		return fmt.Errorf("record type %d is unknown to this version", t)
	}
	r := make()
	if err := json.Unmarshal(payload, r); err != nil {
		return err
	}
	return r.apply(c, tx)
}
