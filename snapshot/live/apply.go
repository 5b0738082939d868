package live

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// commit makes a change and journals it. f.mu is held for writing.
func (f *Forest) commit(v *view, r *record, data []byte) error {
	if f.mu.failed != nil {
		return f.mu.failed
	}
	if err := f.prepare(v, r); err != nil {
		return err
	}
	r.encode(f.mu.enc)
	write := f.log.Append
	if r.frees() {
		write = f.log.AppendUrgent
	}
	pos, err := write(r.kind, f.mu.enc.Out(), data)
	if err != nil {
		return err
	}
	if r.kind == recWrite {
		r.pos, r.payload = pos, pos-int64(f.mu.enc.Len())
	}
	f.mu.failed = ErrFailed // unless it is carried out, whatever happens
	if err := f.apply(v, r); err != nil {
		return f.fail(err)
	}
	f.mu.failed = nil
	return nil
}

// prepare makes all that a change is about the epoch's own, and reads what it will
// read: so damage is an error before anything is journaled, and apply does not
// fail. It changes nothing that anybody sees.
func (f *Forest) prepare(v *view, r *record) error {
	switch r.kind {
	case recCreate, recLink:
		return errors.Join(f.ownEntry(v, r.parent, r.name), f.ownSlot(v, r.ino))
	case recRelink:
		return errors.Join(f.ownEntry(v, r.parent, r.name), f.ownSlot(v, r.node.Ino))
	case recUnlink:
		return f.ownEntry(v, r.parent, r.name)
	case recRename:
		return errors.Join(f.ownEntry(v, r.parent, r.name), f.ownEntry(v, r.parent2, r.name2))
	}
	n, err := f.own(v, r.ino)
	switch {
	case err != nil:
		return err
	case r.kind == recSetAttr && r.set.Size != nil:
		return loadError(n.Content.Preload(f.source(v).Files, *r.set.Size, math.MaxInt64-*r.set.Size))
	case r.kind == recSetAttr || r.kind == recSetXattr || r.kind == recRemoveXattr:
		return nil
	}
	if err := n.Content.Preload(f.source(v).Files, r.off, r.n); err != nil || r.kind != recClone {
		return loadError(err)
	}
	from, _, err := f.inode(Node(r.view2, r.ino2))
	if err != nil {
		return err
	}
	return loadError(from.Content.Preload(f.source(v).Files, r.off2, r.n))
}

func (f *Forest) ownSlot(v *view, ino uint64) error {
	return loadError(v.state.OwnSlot(f.source(v), f.epochOf(v), ino))
}

