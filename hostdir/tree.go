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
// planner compares such a path with the plan afterwards (see dirVersion).
type hostTree struct {
	host      *host
	src       *tree.Source
	base, now *tree.State
	texts     *textLog
	ctx       context.Context

	editor         *tree.Editor
	changes        map[string]tree.Change // the planner's changes
	alreadyApplied map[string]*tree.Inode // the directory's file at each path that counts as unchanged, although it has the workspace's file
	entries        map[string]hostEntry   // the entries at the paths that were read
	fullyRead      map[string]bool        // directories that were read with all entries below
	files          map[uint64]hostFile    // the files that were read, by their inode numbers in the tree
	inodeNumbers   map[fileID]uint64      // the inode numbers in the tree of the files that were read
	nextIno        uint64                 // the number for the next new file; new numbers are counted down
}

// hostEpoch is the epoch of changes to a hostTree. No state of a store has it.
const hostEpoch = math.MaxUint64 - 1

func newHostTree(ctx context.Context, h *host, o *ApplyOptions, texts *textLog) *hostTree {
	return &hostTree{
		host: h, src: o.Source, base: o.Base, now: o.Now, texts: texts, ctx: ctx, editor: &tree.Editor{State: o.Base.Clone(), Source: o.Source, Epoch: hostEpoch}, changes: make(map[string]tree.Change), alreadyApplied: make(map[string]*tree.Inode),
		entries: make(map[string]hostEntry), fullyRead: make(map[string]bool), files: make(map[uint64]hostFile), inodeNumbers: make(map[fileID]uint64), nextIno: tree.MaxIno,
	}
}

// inodeAt returns the inode at a path, nil if there is none.
func (h *hostTree) inodeAt(name string) (*tree.Inode, error) {
	return h.editor.State.InodeAt(h.src, name)
}

// dirVersion returns the directory's version of a path that was read, nil if there is none.
func (h *hostTree) dirVersion(name string) (*tree.Inode, error) {
	if n := h.alreadyApplied[name]; n != nil {
		return n, nil
	}
	return h.inodeAt(name)
}

// read reads the directory's entry at a path into the tree.
func (h *hostTree) read(p *tree.Path) error {
	name := p.String()
	if _, done := h.entries[name]; done {
		return nil
	}

	if p != nil {
		if err := h.read(p.Dir); err != nil {
			return err
		}
	}

	entry, err := h.host.entryAt(p)
	if err != nil {
		return err
	}
	h.entries[name] = entry

	before, err := h.inodeAt(name)
	if err != nil {
		return err
	}

	if entry.exists {
		if err := h.putEntry(p, entry, before); !errors.Is(err, unix.ENOENT) {
			return err
		}
		// A program has removed the file since.
		h.entries[name] = hostEntry{}
	}
	if before != nil {
		_, err = h.removeEntry(p, before)
	}

	return err
}

// readBelow reads a path and, if it is a directory, all entries below.
func (h *hostTree) readBelow(p *tree.Path) error {
	if err := h.read(p); err != nil || h.fullyRead[p.String()] || !h.entries[p.String()].isDir() {
		return err
	}
	h.fullyRead[p.String()] = true

	entries, err := h.host.readDir(p)
	if errors.Is(err, unix.EACCES) {
		return nil // the directory cannot be read, and counts as unchanged since the base
	}
	if errors.Is(err, unix.ENOENT) {
		err = nil // a program has removed the directory since, and so has the names below
	}
	if err != nil {
		return err
	}

	for _, e := range entries {
		if strings.HasPrefix(e.Name(), h.host.ownTempPrefix) {
			continue // a temporary name; the writer removes its file
		}
		if err := h.readBelow(p.ChildUnchecked(e.Name())); err != nil {
			return err
		}
	}

	// Read also the names below in the base: those that the directory does not have were deleted there.
	return h.base.Walk(h.ctx, h.src, tree.WalkOptions{Paths: []string{p.String()}}, func(q *tree.Path, _ *tree.Inode) error { return h.read(q) })
}

// removeEntry removes before, the inode at a path, if it is not nil. It returns the inode number of the directory above
// the path.
func (h *hostTree) removeEntry(p *tree.Path, before *tree.Inode) (parent uint64, err error) {
	n, err := h.editor.State.Resolve(h.src, p.Dir.String())
	if err != nil {
		return 0, err
	}
	if before != nil {
		h.editor.RemoveAll(n.Ino, p.Name, func(uint64, string, *tree.Inode, bool) {})
	}

	return n.Ino, h.editor.Err()
}

