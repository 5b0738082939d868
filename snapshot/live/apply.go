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
	if low := r.content.MinPos(); r.kind == recRelink && low < NoPos {
		v.trees.mu.relinked = append(v.trees.mu.relinked, relinked{pos, low})
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
	case recCreate, recLink:
		return errors.Join(v.ownEntry(r.parent, r.name), v.ownSlot(r.ino))
	case recRelink:
		return errors.Join(v.ownEntry(r.parent, r.name), v.ownSlot(r.node.Ino))
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

// apply makes the change that a record describes. It is the only way in which
// a view changes, but for edits (see view.applyStep) and orphans.
func (v *view) apply(r *record) error {
	v.trees.mu.changes++
	v.changed = v.trees.mu.changes
	v.trees.mu.applying = true
	v.state.Depth = max(v.state.Depth, r.depth)
	defer func() { v.trees.mu.applying = false }()
	c := &applying{v: v, t: r.time}
	switch r.kind {
	case recCreate:
		v.trees.sawIno(r.ino)
		c.addNode(r.parent, r.name, newInode(r.ino, &r.create, r.time))
	case recLink:
		c.addName(r.parent, r.name, r.ino)
	case recRelink:
		v.trees.sawIno(r.node.Ino)
		n := *r.node
		v.orphans.remove(v.trees.src, v.trees.mu.epoch, n.Ino)
		n.Nlink, n.Links, n.Ctime = 1, nil, r.time
		c.addNode(r.parent, r.name, &n)
	case recUnlink:
		c.dropName(r.parent, r.name)
	case recRename:
		c.rename(r)
	default:
		return v.applyTo(r)
	}
	return c.err
}

// applyTo makes a change of one inode.
func (v *view) applyTo(r *record) error {
	n, err := v.own(r.ino)
	if errors.Is(err, ErrStale) {
		return nil // an orphan, met in recovery
	}
	if err != nil {
		return err
	}
	before := fileSize(n)
	if r.kind != recSetAttr || r.set.marks() {
		v.mark(r.ino)
	}
	n.Ctime = r.time
	switch r.kind {
	case recSetAttr:
		err = v.setAttr(n, r)
	case recSetXattr:
		n.Xattrs = withXattr(n.Xattrs, r.name, r.value)
		if r.kill {
			n.Mode &^= unix.S_ISGID
		}
	case recRemoveXattr:
		n.Xattrs = withoutXattr(n.Xattrs, r.name)
	default:
		err = v.setData(n, r)
	}
	if n.Nlink > 0 {
		v.state.Bytes += fileSize(n) - before
	}
	return loadError(err)
}

// applying is a change of a view under way, at a time. After an error its methods do
// nothing more, and err has it.
type applying struct {
	v   *view
	t   int64
	err error
}

// ok notes an error, and reports whether there was none yet.
func (c *applying) ok(err error) bool {
	if c.err == nil {
		c.err = loadError(err)
	}
	return c.err == nil
}

// own returns an inode for changing it.
func (c *applying) own(ino uint64) *tree.Inode {
	if c.err == nil {
		n, err := c.v.own(ino)
		if c.ok(err) {
			return n
		}
	}
	return &tree.Inode{}
}

func (c *applying) lookup(dir *tree.Inode, name string) (e tree.Dirent, found bool) {
	if c.err == nil {
		var err error
		e, found, err = dir.Dir.Lookup(c.v.source(), name)
		c.ok(err)
	}
	return e, found
}

// enter makes a name in a directory lead to n.
func (c *applying) enter(dir *tree.Inode, name string, n *tree.Inode) {
	if c.err == nil {
		c.ok(dir.Dir.Insert(c.v.source(), c.v.currentEpoch(), tree.Dirent{Name: name, Ino: n.Ino, Type: n.Type()}))
		dir.Mtime, dir.Ctime = c.t, c.t
	}
}

func (c *applying) leave(dir *tree.Inode, name string) {
	if c.err == nil {
		c.ok(dir.Dir.Remove(c.v.source(), c.v.currentEpoch(), name))
		dir.Mtime, dir.Ctime = c.t, c.t
	}
}

// addNode puts a new inode into the state, under a name.
func (c *applying) addNode(parent uint64, name string, n *tree.Inode) {
	dir := c.own(parent)
	c.enter(dir, name, n)
	n.Links = []tree.Link{{Parent: parent, Name: name}}
	if c.err != nil || !c.ok(c.v.state.Put(c.v.source(), c.v.currentEpoch(), n)) {
		return
	}
	c.v.mark(n.Ino)
	c.v.state.Bytes += fileSize(n)
	if n.IsDir() {
		dir.Nlink++
	}
}

// addName gives an inode of the state one more name.
func (c *applying) addName(parent uint64, name string, ino uint64) {
	n, dir := c.own(ino), c.own(parent)
	if c.enter(dir, name, n); c.err != nil {
		return
	}
	c.v.mark(n.Ino)
	n.AddLink(tree.Link{Parent: parent, Name: name})
	n.Nlink++
	n.Ctime = c.t
}

// dropName removes a name, and the inode with its last one: it is returned as it was then.
func (c *applying) dropName(parent uint64, name string) (n *tree.Inode, last bool) {
	dir := c.own(parent)
	e, found := c.lookup(dir, name)
	if !found {
		c.ok(ErrNotExist)
	}
	n, last = c.dropLink(e.Ino, tree.Link{Parent: parent, Name: name})
	if c.leave(dir, name); c.err != nil {
		return n, last
	}
	c.v.vacate(parent, name)
	if n.IsDir() {
		dir.Nlink--
	}
	return n, last
}

// dropLink is dropName but for the directory.
func (c *applying) dropLink(ino uint64, l tree.Link) (n *tree.Inode, last bool) {
	if c.err != nil {
		return &tree.Inode{}, false
	}
	v := c.v
	n, err := v.state.Get(v.source(), ino)
	if !c.ok(err) {
		return &tree.Inode{}, false
	}
	v.mark(ino)
	if !n.IsDir() && n.Nlink > 1 {
		n = c.own(ino)
		n.Ctime = c.t
		n.RemoveLink(l)
		n.Nlink--
		return n, false
	}
	v.state.Bytes -= fileSize(n)
	if c.ok(v.state.Delete(v.source(), v.currentEpoch(), ino)) && v.epoch == 0 && v.trees.Held(Node(v.id, ino)) { // an edit sees to it at its end
		orphan := *n
		orphan.Ctime = c.t
		v.orphans.put(v.trees.src, v.trees.mu.epoch, &orphan)
	}
	return n, true
}

func (c *applying) rename(r *record) {
	dir, newDir := c.own(r.parent), c.own(r.parent2)
	e, found := c.lookup(dir, r.name)
	if !found {
		c.ok(ErrNotExist)
	}
	n := c.own(e.Ino)
	e2, occupied := c.lookup(newDir, r.name2)
	exchange := r.flags&unix.RENAME_EXCHANGE != 0
	var other *tree.Inode
	switch {
	case exchange:
		other = c.own(e2.Ino)
	case occupied:
		c.dropName(r.parent2, r.name2)
	}
	if c.err != nil {
		return
	}
	c.v.mark(n.Ino)
	switch {
	case exchange:
		c.v.mark(other.Ino)
		c.move(newDir, n, r.parent, r.name, r.name2)
		c.move(dir, other, r.parent2, r.name2, r.name)
	case r.flags&unix.RENAME_WHITEOUT != 0:
		c.v.trees.sawIno(r.ino)
		c.move(newDir, n, r.parent, r.name, r.name2)
		c.addNode(r.parent, r.name, newInode(r.ino, &r.create, r.time))
	default:
		c.v.vacate(r.parent, r.name)
		c.leave(dir, r.name)
		c.move(newDir, n, r.parent, r.name, r.name2)
	}
	if n.IsDir() {
		dir.Nlink--
		newDir.Nlink++
	}
	if exchange && other.IsDir() {
		newDir.Nlink--
		dir.Nlink++
	}
}

// move makes name in dir lead to n, which had another name until now.
func (c *applying) move(dir, n *tree.Inode, oldParent uint64, oldName, name string) {
	if c.enter(dir, name, n); c.err != nil {
		return
	}
	n.RemoveLink(tree.Link{Parent: oldParent, Name: oldName})
	n.AddLink(tree.Link{Parent: dir.Ino, Name: name})
	n.Ctime = c.t
}

func fileSize(n *tree.Inode) int64 {
	if n.IsRegular() {
		return n.Size()
	}
	return 0
}
