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
	// have in the source, where they exist there: the view becomes the source, and
	// the steps are all that differs.
	Exact bool
	// KeepFull leaves directories that are to go but hold something else.
	KeepFull bool
	// Now is the time of the change in nanoseconds since 1970.
	Now int64
	// Seal, if it is set, is called for the view as it is after each SealAfter steps and
	// at the end: so the memory that this takes does not grow with them.
	Seal      func(*tree.State) error
	SealAfter int
}

// Graft makes the steps in the edited view, prefix aside at the paths that they name:
// what is at A there becomes what is at B in the source. Directories that are in
// both keep their inode; anything else that differs gets a new one, so that nothing
// which still has the old one open can reach the new. The same view and steps
// always come to the same result, as recovery needs.
func (e *Edit) Graft(ctx context.Context, source *tree.State, steps *Steps, g Graft) error {
	if err := e.reserve(steps); err != nil {
		return err
	}
	j := &graft{
		ctx: ctx, f: e.f, e: e, v: e.copy, source: source, g: g,
		links: make(map[uint64]uint64), edited: make(map[uint64]*tree.Path), stale: make(map[NodeID]bool),
	}
	if g.Exact {
		j.whole = whole{leaving: steps.leaving, left: make(map[uint64]int), inodes: make([]uint64, 0, steps.comes)}
	}
	if err := j.run(steps); err != nil {
		return err
	}
	for id := range j.stale {
		e.inv.Inodes = append(e.inv.Inodes, id)
	}
	slices.Sort(e.inv.Inodes)
	e.Changes = steps.Len()
	return nil
}

