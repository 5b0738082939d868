package live

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// commit appends the record of a change to the journal and applies it. data are the bytes of a recWrite. The
// caller holds the forest's lock for writing.
func (v *view) commit(r *record, data []byte) error {
	v.changeMark.MarkChanged()

	// Before Append the change is neither visible nor journaled, so it can still fail.
	if err := v.checkUnprotected(r); err != nil {
		return err
	}
	if err := v.findAndJournalActor(r); err != nil {
		return err
	}
	if err := v.prepare(r); err != nil {
		return err
	}
	if err := v.charge(r); err != nil {
		return err
	}

	if hasRequest(r.kind) {
		r.request = v.trees.mu.request
	}

	r.encode(v.trees.mu.enc)
	pos, err := v.trees.log.Append(r.kind, v.trees.mu.enc.Bytes(), data, r.mayFree())
	if err != nil {
		return err
	}
	if r.kind == recWrite {
		r.dataPos, r.payloadPos = pos, pos-int64(v.trees.mu.enc.Len())
	}
	if r.request != 0 {
		v.trees.requests.add(r.request, r.answer())
	}

	v.trees.mu.failed = ErrFailed // stays set if apply panics
	if err := v.apply(r); err != nil {
		return v.trees.recordFailure(err)
	}

	v.trees.mu.failed = nil

	return nil
}

// prepare copies the pages and inodes that a change will modify, unless the epoch owns them, and reads all objects
// that the change will need. So the change fails because of a damaged object before its record is journaled, and
// apply cannot fail. The effects of prepare are not visible to other requests.
func (v *view) prepare(r *record) error {
	switch r.kind {
	case recCreate:
		if r.name == "" {
			return v.ownOrphanSlot(r.ino)
		}
		return errors.Join(v.ownEntry(r.parent, r.name), v.ownSlot(r.ino))

	case recLink:
		return errors.Join(v.ownEntry(r.parent, r.name), v.ownSlot(r.ino), v.ownOrphanSlot(r.ino))
	case recUnlink:
		return v.ownEntry(r.parent, r.name)
	case recRename:
		err := errors.Join(v.ownEntry(r.parent, r.name), v.ownEntry(r.newLink.Parent, r.newLink.Name))
		if err != nil || r.flags&unix.RENAME_WHITEOUT == 0 {
			return err
		}
		return v.ownSlot(r.ino)
	}

	n, err := v.ownInode(r.ino)
	switch {
	case err != nil:
		return err
	case r.kind == recSetAttr && r.setAttr.Size != nil:
		return tree.LoadError(n.Content.Preload(v.source().Files, *r.setAttr.Size, math.MaxInt64-*r.setAttr.Size))
	case r.kind == recSetAttr || r.kind == recSetXattr || r.kind == recRemoveXattr:
		return nil
	}

	// The record changes the bytes of a file.
	if err := n.Content.Preload(v.source().Files, r.off, r.length); err != nil || r.kind != recClone {
		return tree.LoadError(err)
	}

	from, err := v.trees.inode(Node(r.cloneFrom.view, r.cloneFrom.ino))
	if err != nil {
		return err
	}

	return tree.LoadError(from.Content.Preload(v.source().Files, r.cloneFrom.off, r.length))
}

// ownSlot prepares the addition of an inode to the view's table, see tree.State.OwnSlot.
func (v *view) ownSlot(ino uint64) error {
	return tree.LoadError(v.state.OwnSlot(v.source(), v.trees.mu.epoch, ino))
}

