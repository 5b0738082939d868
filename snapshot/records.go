package snapshot

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
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

type forkRecord struct {
	WS   uint32         `json:"ws"`   // the parent
	View uint32         `json:"view"` // of the fork
	Name string         `json:"name"`
	Base storedSnapshot `json:"base"`
	// From is the view of the snapshot that it starts from; the present state
	// when Now is set.
	From uint32 `json:"from"`
	Now  bool   `json:"now"`
	// Claim is the label that it was claimed by.
	Claim   string     `json:"claim,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
}

// leaseRecord sets when a fork ends by itself.
type leaseRecord struct {
	View    uint32     `json:"view"`
	Expires *time.Time `json:"expires,omitempty"`
}

type endForkRecord struct {
	View uint32          `json:"view"`
	Last *storedSnapshot `json:"last"`
	// Full is the bookmark of a fork that was emptied before it was ended.
	Full *storedSnapshot `json:"full,omitempty"`
	// Inside are the forks in it, which end before it; each after those in it.
	Inside []uint32 `json:"inside,omitempty"`
}

type renameForkRecord struct {
	View uint32 `json:"view"`
	Name string `json:"name"`
}

type deleteRecord struct {
	Views []uint32 `json:"views"`
}

type renameRecord struct {
	View uint32 `json:"view"`
	Name string `json:"name"`
}

type policyRecord struct {
	WS     uint32        `json:"ws"`
	Policy policy.Policy `json:"policy"`
}

// journal appends a record. The lock of the forest is held.
func (s *core) journal(tx *live.Tx, t journal.Type, record any) error {
	b, err := json.Marshal(record)
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
func (c *catalogue) replay(tx *live.Tx, t journal.Type, payload []byte) error {
	var err error
	switch t {
	case recCapture:
		err = replayAs(payload, func(r storedSnapshot) error { _, err := c.applyCapture(tx, r); return err })
	case recEdit:
		err = replayAs(payload, func(r editRecord) error { return c.applyEdit(tx, r) })
	case recFork:
		err = replayAs(payload, func(r forkRecord) error { _, err := c.applyFork(tx, r); return err })
	case recEndFork:
		err = replayAs(payload, func(r endForkRecord) error { return c.applyEndFork(tx, r) })
	case recRenameFork:
		err = replayAs(payload, func(r renameForkRecord) error { c.applyRenameFork(r); return nil })
	case recDelete:
		err = replayAs(payload, func(r deleteRecord) error { c.applyDelete(r); return nil })
	case recRename:
		err = replayAs(payload, func(r renameRecord) error { c.applyRename(r); return nil })
	case recAmend:
		err = replayAs(payload, func(r storedSnapshot) error { c.applyAmend(r); return nil })
	case recPolicy:
		err = replayAs(payload, func(r policyRecord) error { c.applyPolicy(r); return nil })
	case recBegin:
		err = replayAs(payload, func(r storedSnapshot) error { return c.applyBegin(tx, r) })
	case recLease:
		err = replayAs(payload, func(r leaseRecord) error { c.applyLease(r); return nil })
	case recBookmark:
		err = replayAs(payload, func(r storedSnapshot) error { return c.applyBookmark(tx, r) })
	case recPull:
		err = replayAs(payload, func(r pullRecord) error { return c.applyPull(tx, r) })
	default:
		err = fmt.Errorf("record type %d is unknown to this version", t)
	}
	return err
}

func replayAs[R any](payload []byte, apply func(R) error) error {
	var r R
	if err := json.Unmarshal(payload, &r); err != nil {
		return err
	}
	return apply(r)
}