// reserve takes inode numbers for all that the steps may make.
func (e *Edit) reserve(steps *Steps) (err error) {
	if e.FirstIno == 0 {
		e.f.mu.Lock()
		defer e.f.mu.Unlock()
		e.FirstIno, err = e.f.newInos(e.copy, uint64(steps.comes))
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

	whole    whole
	unsealed int // steps
}

// attrsOf gives a directory the attributes of another one.
type attrsOf struct {
	ino, from uint64 // in the view and in the source
}

func (j *graft) run(steps *Steps) error {
	prefix, err := j.v.state.Resolve(j.f.waiting, j.g.Prefix)
	if err != nil {
		return loadError(err)
	}
	if err := j.v.deepen(j.g.Prefix, j.source); err != nil {
		return err
	}
	j.dirs = newDirectories(j.f.waiting, j.v.state, prefix.Ino)
	j.from = newDirectories(j.f.waiting, j.source, tree.RootIno)
	if err := j.chooseLinks(steps, tree.NewPairing(j.f.waiting, j.source, j.e.Base(), prefix.Ino)); err != nil {
		return err
	}
	// What goes, goes from the leaves up.
	j.e.inv.Entries = new(Entries)
	if steps.goes > 0 {
		for s := range steps.Backward() {
			if s.A != 0 && j.goes(s) {
				if err := errors.Join(j.remove(s), j.room()); err != nil {
					return err
				}
			}
		}
	}
	j.dirs = newDirectories(j.f.waiting, j.v.state, prefix.Ino) // some of them went
	if steps.comes > 0 {
		for s := range steps.All() {
			if s.B != 0 {
				if err := errors.Join(j.put(s), j.room()); err != nil {
					return err
				}
			}
		}
	}
	if err := j.fill(); err != nil {
		return err
	}
	if j.g.Exact {
		j.v.state.Depth = j.source.Depth
	}
	if err := j.setAttrs(); err != nil || j.g.Seal == nil {
		return err
	}
	return j.e.seal(j.g.Seal)
}

// room seals the view when it is time.
func (j *graft) room() error {
	if j.unsealed++; j.unsealed < j.g.SealAfter || j.g.Seal == nil {
		return nil
	}
	j.unsealed = 0
	return j.e.seal(j.g.Seal)
}

// setAttrs gives directories the attributes of the source: those that differed, and
// those whose entries changed, when the view is to be exactly as that.
func (j *graft) setAttrs() error {
	if j.g.Exact {
		for ino, p := range j.edited {
			from, err := uint64(tree.RootIno), error(nil)
			if p != nil {
				from, err = j.from.find(p)
			}
			if errors.Is(err, ErrNotExist) {
				continue // it went too
			}
			if err != nil {
				return err
			}
			j.attrs = append(j.attrs, attrsOf{ino, from})
		}
	}
	for _, a := range j.attrs {
		n, err := j.f.own(j.v, a.ino)
		if err != nil {
			return err
		}
		from, err := j.source.Get(j.f.waiting, a.from)
		if err != nil {
			return loadError(err)
		}
		setAttrsOf(n, from, j.g.Now)
		j.touch(n)
		j.stale[Node(j.v.id, n.Ino)] = true
	}
	return nil
}

// chooseLinks finds, for each file of the source with several names, an inode
// of the view that can go on as that file: one that differs in nothing but
// its names, at a path that changes or at one that does not.
func (j *graft) chooseLinks(steps *Steps, view *tree.Pairing) error {
	taken := make(map[uint64]bool)
	changing := make(map[tree.Link]bool) // in the source
	if steps.comes == 0 {
		return nil
	}
	var several []*Step
	for s := range steps.All() {
		if s.B == 0 || s.BDir {
			continue
		}
		if s.A != 0 && s.What&^tree.Links == 0 && !taken[s.A] {
			if _, done := j.links[s.B]; !done {
				j.links[s.B] = s.A
				taken[s.A] = true
			}
		}
		if !s.linked {
			continue
		}
		dir, err := j.from.find(s.Path.Dir)
		if err != nil {
			return err
		}
		changing[tree.Link{Parent: dir, Name: s.Path.Name}] = true
		several = append(several, s)
	}
	seen := make(map[uint64]bool)
	for _, s := range several {
		if _, done := j.links[s.B]; done || seen[s.B] {
			continue
		}
		seen[s.B] = true
		b, err := j.comes(s)
		if err != nil {
			return err
		}
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
func (j *graft) goes(s *Step) bool {
	switch {
	case s.B == 0:
		return true
	case s.ADir && s.BDir:
		return false
	}
	return j.links[s.B] != s.A
}

// comes returns the inode that is to be like B.
func (j *graft) comes(s *Step) (*tree.Inode, error) {
	if s.With != nil {
		return s.With, nil
	}
	n, err := j.source.Get(j.f.waiting, s.B)
	return n, loadError(err)
}

func (j *graft) remove(c *Step) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	parent, err := j.dirs.find(c.Path.Dir)
	if err != nil {
		return err
	}
	if c.ADir {
		if keep, err := j.empty(c.Path, c.B == 0); err != nil || keep {
			return err
		}
	}
	if j.whole.leaving[parent] {
		return j.leave(c, parent)
	}
	return j.drop(c.Path, parent)
}

// empty removes what a directory holds that the changes do not know of, which
// is only so in a merge. It reports whether the directory stays instead.
func (j *graft) empty(p *tree.Path, mayStay bool) (keep bool, err error) {
	n, err := j.dirs.entry(p)
	if err != nil || n.Dir.Len() == j.whole.left[n.Ino] {
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
	n, last, err := j.f.dropName(j.v, parent, p.Name, j.g.Now)
	if err == nil {
		j.gone(p, parent, n, last)
	}
	return err
}

// gone notes that a name went, which may have been the last one of n.
func (j *graft) gone(p *tree.Path, parent uint64, n *tree.Inode, last bool) {
	j.touched(p, parent)
	entry := Entry{Parent: Node(j.v.id, parent), Name: p.Name}
	id := Node(j.v.id, n.Ino)
	if last {
		entry.Was, entry.WasDir = id, n.IsDir()
		delete(j.edited, n.Ino)
	} else {
		j.stale[id] = true
	}
	j.e.inv.Entries.Add(entry)
}

func (j *graft) touched(p *tree.Path, parent uint64) {
	j.edited[parent] = p.Dir
	j.stale[Node(j.v.id, parent)] = true
}

func (j *graft) put(c *Step) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	if c.ADir && c.BDir {
		ino, err := j.dirs.find(c.Path)
		j.attrs = append(j.attrs, attrsOf{ino, c.B})
		return err
	}
	target, linked := j.links[c.B]
	if linked && c.A == target {
		return nil
	}
	parent, err := j.dirs.find(c.Path.Dir)
	if err != nil {
		return err
	}
	j.touched(c.Path, parent)
	if c.A == 0 { // else that it went was noted
		j.e.inv.Entries.Add(Entry{Parent: Node(j.v.id, parent), Name: c.Path.Name})
	}
	if !linked {
		from, err := j.comes(c)
		if err != nil {
			return err
		}
		return j.addCopy(c.Path, parent, from)
	}
	n, err := j.f.own(j.v, target)
	if err != nil {
		return err
	}
	n.Ctime = j.g.Now
	j.stale[Node(j.v.id, target)] = true
	if j.arrives(parent) {
		giveName(n, parent, c.Path.Name)
		return nil
	}
	return j.f.addName(j.v, parent, c.Path.Name, n, j.g.Now)
}

// addCopy makes a new inode that is like one of the source.
func (j *graft) addCopy(p *tree.Path, parent uint64, from *tree.Inode) error {
	n := newLike(from, j.e.next, j.g.Now)
	j.e.next++
	j.touch(n)
	var err error
	if j.arrives(parent) {
		err = j.arrive(from.Ino, p.Name, parent, n)
	} else {
		err = j.f.addNode(j.v, parent, p.Name, n, j.g.Now)
	}
	if err != nil {
		return err
	}
	if n.IsDir() {
		j.dirs.known[p] = n.Ino
		j.attrs = append(j.attrs, attrsOf{n.Ino, from.Ino})
		j.whole.came = append(j.whole.came, attrsOf{n.Ino, from.Ino})
	} else if len(from.Links) > 1 {
		j.links[from.Ino] = n.Ino
	}
	j.v.state.Pack(j.v.epoch) // none of them is in use
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