// ownEntry prepares a change that adds or removes a name, or gives the name another inode. It also prepares the
// present inode of the name, which may lose its last name and become an orphan.
func (v *view) ownEntry(parent uint64, name string) error {
	dir, err := v.ownInode(parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.OwnEntry(v.source(), v.trees.mu.epoch, name); err != nil {
		return tree.LoadError(err)
	}

	e, found, err := dir.Dir.Lookup(v.source(), name)
	if err != nil || !found {
		return tree.LoadError(err)
	}

	_, err = v.ownInode(e.Ino)
	return tree.LoadError(errors.Join(err, v.ownOrphanSlot(e.Ino)))
}

// recordFailure records that a change was journaled and could not be applied. Only a fault in the program can cause
// this. The state may contain a part of the change, so all further changes fail until the store
// is opened again; recovery then applies the change. The caller holds the forest's lock.
func (t *trees) recordFailure(err error) error {
	t.mu.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	t.logger.Error("no more changes until the store is opened again", "error", t.mu.failed)
	return err
}

// Failure returns the error with which all changes fail, see trees.recordFailure, or nil.
func (f *Forest) Failure() error {
	f.trees.mu.RLock()
	defer f.trees.mu.RUnlock()
	return f.trees.mu.failed
}

// mayFree reports whether a change may free space. The forest accepts such changes on a full disk, too.
func (r *record) mayFree() bool {
	switch r.kind {
	case recUnlink, recRename, recRemoveXattr:
		return true
	case recSetAttr:
		return r.setAttr.Size != nil
	case recFallocate:
		return r.flags&unix.FALLOC_FL_PUNCH_HOLE != 0
	}
	return false
}

// apply changes the view by a record. Views are changed only here and, for edits, in Tx.Apply.
func (v *view) apply(r *record) error {
	v.changeMark.MarkChanged()
	v.trees.mu.changeCount++
	v.changeNumber = v.trees.mu.changeCount
	v.trees.mu.inApply = true
	v.state.Depth = max(v.state.Depth, r.depth)
	defer func() { v.trees.mu.inApply = false }()

	change := r.attributedChange()
	earlier := v.attribution.BeginChange(change, v.trees.mu.actor, v)
	err := v.applyRecord(r)
	v.attribution.EndChange(change, earlier, v.trees.mu.actor, v)

	return err
}

// applyRecord does the work of apply.
func (v *view) applyRecord(r *record) error {
	e := v.newEditor(r.time)

	switch r.kind {
	case recCreate:
		v.trees.raiseNextIno(r.ino)
		n := newInode(r.ino, &r.create, r.time)
		if r.name == "" {
			v.orphans.put(v.source(), v.trees.mu.epoch, n)
			return nil
		}

		e.Add(r.parent, r.name, n)

	case recLink:
		v.applyLink(e, r)
	case recUnlink:
		e.Remove(r.parent, r.name)
	case recRename:
		v.applyRename(e, r)
	default:
		return v.applyToInode(r)
	}

	return e.Err()
}

// newEditor returns the editor of the view for changes at the time now. The caller holds the forest's lock.
func (v *view) newEditor(now int64) *tree.Editor {
	v.editor = tree.Editor{
		State: v.state, Source: v.source(), Epoch: v.trees.mu.epoch, Time: now,
		OnChanged: v.editor.OnChanged, OnUnnamed: v.editor.OnUnnamed,
	}
	return &v.editor
}

// applyLink gives an inode one more name. An orphan gets its first name.
func (v *view) applyLink(e *tree.Editor, r *record) {
	orphan, err := v.inode(r.ino)
	if err != nil || orphan.Nlink > 0 {
		e.Link(r.parent, r.name, r.ino)
		return
	}

	n := *orphan
	v.orphans.remove(v.source(), v.trees.mu.epoch, n.Ino)
	n.Nlink, n.Ctime = 1, r.time
	e.Add(r.parent, r.name, &n)
}

// applyRename applies a recRename.
func (v *view) applyRename(e *tree.Editor, r *record) {
	from, to := tree.Link{Parent: r.parent, Name: r.name}, r.newLink

	switch {
	case r.flags&unix.RENAME_EXCHANGE != 0:
		e.Exchange(from, to)
	case r.flags&unix.RENAME_WHITEOUT != 0:
		v.trees.raiseNextIno(r.ino)
		e.Whiteout(from, to, newInode(r.ino, &r.create, r.time))
	default:
		e.Rename(from, to)
	}
}

// applyToInode applies a change of one inode.
func (v *view) applyToInode(r *record) error {
	n, err := v.ownInode(r.ino)
	if errors.Is(err, errs.Stale) {
		return nil // a salvage has skipped the record that created the inode
	}
	if err != nil {
		return err
	}

	before := n.FileSize()
	if r.kind != recSetAttr || r.setAttr.CountsAsChange() {
		v.attributeInode(r.ino)
	}

	n.Ctime = r.time

	switch r.kind {
	case recSetAttr:
		err = r.setAttr.Apply(v.source(), v.trees.mu.epoch, n, r.time)
	case recSetXattr:
		n.SetXattr(r.name, r.value)
		if r.clearPriv {
			n.Mode &^= unix.S_ISGID
		}

	case recRemoveXattr:
		n.RemoveXattr(r.name)
	default:
		err = v.applyToData(n, r)
	}

	if n.Nlink > 0 {
		v.state.Bytes += n.FileSize() - before
	}

	return tree.LoadError(err)
}
