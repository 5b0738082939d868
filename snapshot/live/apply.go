package live

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// commit makes a change and journals it. The lock is held for writing.
func (v *view) commit(r *record, data []byte) error {
	if err := v.attribute(r); err != nil {
		return err
	}
	if err := v.prepare(r); err != nil {
		return err
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
	v.trees.mu.failed = ErrFailed // unless it is carried out, whatever happens
	if err := v.apply(r); err != nil {
		return v.trees.fail(err)
	}
	v.trees.mu.failed = nil
	return nil
}

// prepare makes all that a change is about the epoch's own, and reads what it will
// read: so damage is an error before anything is journaled, and apply does not
// fail. It changes nothing that anybody sees.
func (v *view) prepare(r *record) error {
	switch r.kind {
	case recCreate, recLink:
		return errors.Join(v.ownEntry(r.parent, r.name), v.ownSlot(r.ino))
	case recRelink:
		return errors.Join(v.ownEntry(r.parent, r.name), v.ownSlot(r.node.Ino))
	case recUnlink:
		return v.ownEntry(r.parent, r.name)
	case recRename:
		return errors.Join(v.ownEntry(r.parent, r.name), v.ownEntry(r.parent2, r.name2))
	}
	n, err := v.own(r.ino)
	switch {
	case err != nil:
		return err
	case r.kind == recSetAttr && r.set.Size != nil:
		return loadError(n.Content.Preload(v.source().Files, *r.set.Size, math.MaxInt64-*r.set.Size))
	case r.kind == recSetAttr || r.kind == recSetXattr || r.kind == recRemoveXattr:
		return nil
	}
	if err := n.Content.Preload(v.source().Files, r.off, r.n); err != nil || r.kind != recClone {
		return loadError(err)
	}
	from, _, err := v.trees.inode(Node(r.view2, r.ino2))
	if err != nil {
		return err
	}
	return loadError(from.Content.Preload(v.source().Files, r.off2, r.n))
}

func (v *view) ownSlot(ino uint64) error {
	return loadError(v.state.OwnSlot(v.source(), v.currentEpoch(), ino))
}

// ownEntry is for a name that is to come, to go, or to lead elsewhere.
func (v *view) ownEntry(parent uint64, name string) error {
	dir, err := v.own(parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.OwnEntry(v.source(), v.trees.mu.epoch, name); err != nil {
		return loadError(err)
	}
	e, found, err := dir.Dir.Lookup(v.source(), name)
	if found {
		_, err = v.own(e.Ino)
	}
	return loadError(err)
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

func (v *view) attr(ino uint64) (Attr, error) {
	n, err := v.inode(ino)
	if err != nil {
		return Attr{}, err
	}
	return attrOf(v.id, n), nil
}

// apply makes the change that a record tells of. It is the only way in which
// a view changes, but for edits (see view.applyStep) and orphans.
func (v *view) apply(r *record) error {
	v.trees.mu.changes++
	v.changed = v.trees.mu.changes
	v.trees.mu.applying = true
	v.state.Depth = max(v.state.Depth, r.depth)
	defer func() { v.trees.mu.applying = false }()
	switch r.kind {
	case recCreate:
		v.trees.sawIno(r.ino)
		n := newInode(r.ino, &r.create, r.time)
		return v.addNode(r.parent, r.name, n, r.time)
	case recLink:
		n, err := v.own(r.ino)
		if err != nil {
			return err
		}
		n.Ctime = r.time
		return v.addName(r.parent, r.name, n, r.time)
	case recRelink:
		v.trees.sawIno(r.node.Ino)
		n := *r.node
		v.orphans.remove(v.trees.src, v.trees.mu.epoch, n.Ino)
		n.Nlink, n.Links, n.Ctime = 1, nil, r.time
		return v.addNode(r.parent, r.name, &n, r.time)
	case recUnlink:
		_, _, err := v.dropName(r.parent, r.name, r.time)
		return err
	case recRename:
		return v.applyRename(r)
	case recSetAttr:
		return v.applySetAttr(r)
	case recWrite, recWriteAt, recFallocate, recClone:
		return v.applyData(r)
	case recSetXattr, recRemoveXattr:
		return v.applyXattr(r)
	}
	return nil
}

// addNode puts a new inode into the state, under a name.
func (v *view) addNode(parent uint64, name string, n *tree.Inode, t int64) error {
	dir, err := v.own(parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.Insert(v.source(), v.currentEpoch(), tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
		return loadError(err)
	}
	if err := v.putNode(parent, name, n); err != nil {
		return err
	}
	if n.IsDir() {
		dir.Nlink++
	}
	dir.Mtime, dir.Ctime = t, t
	return nil
}

// putNode is addNode but for the directory.
func (v *view) putNode(parent uint64, name string, n *tree.Inode) error {
	v.mark(n.Ino)
	n.Links = []tree.Link{{Parent: parent, Name: name}}
	if err := v.state.Put(v.source(), v.currentEpoch(), n); err != nil {
		return loadError(err)
	}
	v.state.Bytes += fileSize(n)
	return nil
}

// addName gives an inode of the state one more name.
func (v *view) addName(parent uint64, name string, n *tree.Inode, t int64) error {
	dir, err := v.own(parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.Insert(v.source(), v.currentEpoch(), tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
		return loadError(err)
	}
	v.mark(n.Ino)
	giveName(n, parent, name)
	dir.Mtime, dir.Ctime = t, t
	return nil
}

// giveName is addName but for the directory.
func giveName(n *tree.Inode, parent uint64, name string) {
	n.AddLink(tree.Link{Parent: parent, Name: name})
	n.Nlink++
}

// dropName removes a name, and the inode with its last one: it is returned as it was then.
func (v *view) dropName(parent uint64, name string, t int64) (n *tree.Inode, last bool, err error) {
	dir, err := v.own(parent)
	if err != nil {
		return nil, false, err
	}
	e, found, err := dir.Dir.Lookup(v.source(), name)
	if err != nil {
		return nil, false, loadError(err)
	}
	if !found {
		return nil, false, ErrNotExist
	}
	v.vacate(parent, name)
	if n, last, err = v.dropLink(e.Ino, tree.Link{Parent: parent, Name: name}, t); err != nil {
		return nil, false, err
	}
	if err := dir.Dir.Remove(v.source(), v.currentEpoch(), name); err != nil {
		return nil, false, loadError(err)
	}
	dir.Mtime, dir.Ctime = t, t
	if n.IsDir() {
		dir.Nlink--
	}
	return n, last, nil
}

// dropLink is dropName but for the directory.
func (v *view) dropLink(ino uint64, l tree.Link, t int64) (n *tree.Inode, last bool, err error) {
	if n, err = v.state.Get(v.source(), ino); err != nil {
		return nil, false, loadError(err)
	}
	v.mark(ino)
	if !n.IsDir() && n.Nlink > 1 {
		if n, err = v.own(ino); err != nil {
			return nil, false, err
		}
		n.Ctime = t
		n.RemoveLink(l)
		n.Nlink--
		return n, false, nil
	}
	v.state.Bytes -= fileSize(n)
	if err := v.state.Delete(v.source(), v.currentEpoch(), ino); err != nil {
		return nil, false, loadError(err)
	}
	if v.epoch == 0 && v.trees.Held(Node(v.id, ino)) { // an edit sees to it at its end
		orphan := *n
		orphan.Ctime = t
		v.orphans.put(v.trees.src, v.trees.mu.epoch, &orphan)
	}
	return n, true, nil
}

func (v *view) applyRename(r *record) error {
	dir, err := v.own(r.parent)
	if err != nil {
		return err
	}
	e, found, err := dir.Dir.Lookup(v.source(), r.name)
	if err != nil || !found {
		return loadError(orMissing(err))
	}
	n, err := v.own(e.Ino)
	if err != nil {
		return err
	}
	newDir, err := v.own(r.parent2)
	if err != nil {
		return err
	}
	e2, occupied, err := newDir.Dir.Lookup(v.source(), r.name2)
	if err != nil {
		return loadError(err)
	}
	v.mark(e.Ino)
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		v.mark(e2.Ino)
		other, err := v.own(e2.Ino)
		if err != nil {
			return err
		}
		if err := v.point(newDir, n, r.parent, r.name, r.name2, r.time); err != nil {
			return err
		}
		if err := v.point(dir, other, r.parent2, r.name2, r.name, r.time); err != nil {
			return err
		}
		if n.IsDir() && !other.IsDir() {
			dir.Nlink--
			newDir.Nlink++
		} else if !n.IsDir() && other.IsDir() {
			newDir.Nlink--
			dir.Nlink++
		}
		return nil
	}
	if occupied {
		if _, _, err := v.dropName(r.parent2, r.name2, r.time); err != nil {
			return err
		}
	}
	v.vacate(r.parent, r.name)
	if err := dir.Dir.Remove(v.source(), v.currentEpoch(), r.name); err != nil {
		return loadError(err)
	}
	if err := v.point(newDir, n, r.parent, r.name, r.name2, r.time); err != nil {
		return err
	}
	if n.IsDir() {
		dir.Nlink--
		newDir.Nlink++
	}
	dir.Mtime, dir.Ctime = r.time, r.time
	return nil
}

// point makes name in dir lead to n, which had another name until now.
func (v *view) point(dir, n *tree.Inode, oldParent uint64, oldName, name string, t int64) error {
	if err := dir.Dir.Insert(v.source(), v.currentEpoch(), tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
		return loadError(err)
	}
	n.RemoveLink(tree.Link{Parent: oldParent, Name: oldName})
	n.AddLink(tree.Link{Parent: dir.Ino, Name: name})
	n.Ctime = t
	dir.Mtime, dir.Ctime = t, t
	return nil
}

func orMissing(err error) error {
	if err == nil {
		return tree.ErrNotExist
	}
	return err
}

func fileSize(n *tree.Inode) int64 {
	if n.IsRegular() {
		return n.Size()
	}
	return 0
}
