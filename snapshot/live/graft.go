package live

import (
	"context"
	"errors"
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

// Graft makes changes in the edited view, prefix aside at the paths that they name:
// what is at A there becomes what is at B in the source. Directories that are in
// both keep their inode; anything else that differs gets a new one, so that nothing
// which still has the old one open can reach the new. The same view and changes
// always come to the same result, as recovery needs.
func (e *Edit) Graft(ctx context.Context, source *tree.State, changes []tree.Change, g Graft) error {
	if err := e.reserve(changes); err != nil {
		return err
	}
	j := &graft{
		ctx: ctx, f: e.f, e: e, v: e.copy, source: source, g: g,
		links: make(map[uint64]uint64), edited: make(map[uint64]*tree.Path), stale: make(map[NodeID]bool),
	}
	if err := j.run(changes); err != nil {
		return err
	}
	for id := range j.stale {
		e.inv.Inodes = append(e.inv.Inodes, id)
	}
	slices.Sort(e.inv.Inodes)
	return nil
}

// reserve takes inode numbers for all that the changes may make.
func (e *Edit) reserve(changes []tree.Change) (err error) {
	if e.FirstIno == 0 {
		n := uint64(0)
		for _, c := range changes {
			if c.B != nil {
				n++
			}
		}
		e.f.mu.Lock()
		defer e.f.mu.Unlock()
		e.FirstIno, err = e.f.newInos(e.copy, n)
	}
	e.next = e.FirstIno
	return err
}

type graft struct {
	ctx    context.Context
	f      *Forest
	e      *Edit
	v      *view
	source *tree.State
	g      Graft

	dirs   *directories          // of the view
	from   *directories          // of the source
	links  map[uint64]uint64     // inode with several names in the source → inode in the view
	attrs  []attrsOf             // to be set when all entries are done
	edited map[uint64]*tree.Path // directories of the view whose entries changed
	stale  map[NodeID]bool
}

// attrsOf gives a directory the attributes of another one.
type attrsOf struct {
	ino  uint64
	from *tree.Inode
}

// directories finds the directories of a state by path, each once.
type directories struct {
	src   *tree.Source
	state *tree.State
	known map[*tree.Path]uint64
}

func newDirectories(src *tree.Source, s *tree.State, root uint64) *directories {
	return &directories{src, s, map[*tree.Path]uint64{nil: root}}
}

func (d *directories) find(p *tree.Path) (uint64, error) {
	if ino, ok := d.known[p]; ok {
		return ino, nil
	}
	n, err := d.entry(p)
	if err != nil {
		return 0, err
	}
	if !n.IsDir() {
		return 0, ErrNotDir
	}
	d.known[p] = n.Ino
	return n.Ino, nil
}

// entry returns what is at a path other than the root.
func (d *directories) entry(p *tree.Path) (*tree.Inode, error) {
	ino, err := d.find(p.Dir)
	if err != nil {
		return nil, err
	}
	dir, err := d.state.Get(d.src, ino)
	if err != nil {
		return nil, loadError(err)
	}
	n, err := d.state.Lookup(d.src, dir, p.Name)
	return n, loadError(err)
}

func (j *graft) run(changes []tree.Change) error {
	prefix, err := j.v.state.Resolve(j.f.waiting, j.g.Prefix)
	if err != nil {
		return loadError(err)
	}
	j.dirs = newDirectories(j.f.waiting, j.v.state, prefix.Ino)
	j.from = newDirectories(j.f.waiting, j.source, tree.RootIno)
	if err := j.chooseLinks(changes, tree.NewPairing(j.f.waiting, j.source, j.e.Base(), prefix.Ino)); err != nil {
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
	j.dirs = newDirectories(j.f.waiting, j.v.state, prefix.Ino) // some of them went
	for _, c := range changes {
		if c.B != nil {
			if err := j.put(c); err != nil {
				return err
			}
		}
	}
	return j.setAttrs()
}

// setAttrs gives directories the attributes of the source: those that differed, and
// those whose entries changed, when the view is to be exactly as that.
func (j *graft) setAttrs() error {
	if j.g.Exact {
		for ino, p := range j.edited {
			from, err := j.source.Get(j.f.waiting, tree.RootIno)
			if p != nil {
				from, err = j.from.entry(p)
			}
			if errors.Is(err, ErrNotExist) {
				continue // it went too
			}
			if err != nil {
				return loadError(err)
			}
			j.attrs = append(j.attrs, attrsOf{ino, from})
		}
	}
	for _, a := range j.attrs {
		n, err := j.f.own(j.v, a.ino)
		if err != nil {
			return err
		}
		setAttrsOf(n, a.from, j.g.Now)
		j.touch(n)
		j.stale[Node(j.v.id, n.Ino)] = true
	}
	return nil
}

// chooseLinks finds, for each file of the source with several names, an inode
// of the view that can go on as that file: one that differs in nothing but
// its names, at a path that changes or at one that does not.
func (j *graft) chooseLinks(changes []tree.Change, view *tree.Pairing) error {
	taken := make(map[uint64]bool)
	changing := make(map[tree.Link]bool) // in the source
	var several []*tree.Inode
	for _, c := range changes {
		if c.B == nil || c.B.IsDir() {
			continue
		}
		if _, done := j.links[c.B.Ino]; !done && c.A != nil && c.What&^tree.Links == 0 && !taken[c.A.Ino] {
			j.links[c.B.Ino] = c.A.Ino
			taken[c.A.Ino] = true
		}
		if len(c.B.Links) < 2 {
			continue
		}
		dir, err := j.from.find(c.Path.Dir)
		if err != nil {
			return err
		}
		changing[tree.Link{Parent: dir, Name: c.Path.Name}] = true
		several = append(several, c.B)
	}
	seen := make(map[uint64]bool)
	for _, b := range several {
		if _, done := j.links[b.Ino]; done || seen[b.Ino] {
			continue
		}
		seen[b.Ino] = true
		if err := j.chooseUnchanged(b, view, changing, taken); err != nil {
			return err
		}
	}
	return nil
}

// chooseUnchanged looks among the names of a file of the source that stay as
// they are.
func (j *graft) chooseUnchanged(b *tree.Inode, view *tree.Pairing, changing map[tree.Link]bool, taken map[uint64]bool) error {
	tried := make(map[uint64]bool)
	for _, l := range b.Links {
		if changing[l] {
			continue
		}
		a, err := view.File(l)
		if err != nil {
			return loadError(err)
		}
		if a == nil || a.IsDir() || taken[a.Ino] || tried[a.Ino] {
			continue
		}
		tried[a.Ino] = true
		if same, err := tree.SameFile(j.f.waiting, a, b); err != nil {
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

func (j *graft) remove(c tree.Change) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	parent, err := j.dirs.find(c.Path.Dir)
	if err != nil {
		return err
	}
	if c.A.IsDir() {
		if keep, err := j.empty(c.Path, c.B == nil); err != nil || keep {
			return err
		}
	}
	return j.drop(c.Path, parent)
}

// empty removes what a directory holds that the changes do not know of, which
// is only so in a merge. It reports whether the directory stays instead.
func (j *graft) empty(p *tree.Path, mayStay bool) (keep bool, err error) {
	n, err := j.dirs.entry(p)
	if err != nil || n.Dir.Len() == 0 {
		return false, err
	}
	if mayStay && j.g.KeepFull {
		return true, nil
	}
	var entries []tree.Dirent
	if err := n.Dir.List(j.f.waiting, 0, func(e tree.Dirent, _ uint64) bool {
		entries = append(entries, e)
		return true
	}); err != nil {
		return false, loadError(err)
	}
	for _, e := range entries {
		child, err := p.At(e.Name)
		if err == nil && e.Type == unix.S_IFDIR {
			_, err = j.empty(child, false)
		}
		if err == nil {
			err = j.drop(child, n.Ino)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// drop removes an entry, and notes the inode if that was its last.
func (j *graft) drop(p *tree.Path, parent uint64) error {
	n, err := j.f.dropName(j.v, parent, p.Name, j.g.Now)
	if err != nil {
		return err
	}
	delete(j.edited, n.Ino)
	j.touched(p, parent)
	if n.Nlink > 0 {
		j.stale[Node(j.v.id, n.Ino)] = true
	} else {
		j.e.lost(n)
	}
	return nil
}

func (j *graft) touched(p *tree.Path, parent uint64) {
	j.edited[parent] = p.Dir
	id := Node(j.v.id, parent)
	j.e.inv.Entries = append(j.e.inv.Entries, Entry{Parent: id, Name: p.Name})
	j.stale[id] = true
}

func (j *graft) put(c tree.Change) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	if c.A != nil && c.A.IsDir() && c.B.IsDir() {
		ino, err := j.dirs.find(c.Path)
		j.attrs = append(j.attrs, attrsOf{ino, c.B})
		return err
	}
	target, linked := j.links[c.B.Ino]
	if linked && c.A != nil && c.A.Ino == target {
		return nil
	}
	parent, err := j.dirs.find(c.Path.Dir)
	if err != nil {
		return err
	}
	j.touched(c.Path, parent)
	if !linked {
		return j.addCopy(c.Path, parent, c.B)
	}
	n, err := j.f.own(j.v, target)
	if err != nil {
		return err
	}
	n.Ctime = j.g.Now
	j.stale[Node(j.v.id, target)] = true
	return j.f.addName(j.v, parent, c.Path.Name, n, j.g.Now)
}

// addCopy makes a new inode that is like one of the source.
func (j *graft) addCopy(p *tree.Path, parent uint64, from *tree.Inode) error {
	n := newLike(from, j.e.next, j.g.Now)
	j.e.next++
	j.touch(n)
	if err := j.f.addNode(j.v, parent, p.Name, n, j.g.Now); err != nil {
		return err
	}
	if n.IsDir() {
		j.dirs.known[p] = n.Ino
		j.attrs = append(j.attrs, attrsOf{n.Ino, from})
	} else if len(from.Links) > 1 {
		j.links[from.Ino] = n.Ino
	}
	return nil
}

// touch gives what is put in place the time of the change, if it is to have that.
func (j *graft) touch(n *tree.Inode) {
	if j.g.Touch {
		n.Atime, n.Mtime = j.g.Now, j.g.Now
	}
}

// newLike makes an inode without a name that is like another.
func newLike(from *tree.Inode, ino uint64, now int64) *tree.Inode {
	n := &tree.Inode{
		Ino: ino, Mode: from.Mode, Nlink: 1, Rdev: from.Rdev, Target: from.Target, Content: from.Content, Btime: now,
	}
	if n.IsDir() {
		n.Nlink = 2
	}
	setAttrsOf(n, from, now)
	return n
}

// setAttrsOf gives an inode the attributes of another.
func setAttrsOf(n, from *tree.Inode, now int64) {
	n.Mode = n.Mode&unix.S_IFMT | from.Mode&^unix.S_IFMT
	n.UID, n.GID = from.UID, from.GID
	n.Xattrs = from.Xattrs
	n.Ctime = now
	n.Atime, n.Mtime = from.Atime, from.Mtime
}
