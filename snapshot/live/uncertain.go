package live

import (
	"errors"
	"fmt"
	"math"
)

var errPanic = errors.New("a request panicked")

// carryOut applies a record that is in the journal. Whatever can go wrong must
// have gone wrong before: if this fails, or panics, the state may be changed by
// half, and the journal tells of a change that nobody was promised.
func (f *Forest) carryOut(v *view, r *record) (err error) {
	ended := false
	defer func() {
		if err != nil || !ended {
			f.doubt(err)
		}
	}()
	err = f.apply(v, r)
	ended = true
	return err
}

// doubt makes every later change fail until the store is opened again, and
// takes the last record back. f.mu is held for writing. cause is nil in a
// panic.
func (f *Forest) doubt(cause error) {
	if f.mu.uncertain != nil {
		return
	}
	if cause == nil {
		cause = errPanic
	}
	f.mu.uncertain = fmt.Errorf("%w: %w", ErrUncertain, cause)
	if f.logger != nil {
		f.logger.Error("no more changes until the store is opened again: one failed half-way", "error", cause)
	}
	// Without it recovery makes the change, which is as good: nobody was told
	// that it failed for good.
	if _, err := f.log.AppendUrgent(recVoid, nil, nil); err != nil && f.logger != nil {
		f.logger.Warn("cannot take back a change", "error", err)
	}
}

// Uncertain returns why nothing can be changed any more, nil when it can.
func (f *Forest) Uncertain() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.uncertain
}

// preload reads what a change will need beyond the inodes and names that it is
// about, so that damage is an error before anything is journaled.
func (f *Forest) preload(v *view, r *record) error {
	off, n := r.off, r.n
	switch r.kind {
	case recCreate:
		return f.mayAdd(v, r.parent, r.name, r.ino)
	case recRelink:
		return f.mayAdd(v, r.parent, r.name, r.node.Ino)
	case recLink:
		return f.mayAdd(v, r.parent, r.name, r.ino)
	case recUnlink:
		return f.mayDrop(v, r.parent, r.name)
	case recRename:
		return f.mayRename(v, r)
	case recWrite, recWriteAt, recFallocate, recClone:
	case recSetAttr:
		if r.set.Size == nil {
			return nil
		}
		off, n = *r.set.Size, math.MaxInt64-*r.set.Size
	default:
		return nil
	}
	node, err := f.inodeOf(v, r.ino)
	if err != nil {
		return err
	}
	if err := node.Content.Preload(f.src, off, n); err != nil {
		return loadError(err)
	}
	if r.kind == recClone {
		from, _, err := f.inode(Node(r.view2, r.ino2))
		if err == nil {
			err = loadError(from.Content.Preload(f.src, r.off2, r.n))
		}
		return err
	}
	return nil
}
