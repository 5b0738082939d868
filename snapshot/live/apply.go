package live

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// commit makes a change and journals it. The lock is held for writing.
func (v *view) commit(r *record, data []byte) error {
	v.touched.Change()
	if err := v.attribute(r); err != nil {
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
	write := v.trees.log.Append
	if r.frees() {
		write = v.trees.log.AppendUrgent
	}
	pos, err := write(r.kind, v.trees.mu.enc.Out(), data)
	if err != nil {
		return err
	}
	if r.kind == recWrite {
		r.pos, r.payload = pos, pos-int64(v.trees.mu.enc.Len())
	}
	if r.request != 0 {
		v.trees.requests.carriedOut(r.request, r.answer())
	}
	v.trees.mu.failed = ErrFailed // unless it is carried out, whatever happens
	if err := v.apply(r); err != nil {
		return v.trees.fail(err)
	}
	v.trees.mu.failed = nil
	return nil
}

// prepare makes all that a change is about the epoch's own, and reads what it will
// read: so damage is an error before anything is journaled, and apply does not
// fail. It changes nothing visible.
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
		err := errors.Join(v.ownEntry(r.parent, r.name), v.ownEntry(r.parent2, r.name2))
		if err == nil && r.flags&unix.RENAME_WHITEOUT != 0 {
			err = v.ownSlot(r.ino)
		}
		return err
	}
	n, err := v.own(r.ino)
	switch {
	case err != nil:
		return err
	case r.kind == recSetAttr && r.set.Size != nil:
		return tree.LoadError(n.Content.Preload(v.source().Files, *r.set.Size, math.MaxInt64-*r.set.Size))
	case r.kind == recSetAttr || r.kind == recSetXattr || r.kind == recRemoveXattr:
		return nil
	}
	if err := n.Content.Preload(v.source().Files, r.off, r.n); err != nil || r.kind != recClone {
		return tree.LoadError(err)
	}
	from, err := v.trees.inode(Node(r.view2, r.ino2))
	if err != nil {
		return err
	}
	return tree.LoadError(from.Content.Preload(v.source().Files, r.off2, r.n))
}

func (v *view) ownSlot(ino uint64) error {
	return tree.LoadError(v.state.OwnSlot(v.source(), v.trees.mu.epoch, ino))
}

// ownEntry is for a name that is to come, to go, or to lead elsewhere.
func (v *view) ownEntry(parent uint64, name string) error {
	dir, err := v.own(parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.OwnEntry(v.source(), v.trees.mu.epoch, name); err != nil {
		return tree.LoadError(err)
	}
	e, found, err := dir.Dir.Lookup(v.source(), name)
	if found {
		_, err = v.own(e.Ino)
		err = errors.Join(err, v.ownOrphanSlot(e.Ino))
	}
	return tree.LoadError(err)
}

// fail notes that a change was journaled and not carried out, which takes a fault
// in the program: the state may be changed by half. Nothing can be changed any more
// until the store is opened again, and recovery makes the change. The lock is held.
func (t *trees) fail(err error) error {
	t.mu.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	t.logger.Error("no more changes until the store is opened again", "error", t.mu.failed)
	return err
}

// Failed returns why nothing can be changed any more, nil when it can.
func (t *trees) Failed() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.failed
}

// frees reports whether a change can give space back, so that it must be
// possible on a full disk.
func (r *record) frees() bool {
	switch r.kind {
	case recUnlink, recRename, recRemoveXattr:
		return true
	case recSetAttr:
		return r.set.Size != nil
	case recFallocate:
		return r.flags&unix.FALLOC_FL_PUNCH_HOLE != 0
	}
	return false
}

// apply makes the change that a record describes. It is the only way in which
// a view changes, but for edits.
func (v *view) apply(r *record) error {
	v.touched.Change()
	v.trees.mu.changes++
	v.changed = v.trees.mu.changes
	v.trees.mu.applying = true
	v.state.Depth = max(v.state.Depth, r.depth)
	defer func() { v.trees.mu.applying = false }()
	e := v.edit(r.time)
	switch r.kind {
	case recCreate:
		v.trees.sawIno(r.ino)
		n := newInode(r.ino, &r.create, r.time)
		if r.name == "" {
			v.orphans.put(v.source(), v.trees.mu.epoch, n)
			return nil
		}
		before := v.actorsAt(r.link())
		v.appear(r.link())
		e.Add(r.parent, r.name, n)
		v.succeed(r.link(), before)
	case recLink:
		before := v.actorsAt(r.link())
		v.appear(r.link())
		v.link(e, r)
		v.succeed(r.link(), before)
	case recUnlink:
		before := v.actorsAt(r.link())
		e.Remove(r.parent, r.name)
		v.vacate(r.link(), before)
	case recRename:
		v.rename(e, r)
	default:
		return v.applyTo(r)
	}
	return e.Err()
}

// edit returns the editor of the view for changes at a time. The lock is held.
func (v *view) edit(now int64) *tree.Editor {
	v.editor = tree.Editor{
		State: v.state, Source: v.source(), Epoch: v.trees.mu.epoch, Time: now,
		Changed: v.editor.Changed, Unnamed: v.editor.Unnamed,
	}
	return &v.editor
}

// link gives an inode one more name, or its first.
func (v *view) link(e *tree.Editor, r *record) {
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

func (v *view) rename(e *tree.Editor, r *record) {
	from, to := r.link(), tree.Link{Parent: r.parent2, Name: r.name2}
	fromBy, toBy := v.actorsAt(from), v.actorsAt(to)
	if v.inoAt(to) == 0 {
		v.appear(to)
	}
	defer v.succeed(to, toBy)
	switch {
	case r.flags&unix.RENAME_EXCHANGE != 0:
		e.Exchange(from, to)
		v.succeed(from, fromBy)
	case r.flags&unix.RENAME_WHITEOUT != 0:
		v.trees.sawIno(r.ino)
		e.Whiteout(from, to, newInode(r.ino, &r.create, r.time))
		v.succeed(from, fromBy)
	default:
		e.Rename(from, to)
		v.vacate(from, fromBy)
	}
}

// link is the name that a record is about.
func (r *record) link() tree.Link { return tree.Link{Parent: r.parent, Name: r.name} }

// applyTo makes a change of one inode.
func (v *view) applyTo(r *record) error {
	n, err := v.own(r.ino)
	if errors.Is(err, errs.Stale) {
		return nil // a salvage left out what made it
	}
	if err != nil {
		return err
	}
	before := n.FileSize()
	if r.kind != recSetAttr || r.set.Marks() {
		v.mark(r.ino)
	}
	n.Ctime = r.time
	switch r.kind {
	case recSetAttr:
		err = r.set.Apply(v.source(), v.trees.mu.epoch, n, r.time)
	case recSetXattr:
		n.SetXattr(r.name, r.value)
		if r.kill {
			n.Mode &^= unix.S_ISGID
		}
	case recRemoveXattr:
		n.RemoveXattr(r.name)
	default:
		err = v.setData(n, r)
	}
	if n.Nlink > 0 {
		v.state.Bytes += n.FileSize() - before
	}
	return tree.LoadError(err)
}
