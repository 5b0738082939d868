package live

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// commit journals a record and applies it. f.mu is held for writing.
func (f *Forest) commit(v *view, r *record, data []byte) error {
	if f.mu.uncertain != nil {
		return f.mu.uncertain
	}
	if err := f.preload(v, r); err != nil {
		return err
	}
	r.encode(f.mu.enc)
	write := f.log.Append
	if r.frees() {
		write = f.log.AppendUrgent
	}
	pos, err := write(r.kind, f.mu.enc.Out(), data)
	if err != nil {
		return appendError(err)
	}
	if r.kind == recWrite {
		r.pos = pos
	}
	return f.carryOut(v, r)
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
// a view changes, but for grafts (see graft.go) and orphans.
func (f *Forest) apply(v *view, r *record) error {
	f.mu.changes++
	v.changed = f.mu.changes
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
		delete(v.orphans, n.Ino)
		n.Nlink, n.Links, n.Ctime = 1, nil, r.time
		return f.addNode(v, r.parent, r.name, &n, r.time)
	case recUnlink:
		_, err := f.dropName(v, r.parent, r.name, r.time)
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
	n.Links = []tree.Link{{Parent: parent, Name: name}}
	if err := dir.Dir.Insert(f.src, f.mu.epoch, tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
		return loadError(err)
	}
	if err := v.state.Put(f.src, f.mu.epoch, n); err != nil {
		return loadError(err)
	}
	if n.IsDir() {
		dir.Nlink++
	}
	dir.Mtime, dir.Ctime = t, t
	v.state.Bytes += fileSize(n)
	return nil
}

// addName gives an inode of the state one more name.
func (f *Forest) addName(v *view, parent uint64, name string, n *tree.Inode, t int64) error {
	dir, err := f.own(v, parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.Insert(f.src, f.mu.epoch, tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
		return loadError(err)
	}
	n.Links = append(slices.Clip(n.Links), tree.Link{Parent: parent, Name: name})
	n.Nlink++
	dir.Mtime, dir.Ctime = t, t
	return nil
}

// dropName removes a name, and the inode with its last one.
func (f *Forest) dropName(v *view, parent uint64, name string, t int64) (*tree.Inode, error) {
	dir, err := f.own(v, parent)
	if err != nil {
		return nil, err
	}
	e, found, err := dir.Dir.Lookup(f.src, name)
	if err != nil {
		return nil, loadError(err)
	}
	if !found {
		return nil, ErrNotExist
	}
	n, err := f.own(v, e.Ino)
	if err != nil {
		return nil, err
	}
	if err := dir.Dir.Remove(f.src, f.mu.epoch, name); err != nil {
		return nil, loadError(err)
	}
	dir.Mtime, dir.Ctime = t, t
	n.Ctime = t
	n.Links = withoutLink(n.Links, parent, name)
	if n.IsDir() {
		dir.Nlink--
		n.Nlink = 0
	} else {
		n.Nlink--
	}
	if n.Nlink > 0 {
		return n, nil
	}
	v.state.Bytes -= fileSize(n)
	if err := v.state.Delete(f.src, f.mu.epoch, n.Ino); err != nil {
		return nil, loadError(err)
	}
	if f.isHeld(Node(v.id, n.Ino)) {
		orphan := *n
		v.orphans[n.Ino] = &orphan
	}
	return n, nil
}

func withoutLink(links []tree.Link, parent uint64, name string) []tree.Link {
	out := make([]tree.Link, 0, len(links))
	for i, l := range links {
		if l.Parent == parent && l.Name == name {
			return append(out, links[i+1:]...)
		}
		out = append(out, l)
	}
	return out
}

func (f *Forest) applyRename(v *view, r *record) error {
	dir, err := f.own(v, r.parent)
	if err != nil {
		return err
	}
	e, found, err := dir.Dir.Lookup(f.src, r.name)
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
	e2, occupied, err := newDir.Dir.Lookup(f.src, r.name2)
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
		if _, err := f.dropName(v, r.parent2, r.name2, r.time); err != nil {
			return err
		}
	}
	if err := dir.Dir.Remove(f.src, f.mu.epoch, r.name); err != nil {
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
	if err := dir.Dir.Insert(f.src, f.mu.epoch, tree.Dirent{Name: name, Ino: n.Ino, Type: n.Mode & unix.S_IFMT}); err != nil {
		return loadError(err)
	}
	n.Links = append(withoutLink(n.Links, oldParent, oldName), tree.Link{Parent: dir.Ino, Name: name})
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