// putEntry adds the directory's entry at a path to the tree. before is the inode that the tree has at the path, or nil.
// If the entry is the result of an apply that was interrupted, the tree stays as it is, so that the merge finds no
// conflict between the workspace and that apply.
func (h *hostTree) putEntry(p *tree.Path, entry hostEntry, before *tree.Inode) error {
	isDir := entry.isDir()
	number, known := h.inodeNumbers[entry.id()]
	c := h.changes[p.String()]
	if known && !isDir && (c.After == nil || before != nil && before.Ino == number) {
		return h.linkEntry(p, number, before)
	}

	n, same, err := h.newInode(p, entry, before)
	if err != nil {
		return err
	}

	if applied, err := h.isApplied(c, n, known); err != nil {
		return err
	} else if applied {
		n.Ino, h.nextIno = h.nextIno, h.nextIno-1
		h.alreadyApplied[p.String()] = n
		h.files[n.Ino] = hostFile{path: p, id: entry.id()}
		return nil
	}
	if known && !isDir {
		return h.linkEntry(p, number, before)
	}

	keepsIno, err := h.keepsNumber(before, n)
	switch {
	case err != nil:
		return err
	case keepsIno:
		n.Ino = before.Ino
		if !same {
			owned := h.editor.Own(before.Ino)
			owned.SetAttrs(n, n.Ctime)
			owned.Content, owned.Target, owned.Rdev = n.Content, n.Target, n.Rdev
		}

	default:
		parent, err := h.removeEntry(p, before)
		if err != nil {
			return err
		}
		n.Ino, h.nextIno = h.nextIno, h.nextIno-1
		h.editor.Add(parent, p.Name, n)
	}

	if !isDir {
		h.inodeNumbers[entry.id()] = n.Ino
		h.files[n.Ino] = hostFile{path: p, id: entry.id()}
	}

	return h.editor.Err()
}

// isApplied reports whether an earlier apply, which was interrupted, has already put the file c.After at its path. n is
// the file that the directory has there. An apply first gives a file its new names and contents, and sets attributes
// last, so an interrupted apply leaves files that have the contents of c.After and the attributes of the base.
//
// If c.Before also has the contents and attributes of n, comparing them cannot show that the apply ran. This happens if
// the change makes the path a hard link of another file with equal contents. Then the result is linked: whether n is
// also at another path at which the base has a different file. Such a link is newer than the base, so the apply has made
// it.
func (h *hostTree) isApplied(c tree.Change, n *tree.Inode, linked bool) (bool, error) {
	if c.After == nil || c.After.IsDir() || n.IsDir() || c.After.Type() != n.Type() {
		return false, nil
	}
	same, err := h.sameData(n, c.After)
	if err != nil || !same {
		return false, err
	}

	baseNode, err := h.base.Find(h.src, c.After.Ino)
	if err != nil {
		return false, err
	}
	if !tree.SameAttrs(n, c.After) && (baseNode == nil || !tree.SameAttrs(n, baseNode)) {
		return false, nil
	}

	unchanged, err := tree.SameFile(h.src, c.Before, n)
	return err == nil && (!unchanged || linked), err
}

// keepsNumber reports whether n, the directory's file at a path, gets the inode number of before, the inode
// that the tree has at this path. No other file that was read may have this number. If before has several
// names, n must also have the contents of before, or those that the workspace gave that file.
func (h *hostTree) keepsNumber(before, n *tree.Inode) (bool, error) {
	if before == nil || before.Type() != n.Type() {
		return false, nil
	}
	if _, taken := h.files[before.Ino]; taken || before.IsDir() || len(before.Links) == 1 {
		return !taken, nil
	}

	same, err := tree.SameData(h.src, before, n)
	if err != nil || same {
		return same, err
	}

	after, err := h.now.Find(h.src, before.Ino)
	if after == nil || err != nil {
		return false, err
	}
	return tree.SameData(h.src, after, n)
}

// linkEntry makes a path a further hard link of a file in the tree.
func (h *hostTree) linkEntry(p *tree.Path, number uint64, before *tree.Inode) error {
	if before != nil && before.Ino == number {
		return nil
	}
	parent, err := h.removeEntry(p, before)
	if err != nil {
		return err
	}
	h.editor.Link(parent, p.Name, number)

	return h.editor.Err()
}

// newInode returns the directory's entry at a path as an inode. same is set if the entry equals before, the
// inode that the tree has at the path.
func (h *hostTree) newInode(p *tree.Path, entry hostEntry, before *tree.Inode) (n *tree.Inode, same bool, err error) {
	st := &entry.st
	n = &tree.Inode{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Nlink: 1, Mtime: timeOf(st.Mtim)}
	if entry.isDir() {
		n.Nlink = 2
	}
	if err := h.restoreOwner(p, n, before); err != nil {
		return nil, false, err
	}

	attrsKept := before != nil && before.Mode == n.Mode && before.UID == n.UID && before.GID == n.GID
	if attrsKept && before.Mtime == n.Mtime && before.Ctime == changeTime(st) && (!before.IsRegular() || before.Size() == st.Size) {
		n.Xattrs, n.Content, n.Target, n.Rdev = before.Xattrs, before.Content, before.Target, before.Rdev
		return n, true, nil
	}

	n.Xattrs, err = h.host.xattrs(p)
	if errors.Is(err, unix.EACCES) {
		if err = nil; before != nil {
			n.Xattrs = before.Xattrs
		}
	}
	if err == nil && !entry.isDir() {
		err = h.setContents(p, entry, n)
	}

	same = attrsKept && before.Mtime == n.Mtime && tree.SameXattrs(before, n) && before.Content == n.Content && before.Target == n.Target && before.Rdev == n.Rdev
	return n, same, err
}

