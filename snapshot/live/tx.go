package live

import (
	"fmt"

	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Tx is the forest with its lock held: what package snapshot uses to make
// captures, forks and restores one step with its catalogue.
type Tx struct {
	f        *Forest
	appended bool // a record was journaled
}

// Update runs fn with the lock held for changes. It waits while changes are
// held back unless urgent.
//
// Once fn has journaled a record it must carry it out: an error or a panic
// after that leaves the forest uncertain.
func (f *Forest) Update(urgent bool, fn func(tx *Tx) error) (err error) {
	if urgent {
		f.mu.Lock()
	} else {
		f.lock()
	}
	defer f.mu.Unlock()
	tx, ended := &Tx{f: f}, false
	defer func() {
		if tx.appended && (err != nil || !ended) {
			f.doubt(err)
		}
	}()
	err = fn(tx)
	ended = true
	return err
}

// View runs fn with the lock held for reading.
func (f *Forest) View(fn func(tx *Tx) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return fn(&Tx{f: f})
}

// Append journals a record of the caller's own type. It may use what is held
// back on a full disk: history is what gives space back.
func (tx *Tx) Append(t journal.Type, payload []byte) error {
	if tx.f.mu.uncertain != nil {
		return tx.f.mu.uncertain
	}
	if _, err := tx.f.log.AppendUrgent(t, payload, nil); err != nil {
		return appendError(err)
	}
	tx.appended = true
	return nil
}

// Uncertain returns why the state in memory cannot be relied on, nil when it can.
func (tx *Tx) Uncertain() error { return tx.f.mu.uncertain }

// State returns the present state of a writable view. It may be read while
// the lock is held and must not be kept.
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
		return nil, ErrStale
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

// Changes returns a number that grows with every change of any view.
func (tx *Tx) Changes() uint64 { return tx.f.mu.changes }

// AddView adds a writable view that starts as a frozen state.
func (tx *Tx) AddView(id uint32, s *tree.State) {
	tx.f.mu.epoch++
	tx.f.mu.views[id] = &view{id: id, state: s.Clone(), orphans: make(map[uint64]*tree.Inode)}
	tx.UseView(id)
}

// DropView removes a writable view; its nodes are stale from then on.
func (tx *Tx) DropView(id uint32) { delete(tx.f.mu.views, id) }

// NewView returns a number for a new view.
func (tx *Tx) NewView() (uint32, error) {
	if tx.f.mu.nextView > MaxView {
		return 0, fmt.Errorf("%w: the store has used up its view numbers", ErrNoSpace)
	}
	id := tx.f.mu.nextView
	tx.f.mu.nextView++
	return id, nil
}

// UseView takes note of a view number that is in use.
func (tx *Tx) UseView(id uint32) {
	if id >= tx.f.mu.nextView {
		tx.f.mu.nextView = id + 1
	}
}

// NewRoot returns the root directory of an empty tree.
func (tx *Tx) NewRoot(mode, uid, gid uint32, t int64) *tree.State {
	root := &tree.Inode{
		Ino: RootIno, Mode: mode, UID: uid, GID: gid, Nlink: 2,
		Atime: t, Mtime: t, Ctime: t, Btime: t,
	}
	return tree.New(tx.f.mu.epoch, root)
}

// Counters returns the next inode and view numbers.
func (tx *Tx) Counters() (ino uint64, view uint32) { return tx.f.mu.nextIno, tx.f.mu.nextView }

// SetCounters raises the next inode and view numbers.
func (tx *Tx) SetCounters(ino uint64, view uint32) {
	tx.f.mu.nextIno = max(tx.f.mu.nextIno, ino)
	tx.f.mu.nextView = max(tx.f.mu.nextView, view)
}

// End returns the position of the journal after the last record.
func (tx *Tx) End() int64 { return tx.f.log.End() }

// Unjournaled returns the lowest position of bytes in the journal that no
// record refers to yet, though a later one may: those of writes under way, and
// those of orphans, which a link can bring back. Recovery from here on needs
// them, whatever has become of the files by then.
func (tx *Tx) Unjournaled() int64 {
	low := tx.f.blobs.minPos()
	for _, v := range tx.f.mu.views {
		for _, n := range v.orphans {
			low = min(low, n.Content.MinPos())
		}
	}
	return low
}

// EachView calls fn for every writable view.
func (tx *Tx) EachView(fn func(id uint32, s *tree.State)) {
	for id, v := range tx.f.mu.views {
		fn(id, v.state)
	}
}

// EachOrphan calls fn for every unlinked inode that the kernel still holds.
func (tx *Tx) EachOrphan(fn func(n *tree.Inode)) {
	for _, v := range tx.f.mu.views {
		for _, n := range v.orphans {
			fn(n)
		}
	}
}
