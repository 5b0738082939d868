package hostdir

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A hostTree is a directory as a tree for the merge: the base, with the directory's entries at
// the paths that were read. All other paths are assumed to be as in the base.
//
// A path at which the directory has the workspace's version of a file already counts as unchanged since the base. So
// the merge does not depend on how far an interrupted apply came, and finds no conflict in what that apply did. The
// planner compares such a path with the plan afterwards (see here).
type hostTree struct {
	host      *host
	src       *tree.Source
	base, now *tree.State
	texts     *textLog
	ctx       context.Context

	edit    *tree.Editor
	changes map[string]tree.Change // the planner's changes
	applied map[string]*tree.Inode // the directory's files at the paths that count as unchanged, but have the workspace's file
	places  map[string]hostEntry   // the entries at the paths that were read
	listed  map[string]bool        // directories that were read with all entries below
	files   map[uint64]hostFile    // the files that were read, by their inode numbers in the tree
	numbers map[fileID]uint64      // the inode numbers in the tree of the files that were read
	last    uint64                 // the number of the last new file; new numbers are counted down
}

// hostEpoch is the epoch of changes to a hostTree. No state of a store has it.
const hostEpoch = math.MaxUint64 - 1

func newHostTree(ctx context.Context, h *host, o *ApplyOptions, texts *textLog) *hostTree {
	return &hostTree{
		host: h, src: o.Source, base: o.Base, now: o.Now, texts: texts, ctx: ctx, edit: &tree.Editor{State: o.Base.Clone(), Source: o.Source, Epoch: hostEpoch}, changes: make(map[string]tree.Change), applied: make(map[string]*tree.Inode),
		places: make(map[string]hostEntry), listed: make(map[string]bool), files: make(map[uint64]hostFile), numbers: make(map[fileID]uint64), last: tree.MaxIno,
	}
}

// at returns the inode at a path, nil if there is none.
func (h *hostTree) at(name string) (*tree.Inode, error) { return h.edit.State.InodeAt(h.src, name) }

// here returns the directory's version of a path that was read, nil if there is none.
func (h *hostTree) here(name string) (*tree.Inode, error) {
	if n := h.applied[name]; n != nil {
		return n, nil
	}
	return h.at(name)
}

// read reads the directory's entry at a path into the tree.
func (h *hostTree) read(p *tree.Path) error {
	name := p.String()
	if _, done := h.places[name]; done {
		return nil
	}

	if p != nil {
		if err := h.read(p.Dir); err != nil {
			return err
		}
	}

	at, err := h.host.look(p)
	if err != nil {
		return err
	}
	h.places[name] = at

	was, err := h.at(name)
	if err != nil {
		return err
	}

	switch {
	case at.exists:
		err = h.put(p, at, was)
	case was != nil:
		_, err = h.remove(p, was)
	}

	return err
}

// readBelow reads a path and, if it is a directory, all entries below.
func (h *hostTree) readBelow(p *tree.Path) error {
	if err := h.read(p); err != nil || h.listed[p.String()] || !h.places[p.String()].isDir() {
		return err
	}
	h.listed[p.String()] = true

	entries, err := h.host.list(p)
	if errors.Is(err, unix.EACCES) {
		return nil // the directory cannot be read, and counts as unchanged since the base
	}
	if err != nil {
		return err
	}

	for _, e := range entries {
		if strings.HasPrefix(e.Name(), h.host.temps) {
			continue // a temporary name; the writer removes its file
		}
		if err := h.readBelow(p.ChildUnchecked(e.Name())); err != nil {
			return err
		}
	}

	// The base may have names that the directory does not have.
	return h.base.WalkFrom(h.ctx, h.src, p.String(), func(q *tree.Path, _ *tree.Inode) error { return h.read(q) })
}

// remove removes was, the inode at a path, if it is not nil. It returns the inode number of the directory above
// the path.
func (h *hostTree) remove(p *tree.Path, was *tree.Inode) (parent uint64, err error) {
	n, err := h.edit.State.Resolve(h.src, p.Dir.String())
	if err != nil {
		return 0, err
	}
	if was != nil {
		h.edit.RemoveAll(n.Ino, p.Name, func(uint64, string, *tree.Inode, bool) {})
	}

	return n.Ino, h.edit.Err()
}