// ownEntry is for a name that is to come, to go, or to lead elsewhere.
func (f *Forest) ownEntry(v *view, parent uint64, name string) error {
	dir, err := f.own(v, parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.OwnEntry(f.source(v), f.mu.epoch, name); err != nil {
		return loadError(err)
	}
	e, found, err := dir.Dir.Lookup(f.source(v), name)
	if found {
		_, err = f.own(v, e.Ino)
	}
	return loadError(err)
}

// fail notes that a change was journaled and not carried out, which takes a fault
// in the program: the state may be changed by half. Nothing can be changed any more
// until the store is opened again, and recovery makes the change. f.mu is held.
func (f *Forest) fail(err error) error {
	f.mu.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	f.logger.Error("no more changes until the store is opened again", "error", f.mu.failed)
	return err
}

// Failed returns why nothing can be changed any more, nil when it can.
func (f *Forest) Failed() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.failed
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

func (f *Forest) attr(v *view, ino uint64) (Attr, error) {
	n, err := f.inodeOf(v, ino)
	if err != nil {
		return Attr{}, err
	}
	return attrOf(v.id, n), nil
}

// apply makes the change that a record tells of. It is the only way in which
// a view changes, but for edits (see Forest.applyStep) and orphans.
func (f *Forest) apply(v *view, r *record) error {
	f.mu.changes++
	v.changed = f.mu.changes
	v.state.Pack(f.epochOf(v)) // no inode of the change is in use yet
	f.mu.applying = true
	v.state.Depth = max(v.state.Depth, r.depth)
	defer func() { f.mu.applying = false }()
	switch r.kind {
	case recCreate:
		f.sawIno(r.ino)
		n := newInode(r.ino, &r.create, r.time)
		return f.addNode(v, r.parent, r.name, n, r.time)
	case recLink:
		n, err := f.own(v, r.ino)
		if err != nil {
			return err
		}
		n.Ctime = r.time
		return f.addName(v, r.parent, r.name, n, r.time)
	case recRelink:
		f.sawIno(r.node.Ino)
		n := *r.node
		v.orphans.remove(f.src, f.mu.epoch, n.Ino)
		n.Nlink, n.Links, n.Ctime = 1, nil, r.time
		return f.addNode(v, r.parent, r.name, &n, r.time)
	case recUnlink:
		_, _, err := f.dropName(v, r.parent, r.name, r.time)
		return err
	case recRename:
		return f.applyRename(v, r)
	case recSetAttr:
		return f.applySetAttr(v, r)
	case recWrite, recWriteAt, recFallocate, recClone:
		return f.applyData(v, r)
	case recSetXattr, recRemoveXattr:
		return f.applyXattr(v, r)
	}
	return nil
}

// addNode puts a new inode into the state, under a name.
func (f *Forest) addNode(v *view, parent uint64, name string, n *tree.Inode, t int64) error {
	dir, err := f.own(v, parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.Insert(f.source(v), f.epochOf(v), tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
		return loadError(err)
	}
	if err := f.putNode(v, parent, name, n); err != nil {
		return err
	}
	if n.IsDir() {
		dir.Nlink++
	}
	dir.Mtime, dir.Ctime = t, t
	return nil
}

// putNode is addNode but for the directory.
func (f *Forest) putNode(v *view, parent uint64, name string, n *tree.Inode) error {
	n.Links = []tree.Link{{Parent: parent, Name: name}}
	if err := v.state.Put(f.source(v), f.epochOf(v), n); err != nil {
		return loadError(err)
	}
	v.state.Bytes += fileSize(n)
	return nil
}

// addName gives an inode of the state one more name.
func (f *Forest) addName(v *view, parent uint64, name string, n *tree.Inode, t int64) error {
	dir, err := f.own(v, parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.Insert(f.source(v), f.epochOf(v), tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
		return loadError(err)
	}
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
func (f *Forest) dropName(v *view, parent uint64, name string, t int64) (n *tree.Inode, last bool, err error) {
	dir, err := f.own(v, parent)
	if err != nil {
		return nil, false, err
	}
	e, found, err := dir.Dir.Lookup(f.source(v), name)
	if err != nil {
		return nil, false, loadError(err)
	}
	if !found {
		return nil, false, ErrNotExist
	}
	if n, last, err = f.dropLink(v, e.Ino, tree.Link{Parent: parent, Name: name}, t); err != nil {
		return nil, false, err
	}
	if err := dir.Dir.Remove(f.source(v), f.epochOf(v), name); err != nil {
		return nil, false, loadError(err)
	}
	dir.Mtime, dir.Ctime = t, t
	if n.IsDir() {
		dir.Nlink--
	}
	return n, last, nil
}

// dropLink is dropName but for the directory.
func (f *Forest) dropLink(v *view, ino uint64, l tree.Link, t int64) (n *tree.Inode, last bool, err error) {
	if n, err = v.state.Get(f.source(v), ino); err != nil {
		return nil, false, loadError(err)
	}
	if !n.IsDir() && n.Nlink > 1 {
		if n, err = f.own(v, ino); err != nil {
			return nil, false, err
		}
		n.Ctime = t
		n.RemoveLink(l)
		n.Nlink--
		return n, false, nil
	}
	v.state.Bytes -= fileSize(n)
	if err := v.state.Delete(f.source(v), f.epochOf(v), ino); err != nil {
		return nil, false, loadError(err)
	}
	if v.epoch == 0 && f.isHeld(Node(v.id, ino)) { // an edit sees to it at its end
		orphan := *n
		orphan.Ctime = t
		v.orphans.put(f.src, f.mu.epoch, &orphan)
	}
	return n, true, nil
}

func (f *Forest) applyRename(v *view, r *record) error {
	dir, err := f.own(v, r.parent)
	if err != nil {
		return err
	}
	e, found, err := dir.Dir.Lookup(f.source(v), r.name)
	if err != nil || !found {
		return loadError(orMissing(err))
	}
	n, err := f.own(v, e.Ino)
	if err != nil {
		return err
	}
	newDir, err := f.own(v, r.parent2)
	if err != nil {
		return err
	}
	e2, occupied, err := newDir.Dir.Lookup(f.source(v), r.name2)
	if err != nil {
		return loadError(err)
	}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		other, err := f.own(v, e2.Ino)
		if err != nil {
			return err
		}
		if err := f.point(v, newDir, n, r.parent, r.name, r.name2, r.time); err != nil {
			return err
		}
		if err := f.point(v, dir, other, r.parent2, r.name2, r.name, r.time); err != nil {
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
		if _, _, err := f.dropName(v, r.parent2, r.name2, r.time); err != nil {
			return err
		}
	}
	if err := dir.Dir.Remove(f.source(v), f.epochOf(v), r.name); err != nil {
		return loadError(err)
	}
	if err := f.point(v, newDir, n, r.parent, r.name, r.name2, r.time); err != nil {
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
func (f *Forest) point(v *view, dir, n *tree.Inode, oldParent uint64, oldName, name string, t int64) error {
	if err := dir.Dir.Insert(f.source(v), f.epochOf(v), tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
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
