package live

import (
	"context"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// Graft says how Graft is to make changes.
type Graft struct {
	// Prefix is put before every path; "" is the root.
	Prefix string
	// Touch gives what is put in place the time Now as mtime, and so their
	// directories. Without it everything gets the times that it has in the
	// source.
	Touch bool
	// Exact gives directories whose entries changed the attributes that they
	// have in the source, where they exist there: the view becomes the source.
	Exact bool
	// KeepFull leaves directories that are to go but hold something else.
	KeepFull bool
	// Now is the time of the change in nanoseconds since 1970.
	Now int64
}

// Diff tells what makes a writable view differ from a state, in the order of
// paths.
func (tx *Tx) Diff(ctx context.Context, view uint32, to *tree.State, o tree.DiffOptions) ([]tree.Change, error) {
	v, ok := tx.f.mu.views[view]
	if !ok {
		return nil, ErrStale
	}
	var out []tree.Change
	err := tree.Diff(ctx, tx.f.src, v.state, to, o, func(c tree.Change) error {
		out = append(out, c)
		return nil
	})
	return out, loadError(err)
}

// Graft makes the changes that Diff or Overlay found in a view: what is at A
// there becomes what is at B in the source. Directories that are in both keep
// their inode; anything else that differs gets a new one, so that nothing
// which still has the old one open can reach the new. The same view and
// changes always come to the same result, as recovery needs.
func (tx *Tx) Graft(view uint32, source *tree.State, changes []tree.Change, g Graft) (Invalidation, error) {
	v, ok := tx.f.mu.views[view]
	if !ok {
		return Invalidation{}, ErrStale
	}
	// What the view holds now is still needed by the changes themselves.
	tx.f.mu.epoch++
	tx.f.mu.changes++
	v.changed = tx.f.mu.changes
	j := &graft{f: tx.f, v: v, source: source, g: g, dirs: make(map[string]uint64), links: make(map[uint64]uint64), edited: make(map[string]uint64), stale: make(map[NodeID]bool)}
	if err := j.run(changes); err != nil {
		return Invalidation{}, err
	}
	for id := range j.stale {
		j.inv.Inodes = append(j.inv.Inodes, id)
	}
	slices.Sort(j.inv.Inodes)
	return j.inv, nil
}

type graft struct {
	f      *Forest
	v      *view
	source *tree.State
	g      Graft
	dirs   map[string]uint64 // path → inode of a directory of the view
	links  map[uint64]uint64 // inode with several names in the source → inode in the view
	settle []settle
	edited map[string]uint64 // directories whose entries changed, by path
	stale  map[NodeID]bool
	inv    Invalidation
}

// settle is a directory whose attributes are set when its entries are done.
type settle struct {
	ino  uint64
	from *tree.Inode
}

func (j *graft) run(changes []tree.Change) error {
	if err := j.chooseLinks(changes); err != nil {
		return err
	}
	// What goes, goes from the leaves up.
	for _, c := range slices.Backward(changes) {
		if c.A != nil && j.goes(c) {
			if err := j.remove(c); err != nil {
				return err
			}
		}
	}
	for _, c := range changes {
		if c.B != nil {
			if err := j.put(c); err != nil {
				return err
			}
		}
	}
	if err := j.settleEdited(); err != nil {
		return err
	}
	for _, s := range j.settle {
		n, err := j.f.own(j.v, s.ino)
		if err != nil {
			return err
		}
		j.copyAttrs(n, s.from)
		j.stale[Node(j.v.id, n.Ino)] = true
	}
	return nil
}

// settleEdited gives the directories whose entries changed the attributes of
// the source, when the view is to be exactly as that.
func (j *graft) settleEdited() error {
	if !j.g.Exact {
		return nil
	}
	for dir, ino := range j.edited {
		from, err := j.source.Resolve(j.f.src, dir)
		if err = loadError(err); err == ErrNotExist {
			continue // it went too
		} else if err != nil {
			return err
		}
		if from.IsDir() {
			j.settle = append(j.settle, settle{ino, from})
		}
	}
	return nil
}

// chooseLinks finds, for each file of the source with several names, an inode
// of the view that can go on as that file: one that differs in nothing but
// its names, at a path that changes or at one that does not.
func (j *graft) chooseLinks(changes []tree.Change) error {
	taken := make(map[uint64]bool)
	changing := make(map[string]bool, len(changes))
	for _, c := range changes {
		changing[c.Path] = true
		if c.A == nil || c.B == nil || c.B.IsDir() || c.What&^tree.Links != 0 {
			continue
		}
		if _, done := j.links[c.B.Ino]; !done && !taken[c.A.Ino] {
			j.links[c.B.Ino] = c.A.Ino
			taken[c.A.Ino] = true
		}
	}
	for _, c := range changes {
		if c.B == nil || c.B.IsDir() || len(c.B.Links) < 2 {
			continue
		}
		if _, done := j.links[c.B.Ino]; done {
			continue
		}
		if err := j.chooseUnchanged(c.B, changing, taken); err != nil {
			return err
		}
	}
	return nil
}

// chooseUnchanged looks among the names of a file of the source that stay as
// they are.
func (j *graft) chooseUnchanged(b *tree.Inode, changing map[string]bool, taken map[uint64]bool) error {
	paths, err := j.source.Paths(j.f.src, b)
	if err != nil {
		return loadError(err)
	}
	for _, p := range paths {
		if changing[p] {
			continue
		}
		a, err := j.v.state.Resolve(j.f.src, j.full(p))
		if err != nil || a.IsDir() || taken[a.Ino] {
			continue
		}
		if same, err := tree.SameFile(j.f.src, a, b); err != nil {
			return loadError(err)
		} else if same && a.Mtime == b.Mtime {
			j.links[b.Ino] = a.Ino
			taken[a.Ino] = true
			return nil
		}
	}
	return nil
}

// goes reports whether the entry at A has to make room.
func (j *graft) goes(c tree.Change) bool {
	switch {
	case c.B == nil:
		return true
	case c.A.IsDir() && c.B.IsDir():
		return false
	}
	return j.links[c.B.Ino] != c.A.Ino
}

func (j *graft) full(p string) string {
	if p == "." {
		p = ""
	}
	return path.Join(j.g.Prefix, p)
}

// parent returns the directory that a path lies in, in the view.
func (j *graft) parent(p string) (uint64, string, error) {
	dir, name := path.Split(p)
	dir = path.Clean("/" + dir)[1:]
	ino, err := j.dir(dir)
	return ino, name, err
}

func (j *graft) dir(dir string) (uint64, error) {
	if ino, ok := j.dirs[dir]; ok {
		return ino, nil
	}
	n, err := j.v.state.Resolve(j.f.src, dir)
	if err != nil {
		return 0, loadError(err)
	}
	if !n.IsDir() {
		return 0, ErrNotDir
	}
	j.dirs[dir] = n.Ino
	return n.Ino, nil
}

func (j *graft) remove(c tree.Change) error {
	p := j.full(c.Path)
	parent, name, err := j.parent(p)
	if err != nil {
		return err
	}
	if c.A.IsDir() {
		if keep, err := j.empty(p, c.B == nil); err != nil || keep {
			return err
		}
	}
	n, err := j.f.dropName(j.v, parent, name, j.g.Now)
	if err != nil {
		return err
	}
	delete(j.dirs, p)
	delete(j.edited, p)
	j.dropped(p, parent, name, n)
	if n.Nlink > 0 {
		j.stale[Node(j.v.id, n.Ino)] = true
	}
	return nil
}

// empty removes what a directory holds that the changes do not know of, which
// is only so in a merge. It reports whether the directory stays instead.
func (j *graft) empty(p string, mayStay bool) (keep bool, err error) {
	n, err := j.v.state.Resolve(j.f.src, p)
	if err != nil {
		return false, loadError(err)
	}
	if n.Dir.Len() == 0 {
		return false, nil
	}
	if mayStay && j.g.KeepFull {
		return true, nil
	}
	var entries []tree.Dirent
	if err := n.Dir.List(j.f.src, 0, func(e tree.Dirent, _ uint64) bool {
		entries = append(entries, e)
		return true
	}); err != nil {
		return false, loadError(err)
	}
	for _, e := range entries {
		if e.Type == unix.S_IFDIR {
			if _, err := j.empty(path.Join(p, e.Name), false); err != nil {
				return false, err
			}
		}
		gone, err := j.f.dropName(j.v, n.Ino, e.Name, j.g.Now)
		if err != nil {
			return false, err
		}
		delete(j.dirs, path.Join(p, e.Name))
		j.dropped(path.Join(p, e.Name), n.Ino, e.Name, gone)
	}
	return false, nil
}

// dropped notes an entry that is gone, and the inode if that was its last.
func (j *graft) dropped(p string, parent uint64, name string, n *tree.Inode) {
	j.touched(p, parent, name)
	if id := Node(j.v.id, n.Ino); n.Nlink == 0 && j.f.isHeld(id) {
		j.inv.Entries[len(j.inv.Entries)-1].Gone = id
	}
}

func (j *graft) touched(p string, parent uint64, name string) {
	j.edited[path.Clean("/" + path.Dir(p))[1:]] = parent
	id := Node(j.v.id, parent)
	j.inv.Entries = append(j.inv.Entries, Entry{Parent: id, Name: name})
	j.stale[id] = true
}

func (j *graft) put(c tree.Change) error {
	p := j.full(c.Path)
	if c.A != nil && c.A.IsDir() && c.B.IsDir() {
		ino, err := j.dir(p)
		if err != nil {
			return err
		}
		j.settle = append(j.settle, settle{ino, c.B})
		return nil
	}
	target, linked := j.links[c.B.Ino]
	if linked && c.A != nil && c.A.Ino == target {
		return nil
	}
	parent, name, err := j.parent(p)
	if err != nil {
		return err
	}
	j.touched(p, parent, name)
	if linked {
		n, err := j.f.own(j.v, target)
		if err != nil {
			return err
		}
		n.Ctime = j.g.Now
		j.stale[Node(j.v.id, target)] = true
		return j.f.addName(j.v, parent, name, n, j.g.Now)
	}
	return j.addCopy(p, parent, name, c.B)
}

// addCopy makes a new inode that is like one of the source.
func (j *graft) addCopy(p string, parent uint64, name string, from *tree.Inode) error {
	ino, err := j.f.newIno()
	if err != nil {
		return err
	}
	n := &tree.Inode{
		Ino: ino, Mode: from.Mode, Nlink: 1, Rdev: from.Rdev, Target: from.Target, Content: from.Content,
		Btime: j.g.Now,
	}
	if n.IsDir() {
		n.Nlink = 2
	}
	j.copyAttrs(n, from)
	if err := j.f.addNode(j.v, parent, name, n, j.g.Now); err != nil {
		return err
	}
	if n.IsDir() {
		j.dirs[p] = ino
		j.settle = append(j.settle, settle{ino, from})
	} else if len(from.Links) > 1 {
		j.links[from.Ino] = ino
	}
	return nil
}

func (j *graft) copyAttrs(n, from *tree.Inode) {
	n.Mode = n.Mode&unix.S_IFMT | from.Mode&^unix.S_IFMT
	n.UID, n.GID = from.UID, from.GID
	n.Xattrs = from.Xattrs
	n.Ctime = j.g.Now
	n.Atime, n.Mtime = from.Atime, from.Mtime
	if j.g.Touch {
		n.Atime, n.Mtime = j.g.Now, j.g.Now
	}
}

// Overlay tells which changes put a whole tree into a view below a directory,
// over what is there: directories that are in both are merged, anything else
// is replaced.
func (tx *Tx) Overlay(ctx context.Context, view uint32, source *tree.State, prefix string) ([]tree.Change, error) {
	v, ok := tx.f.mu.views[view]
	if !ok {
		return nil, ErrStale
	}
	var out []tree.Change
	err := source.Walk(ctx, tx.f.src, "", func(p string, b *tree.Inode) error {
		if p == "." {
			p = ""
		}
		a, err := v.state.Resolve(tx.f.src, path.Join(prefix, p))
		if err != nil {
			if le := loadError(err); le != ErrNotExist && le != ErrNotDir {
				return err
			}
			a = nil
		}
		if a != nil && a.IsDir() && !b.IsDir() {
			return &OverlayError{Path: path.Join(prefix, p)}
		}
		if p == "" && a != nil {
			return nil // the directory that it goes into stays as it is
		}
		out = append(out, tree.Change{Path: p, A: a, B: b, What: tree.Data})
		return nil
	})
	return out, err
}

// An OverlayError tells of a directory where the tree that is brought in has
// something else.
type OverlayError struct{ Path string }

func (e *OverlayError) Error() string {
	return e.Path + " is a directory here and none in what is brought in; move it away first"
}