// put adds the directory's entry at a path to the tree. was is the inode that the tree has at the path, or nil.
func (h *hostTree) put(p *tree.Path, at hostEntry, was *tree.Inode) error {
	isDir := at.isDir()
	number, known := h.numbers[at.id()]
	c := h.changes[p.String()]
	if known && !isDir && (c.After == nil || was != nil && was.Ino == number) {
		return h.link(p, number, was)
	}

	n, same, err := h.inode(p, at, was)
	if err != nil {
		return err
	}

	if applied, err := h.isApplied(c, n, known); err != nil {
		return err
	} else if applied {
		n.Ino, h.last = h.last, h.last-1
		h.applied[p.String()] = n
		h.files[n.Ino] = hostFile{at: p, id: at.id()}
		return nil
	}
	if known && !isDir {
		return h.link(p, number, was)
	}

	again, err := h.continues(was, n)
	switch {
	case err != nil:
		return err
	case again:
		n.Ino = was.Ino
		if !same {
			own := h.edit.Own(was.Ino)
			own.SetAttrs(n, n.Ctime)
			own.Content, own.Target, own.Rdev = n.Content, n.Target, n.Rdev
		}

	default:
		parent, err := h.remove(p, was)
		if err != nil {
			return err
		}
		n.Ino, h.last = h.last, h.last-1
		h.edit.Add(parent, p.Name, n)
	}

	if !isDir {
		h.numbers[at.id()] = n.Ino
		h.files[n.Ino] = hostFile{at: p, id: at.id()}
	}

	return h.edit.Err()
}

// isApplied reports whether n, the directory's file at the path of a change, is what the change makes of it. Its
// attributes may be those that the file has in the base, at another path: an apply sets attributes last. If the change
// keeps the contents, n is also what was at the path; then it is the changed file only if it has another name.
func (h *hostTree) isApplied(c tree.Change, n *tree.Inode, linked bool) (bool, error) {
	if c.After == nil || c.After.IsDir() || n.IsDir() || c.After.Type() != n.Type() {
		return false, nil
	}
	same, err := h.sameData(n, c.After)
	if err != nil || !same {
		return false, err
	}

	was, err := h.base.Get(h.src, c.After.Ino)
	if err = errs.Ignore(err, tree.ErrNoInode); err != nil {
		return false, err
	}
	if !sameAttrs(n, c.After) && (was == nil || was.Type() != n.Type() || !sameAttrs(n, was)) {
		return false, nil
	}

	unchanged, err := isUnchanged(h.src, c, n)
	return err == nil && (!unchanged || linked), err
}

// isUnchanged reports whether n, the directory's file at the path of a change, is also the file before the change.
func isUnchanged(src *tree.Source, c tree.Change, n *tree.Inode) (bool, error) {
	if c.Before == nil || c.Before.Type() != n.Type() || !sameAttrs(n, c.Before) {
		return false, nil
	}
	return tree.SameData(src, c.Before, n)
}

// sameAttrs reports whether two inodes have equal modes, owners, groups and extended attributes.
func sameAttrs(n, m *tree.Inode) bool {
	return n.Mode == m.Mode && n.UID == m.UID && n.GID == m.GID && tree.SameXattrs(n, m)
}

// continues reports whether n, the file at a name of was, gets the inode number of was. It does if no other file
// that was read has this number. If was has several names, the contents must be equal, too.
func (h *hostTree) continues(was, n *tree.Inode) (bool, error) {
	if was == nil || was.Type() != n.Type() {
		return false, nil
	}
	if _, taken := h.files[was.Ino]; taken || was.IsDir() || len(was.Links) == 1 {
		return !taken, nil
	}
	return tree.SameData(h.src, was, n)
}

// link makes a path a further hard link of a file in the tree.
func (h *hostTree) link(p *tree.Path, number uint64, was *tree.Inode) error {
	if was != nil && was.Ino == number {
		return nil
	}
	parent, err := h.remove(p, was)
	if err != nil {
		return err
	}
	h.edit.Link(parent, p.Name, number)

	return h.edit.Err()
}

// inode returns the directory's entry at a path as an inode. same is set if it equals was.
func (h *hostTree) inode(p *tree.Path, at hostEntry, was *tree.Inode) (n *tree.Inode, same bool, err error) {
	st := &at.st
	n = &tree.Inode{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Nlink: 1, Mtime: timeOf(st.Mtim)}
	if at.isDir() {
		n.Nlink = 2
	}
	if err := h.keepOwner(p, n, was); err != nil {
		return nil, false, err
	}

	kept := was != nil && was.Mode == n.Mode && was.UID == n.UID && was.GID == n.GID
	if kept && was.Mtime == n.Mtime && was.Ctime == changeTime(st) && (!was.IsRegular() || was.Size() == st.Size) {
		n.Xattrs, n.Content, n.Target, n.Rdev = was.Xattrs, was.Content, was.Target, was.Rdev
		return n, true, nil
	}

	n.Xattrs, err = h.host.xattrs(p)
	if errors.Is(err, unix.EACCES) {
		if err = nil; was != nil {
			n.Xattrs = was.Xattrs
		}
	}
	if err == nil && !at.isDir() {
		err = h.data(p, at, n)
	}

	same = kept && was.Mtime == n.Mtime && tree.SameXattrs(was, n) && was.Content == n.Content && was.Target == n.Target && was.Rdev == n.Rdev
	return n, same, err
}