// restoreOwner sets the owner of an inode to the owner in the base or, if the base does not have the file, in the
// workspace: an ordinary user cannot change owners, so another owner counts as no change. For root it does nothing.
func (h *hostTree) restoreOwner(p *tree.Path, n, before *tree.Inode) (err error) {
	if os.Geteuid() == 0 {
		return nil
	}
	if before == nil {
		if before, err = h.now.InodeAt(h.src, p.String()); err != nil {
			return err
		}
	}
	if before != nil && before.UID != n.UID {
		n.UID, n.GID = before.UID, before.GID
	}
	return nil
}

// setContents sets the contents of a file that is no directory. Contents that equal the contents in the base or in the
// workspace are replaced by these, so that the merge need not compare bytes.
func (h *hostTree) setContents(p *tree.Path, entry hostEntry, n *tree.Inode) (err error) {
	readable := true

	switch n.Type() {
	case unix.S_IFLNK:
		n.Target, err = h.host.readlink(p)
	case unix.S_IFREG:
		n.Content, readable, err = h.texts.fileContent(p, entry.st.Size)
	case unix.S_IFBLK, unix.S_IFCHR:
		n.Rdev = uint32(entry.st.Rdev)
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

	// The contents are not known, so random bytes are used: they differ from the contents of all other files.
	if !readable {
		n.Content, err = h.texts.storeText(h.ctx, strings.NewReader("\x00"+rand.Text()))
		return err
	}

	half, err := h.isHalfWritten(p, entry, versions[0], versions[1])
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
		return false, nil // the store does not have the contents of v, because the file changed while it was imported
	}
	return same, err
}

// isHalfWritten reports whether an apply was killed while it overwrote a file. Such a file counts as
// unchanged since the base.
func (h *hostTree) isHalfWritten(p *tree.Path, entry hostEntry, baseNode, nowNode *tree.Inode) (bool, error) {
	st := entry.st
	if os.Geteuid() == 0 || baseNode == nil || nowNode == nil || baseNode.Ino != nowNode.Ino || !nowNode.IsRegular() ||
		st.Mode != baseNode.Mode || st.Size > max(baseNode.Size(), nowNode.Size()) || st.Size < min(baseNode.Size(), nowNode.Size()) {
		return false, nil
	}
	if dir, err := h.host.parentFD(p); err != nil || st.Uid == uint32(os.Geteuid()) && !isLockedDir(dir) {
		return false, err
	}

	f, err := h.host.openFile(p)
	if err != nil {
		return false, errs.Ignore(err, unix.EACCES)
	}
	defer f.Close()

	dirReader, baseReader, nowReader := bufio.NewReader(f), bufio.NewReader(baseNode.Content.Reader(h.src.Files)), bufio.NewReader(nowNode.Content.Reader(h.src.Files))

	for {
		b, err := dirReader.ReadByte()
		if err != nil {
			return errors.Is(err, io.EOF), errs.Ignore(err, io.EOF)
		}

		x, xerr := baseReader.ReadByte()
		y, yerr := nowReader.ReadByte()
		if (xerr != nil || b != x) && (yerr != nil || b != y) {
			return false, nil
		}
	}
}

// hasMoreThanBase reports whether the directory has an entry below a path that the base does not have.
func (h *hostTree) hasMoreThanBase(name string) (bool, error) {
	found := false
	err := h.editor.State.Walk(h.ctx, h.src, tree.WalkOptions{Paths: []string{name}}, func(p *tree.Path, _ *tree.Inode) error {
		n, err := h.base.InodeAt(h.src, p.String())
		found = found || n == nil && p.String() != name
		return err
	})
	return found, err
}

// isFileInWay reports whether a file that the base does not have is at the path of a directory, or above it.
func (h *hostTree) isFileInWay(dir string) (bool, error) {
	for ; dir != "."; dir = path.Dir(dir) {
		if n, err := h.inodeAt(dir); err != nil || n != nil && n.IsDir() {
			return false, err
		} else if n != nil {
			baseNode, err := h.base.InodeAt(h.src, dir)
			return baseNode == nil || baseNode.IsDir(), err
		}
	}
	return false, nil
}
