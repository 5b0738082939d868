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

// A Tx is the forest with its lock held: what package snapshot uses to make
// captures, forks and restores one step with its catalogue.
type Tx struct {
	attributions
	appended bool // a record was journaled
}

func newTx(f *Forest) *Tx { return &Tx{attributions: attributions{f}} }

// Update runs fn with the lock held for changes. It waits while changes are
// held back unless urgent.
//
// Once fn has journaled a record it must not fail: an error or a panic after that
// means that nothing can be changed any more until the store is opened again.
func (f *Forest) Update(urgent bool, fn func(tx *Tx) error) error {
	if urgent {
		f.mu.Lock()
	} else {
		f.lock()
	}
	defer f.mu.Unlock()
	tx := newTx(f)
	return f.ended(tx, fn(tx))
}

// ended is for the end of what was done with the lock held, and its error.
func (f *Forest) ended(tx *Tx, err error) error {
	switch {
	case !tx.appended:
	case err != nil:
		return f.fail(err)
	default:
		f.mu.failed = nil
	}
	return err
}

// View runs fn with the lock held for reading.
func (f *Forest) View(fn func(tx *Tx) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return fn(newTx(f))
}

// Append journals a record of the caller's own type. It may use what is held
// back on a full disk: history is what gives space back.
func (tx *Tx) Append(t journal.Type, payload []byte) error {
	if !tx.appended && tx.f.mu.failed != nil {
		return tx.f.mu.failed
	}
	if _, err := tx.f.log.AppendUrgent(t, payload, nil); err != nil {
		return err
	}
	tx.appended = true
	tx.f.mu.failed = ErrFailed // unless it is carried out, whatever happens
	return nil
}

// Failed returns why the state in memory cannot be relied on, nil when it can.
func (tx *Tx) Failed() error { return tx.f.mu.failed }

// State returns the present state of a writable view. It may be read while
// The lock is held and must not be kept.
func (tx *Tx) State(view uint32) (*tree.State, bool) {
	v, ok := tx.f.mu.views[view]
	if !ok {
		return nil, false
	}
	return v.state, true
}

// Capture freezes the present state of a view and returns it.
func (tx *Tx) Capture(view uint32) (*tree.State, error) {
	v, ok := tx.f.mu.views[view]
	if !ok {
		return nil, errs.Stale
	}
	tx.f.mu.epoch++
	return v.state.Clone(), nil
}

// Changed returns a number that grows with every change of a view.
func (tx *Tx) Changed(view uint32) uint64 {
	if v, ok := tx.f.mu.views[view]; ok {
		return v.changed
	}
	return 0
}

// AddView adds a writable view that starts as a frozen state.
func (tx *Tx) AddView(id uint32, s *tree.State) {
	tx.f.mu.epoch++
	tx.f.mu.views[id] = tx.f.newView(id, s.Clone())
	tx.SetCounters(0, id+1)
}

// AddOrphans adds inodes without a name to a view. The state must not be used any more.
func (tx *Tx) AddOrphans(view uint32, s *tree.State) {
	tx.f.mu.epoch++
	tx.f.mu.views[view].orphans.set(s)
}

// DropView removes a writable view; its nodes are stale from then on.
func (tx *Tx) DropView(id uint32) {
	delete(tx.f.mu.views, id)
	tx.f.changed.Remove(id)
}

// Readers of Changes.
const (
	// ForCheckpoint are views that may differ from what the last checkpoint stored: in their
	// state, orphans, or actors. Every other view is sealed.
	ForCheckpoint = iota
	ForPolicies
	changedReaders
)

// Changes are the views that may have changed since each reader looked. Changes of views take
// turns with functions of Tx.
func (tx *Tx) Changes() *changed.Set[uint32] { return tx.f.changed }

// NewView returns a number for a new view: the next one, and after the last the first
// that no view has any more and of which the kernel holds no root, and so no node.
func (tx *Tx) NewView() (uint32, error) {
	for range MaxView {
		id := tx.f.mu.nextView
		if id > MaxView {
			id = MainView + 1
		}
		tx.f.mu.nextView = id + 1
		if tx.freeView(id) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("%w: the store has used up its view numbers", errs.NoSpace)
}

// freeView reports whether a number stands for no view.
func (tx *Tx) freeView(id uint32) bool {
	if _, ok := tx.f.mu.views[id]; ok || tx.f.Held(Node(id, RootIno)) {
		return false
	}
	_, err := tx.f.readView(tx.f.waiting, id)
	return errors.Is(err, errs.Stale)
}

// Epoch returns the present epoch, which AddView ends.
func (tx *Tx) Epoch() uint64 { return tx.f.mu.epoch }

// Counters returns the next inode and view numbers.
func (tx *Tx) Counters() (ino uint64, view uint32) { return tx.f.mu.nextIno, tx.f.mu.nextView }

// SetCounters raises the next inode and view numbers.
func (tx *Tx) SetCounters(ino uint64, view uint32) {
	tx.f.mu.nextIno = max(tx.f.mu.nextIno, ino)
	tx.f.mu.nextView = max(tx.f.mu.nextView, view)
}

// End returns the position of the journal after the last record.
func (tx *Tx) End() int64 { return tx.f.log.End() }

// Unjournaled returns the lowest position of bytes in the journal that no record refers to
// yet, though a later one will: those of writes under way. Recovery from here on needs them,
// whatever has become of the files by then.
func (tx *Tx) Unjournaled() int64 { return tx.f.blobs.Lowest() }

// EachContent calls fn for the contents of the present views that are not sealed, but for pages
// that were seen, and of orphans.
func (tx *Tx) EachContent(seen *tree.Unsealed, fn func(*content.Content)) {
	for _, id := range tx.f.changed.For(ForCheckpoint) {
		v := tx.f.mu.views[id]
		v.orphans.each(fn)
		seen.Each(v.state, false, fn)
	}
}

// Orphans freezes the inodes without a name that the kernel may hold, and returns them: a
// state without a root for each of the views that has any.
func (tx *Tx) Orphans(views []uint32) (map[uint32]*tree.State, error) {
	states := make(map[uint32]*tree.State)
	for _, id := range views {
		v, ok := tx.f.mu.views[id]
		if !ok {
			continue
		}
		if err := v.keepAllReplaced(); err != nil {
			return nil, err
		}
		if st := v.orphans.frozen(); st.Inodes > 0 {
			states[id] = st
		}
	}
	tx.f.mu.epoch++
	return states, nil
}