// keepOwner sets the owner of an inode to the owner in the base or, if the base does not have it, in the
// workspace. For root it does nothing: other users cannot change owners.
func (h *hostTree) keepOwner(p *tree.Path, n, was *tree.Inode) (err error) {
	if os.Geteuid() == 0 {
		return nil
	}
	if was == nil {
		if was, err = h.now.InodeAt(h.src, p.String()); err != nil {
			return err
		}
	}
	if was != nil && was.UID != n.UID {
		n.UID, n.GID = was.UID, was.GID
	}
	return nil
}

// data sets the contents of a file that is no directory. Contents that equal the contents in the base or in the
// workspace are replaced by these, so that the merge need not compare bytes.
func (h *hostTree) data(p *tree.Path, at hostEntry, n *tree.Inode) (err error) {
	readable := true

	switch n.Type() {
	case unix.S_IFLNK:
		n.Target, err = h.host.readlink(p)
	case unix.S_IFREG:
		n.Content, readable, err = h.texts.ofFile(p, at.st.Size)
	case unix.S_IFBLK, unix.S_IFCHR:
		n.Rdev = uint32(at.st.Rdev)
	}
	if err != nil {
		return err
	}

	var versions [2]*tree.Inode

	for i, st := range []*tree.State{h.base, h.now} {
		v, err := st.InodeAt(h.src, p.String())
		if err != nil {
			return err
		}
		if versions[i] = v; v == nil || v.IsDir() {
			continue
		}

		same, err := h.sameData(n, v)
		if err != nil {
			return fmt.Errorf("reading %q: %w", p.Short(), err)
		}
		if same {
			n.Content = v.Content
			return nil
		}
	}

	if !readable { // the contents are random bytes, which equal no other file's
		n.Content, err = h.texts.store(h.ctx, strings.NewReader("\x00"+rand.Text()))
		return err
	}

	half, err := h.halfWritten(p, at, versions[0], versions[1])
	if half {
		n.Content = versions[0].Content
	}

	return err
}

// sameData reports whether a file of the directory has the contents of an inode. A file that cannot be read
// counts as equal if it has the same modification time.
func (h *hostTree) sameData(n, v *tree.Inode) (bool, error) {
	same, err := tree.SameData(h.src, n, v)
	switch k := errs.ScriptKind(err); {
	case errors.Is(err, unix.EACCES):
		return n.Mtime == v.Mtime, nil
	case err != nil && (k == errs.NotExist || k == errs.Damaged):
		return false, nil // the import could not read this version, because the file changed
	}
	return same, err
}

// halfWritten reports whether an apply was killed while it overwrote a file. Such a file counts as
// unchanged since the base.
func (h *hostTree) halfWritten(p *tree.Path, at hostEntry, was, is *tree.Inode) (bool, error) {
	st := at.st
	if os.Geteuid() == 0 || was == nil || is == nil || was.Ino != is.Ino || !is.IsRegular() ||
		st.Mode != was.Mode || st.Size > max(was.Size(), is.Size()) || st.Size < min(was.Size(), is.Size()) {
		return false, nil
	}
	if dir, err := h.host.dirOf(p); err != nil || st.Uid == uint32(os.Geteuid()) && !lockedDir(dir) {
		return false, err
	}

	f, err := h.host.file(p)
	if err != nil {
		return false, errs.Ignore(err, unix.EACCES)
	}
	defer f.Close()

	here, before, after := bufio.NewReader(f), bufio.NewReader(was.Content.Reader(h.src.Files)), bufio.NewReader(is.Content.Reader(h.src.Files))

	for {
		b, err := here.ReadByte()
		if err != nil {
			return errors.Is(err, io.EOF), errs.Ignore(err, io.EOF)
		}

		x, xerr := before.ReadByte()
		y, yerr := after.ReadByte()
		if (xerr != nil || b != x) && (yerr != nil || b != y) {
			return false, nil
		}
	}
}

// hasMoreThanBase reports whether the directory has an entry below a path that the base does not have.
func (h *hostTree) hasMoreThanBase(name string) (bool, error) {
	only := false
	err := h.edit.State.WalkFrom(h.ctx, h.src, name, func(p *tree.Path, _ *tree.Inode) error {
		n, err := h.base.InodeAt(h.src, p.String())
		only = only || n == nil && p.String() != name
		return err
	})
	return only, err
}

// isFileInWay reports whether a file that the base does not have is at the path of a directory, or above it.
func (h *hostTree) isFileInWay(dir string) (bool, error) {
	for ; dir != "."; dir = path.Dir(dir) {
		if n, err := h.at(dir); err != nil || n != nil && n.IsDir() {
			return false, err
		} else if n != nil {
			was, err := h.base.InodeAt(h.src, dir)
			return was == nil || was.IsDir(), err
		}
	}
	return false, nil
}
