package live

import (
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/internal/changed"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Tx has the methods of the forest for callers that hold the forest's lock. Package snapshot uses a Tx to
// change the trees and the catalogue in one step, for captures, forks and restores.
type Tx struct {
	viewActors
	appended bool // Append was called
}

func newTx(t *trees) *Tx { return &Tx{viewActors: viewActors{t}} }

// Update calls fn with the forest's lock held for changes. Unless urgent is set, it waits while the
// forest is frozen.
//
// After fn has appended a record, fn must not fail: after an error or a panic, all further changes fail
// until the store is opened again.
func (f *Forest) Update(urgent bool, fn func(tx *Tx) error) error {
	if urgent {
		f.trees.mu.Lock()
	} else {
		f.trees.lock()
	}
	defer f.trees.mu.Unlock()

	return f.trees.update(fn)
}

// update does the work of Update. The caller holds the forest's lock.
func (t *trees) update(fn func(tx *Tx) error) error {
	tx := newTx(t)
	err := fn(tx)

	switch {
	case !tx.appended:
	case err != nil:
		return t.recordFailure(err)
	default:
		t.mu.failed = nil
	}
	return err
}

// WithReadLock calls fn with the forest's lock held for reading.
func (f *Forest) WithReadLock(fn func(tx *Tx)) {
	defer f.ReadLock()()
	fn(newTx(f.trees))
}

// ReadLock locks the forest for reading until unlock is called, for a function that only reads and returns.
func (f *Forest) ReadLock() (unlock func()) {
	f.trees.mu.RLock()
	return f.trees.mu.RUnlock
}

// WithLock calls fn, which appends no records, with the forest's lock held, even while the forest is frozen.
func (f *Forest) WithLock(fn func(tx *Tx)) {
	f.trees.mu.Lock()
	defer f.trees.mu.Unlock()
	fn(newTx(f.trees))
}

// Append appends a record of the caller's own type to the journal. It may use the space that is kept free for a full
// disk, so that snapshots can be deleted then: their deletion frees space. request is the number of the kernel's
// request that the record carries out, 0 for none. The caller puts the number into the payload, too.
func (tx *Tx) Append(t journal.Type, payload []byte, request uint64) error {
	if !tx.appended && tx.trees.mu.failed != nil {
		return tx.trees.mu.failed
	}
	if _, err := tx.trees.log.Append(t, payload, nil, true); err != nil {
		return err
	}

	tx.appended = true
	tx.trees.mu.failed = ErrFailed // reset when the function of Update returns without an error
	if request != 0 {
		tx.trees.requests.add(request, 0)
	}

	return nil
}

// Failure returns the error with which all changes fail, or nil. After such an error, the state in memory may
// contain a part of a change.
func (tx *Tx) Failure() error { return tx.trees.mu.failed }

// State returns the present state of a writable view. It may be read only while
// the forest's lock is held.
func (tx *Tx) State(view uint32) (*tree.State, bool) {
	v, ok := tx.trees.mu.views[view]
	if !ok {
		return nil, false
	}
	return v.state, true
}

// Capture freezes the present state of a view and returns it. The error for an unknown view is errs.Stale.
func (tx *Tx) Capture(view uint32) (*tree.State, error) {
	if st := tx.Freeze(view); st != nil {
		return st, nil
	}
	return nil, errs.Stale
}

// Freeze does what Capture does, but returns nil for an unknown view.
func (tx *Tx) Freeze(view uint32) *tree.State {
	v, ok := tx.trees.mu.views[view]
	if !ok {
		return nil
	}
	tx.trees.mu.epoch++
	return v.state.Clone()
}

// ChangeNumber returns a number that is higher after every change of a view.
func (tx *Tx) ChangeNumber(view uint32) uint64 {
	if v, ok := tx.trees.mu.views[view]; ok {
		return v.changeNumber
	}
	return 0
}

// AddView adds a writable view that begins with a frozen state.
func (tx *Tx) AddView(id uint32, s *tree.State) {
	tx.trees.mu.epoch++
	tx.trees.mu.views[id] = tx.trees.newView(id, s.Clone())
	tx.SetCounters(0, id+1)
}

// SetOrphans sets the orphans of a view. The state belongs to the view afterwards.
func (tx *Tx) SetOrphans(view uint32, s *tree.State) {
	tx.trees.mu.epoch++
	tx.trees.mu.views[view].orphans.replaceAll(s)
}

// DropView removes a writable view. Operations on its nodes then fail with errs.Stale.
func (tx *Tx) DropView(id uint32) {
	delete(tx.trees.mu.views, id)
	tx.trees.changedViews.Remove(id)
}

// SetViewEnded sets whether operations on the nodes of a writable view fail with errs.Stale.
func (tx *Tx) SetViewEnded(id uint32, ended bool) { tx.trees.mu.views[id].ended = ended }

// Readers of Tx.ChangedViews.
const (
	// ForCheckpoint reads the views whose state, orphans or actors may differ from the last checkpoint.
	// All other views are sealed.
	ForCheckpoint = iota
	// ForPolicies reads the views that may have changed since the policies were last applied.
	ForPolicies
	changedReaderCount // the number of readers
)

// ChangedViews returns the set of changed views. For each reader it contains the views that may have changed since
// this reader last read the set. The set changes only under the forest's lock.
func (tx *Tx) ChangedViews() *changed.Set[uint32] { return tx.trees.changedViews }

// NewView returns a number for a new view: the next number, or after MaxView a number that is free again. A
// number is free if no view has it, and the kernel has no reference to the root of an earlier view with this
// number. Then the kernel has no reference to other nodes of the earlier view either.
func (tx *Tx) NewView() (uint32, error) {
	for range MaxView {
		id := tx.trees.mu.nextView
		if id > MaxView {
			id = MainView + 1
		}

		tx.trees.mu.nextView = id + 1
		if tx.isFree(id) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("%w: the store has used up its view numbers", errs.NoSpace)
}

// isFree reports whether a view number is free, see NewView.
func (tx *Tx) isFree(id uint32) bool {
	if _, ok := tx.trees.mu.views[id]; ok || tx.trees.isHeld(Node(id, RootIno)) {
		return false
	}
	_, err := tx.trees.readView(tx.trees.waitingSrc, id)
	return errors.Is(err, errs.Stale)
}

// Epoch returns the present epoch. AddView ends it.
func (tx *Tx) Epoch() uint64 { return tx.trees.mu.epoch }

// Counters returns the next inode and view numbers.
func (tx *Tx) Counters() (ino uint64, view uint32) { return tx.trees.mu.nextIno, tx.trees.mu.nextView }

// SetCounters raises the next inode and view numbers to at least ino and view.
func (tx *Tx) SetCounters(ino uint64, view uint32) {
	tx.trees.mu.nextIno = max(tx.trees.mu.nextIno, ino)
	tx.trees.mu.nextView = max(tx.trees.mu.nextView, view)
}

// JournalEnd returns the position of the journal after the last record.
func (tx *Tx) JournalEnd() int64 { return tx.trees.log.End() }

// LowestUnreferencedPos returns the lowest journal position of bytes to which no record refers yet: the bytes of
// running writes. Recovery will need these bytes for the records of the writes, even if later writes replace the
// bytes in the file.
func (tx *Tx) LowestUnreferencedPos() int64 { return tx.trees.blobs.Lowest() }

// EachContent calls fn for the contents in memory of all views and orphans that are not sealed. It skips
// pages that seen has visited.
func (tx *Tx) EachContent(seen *tree.UnsealedContents, fn func(*content.Content)) {
	for _, id := range tx.trees.changedViews.Changed(ForCheckpoint) {
		v := tx.trees.mu.views[id]
		v.orphans.eachContent(fn)
		seen.Each(v.state, false, fn)
	}
}

// Orphans freezes and returns the orphans of views: a state without a root for each view with orphans.
func (tx *Tx) Orphans(views []uint32) (map[uint32]*tree.State, error) {
	states := make(map[uint32]*tree.State)

	for _, id := range views {
		v, ok := tx.trees.mu.views[id]
		if !ok {
			continue
		}
		if err := v.orphanAllReplaced(); err != nil {
			return nil, err
		}
		if st := v.orphans.clone(); st.Inodes > 0 {
			states[id] = st
		}
	}

	tx.trees.mu.epoch++
	return states, nil
}
