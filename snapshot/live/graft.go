package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Graft is how steps are made.
type Graft struct {
	Source *tree.State
	View   uint32 // of the source: recovery finds there what is not sealed
	// Prefix is put before every path; "" is the root.
	Prefix string
	// Touch gives what is put in place the time Now as mtime, and so their
	// directories. Without it everything gets the times that it has in the
	// source.
	Touch bool
	// Exact: the result equals the source, including attributes of directories whose
	// entries changed.
	Exact bool
	// KeepFull leaves directories that are removed in the source but are not empty in
	// the view.
	KeepFull bool
	// By, if set, returns the actors that a step is by, none for those of the edit.
	By func(*Step) ([]string, error)
	// Top gives the attributes of the root of an overlay to the directory at Prefix.
	Top bool
	// Now is the time of the change in nanoseconds since 1970.
	Now int64
	// Record writes the steps to the journal, see Edit.Steps.
	Record bool
	// Seal, if it is set, is called for the view as it is from time to time and at the
	// end: so the memory that a Graft takes does not grow with the steps.
	Seal func(*tree.State) error
}

const (
	// maxUnsealed is about how many bytes of memory a Graft takes before the view is
	// sealed as it is, if it is to be sealed.
	maxUnsealed = 32 << 20
	// stepMemory is what an inode takes, with its directory entry and its page.
	stepMemory = 1 << 10
	// maxCopied is maxUnsealed for pages that were copied to be changed.
	maxCopied = 32 << 20
	// stepsBlob is about how many bytes of steps are written together.
	stepsBlob = 1 << 20
	// namesBelow is how many names in new directories an Invalidation has. The kernel
	// cannot know them; programs that watch directories can.
	namesBelow = 20_000
)

// Graft makes steps in the edited view: what is at A there becomes what is at B in the
// source. Directories that are in both keep their inode; anything else that differs gets
// a new one, so that nothing which still has the old one open can reach the new.
func (e *Edit) Graft(ctx context.Context, steps []Step, g Graft) error {
	made := 0
	for i := range steps {
		if steps[i].B != 0 {
			made++
		}
	}
	j, err := e.newGraft(ctx, g, made)
	if err == nil {
		err = j.chooseLinks(steps)
	}
	for i := range steps {
		if err == nil {
			err = j.step(&steps[i])
		}
	}
	if err != nil {
		return err
	}
	return j.finish()
}

// Overlay makes the steps of an overlay.
func (e *Edit) Overlay(ctx context.Context, o *Overlay, g Graft) error {
	g.Source, g.Prefix = o.Source, o.Prefix
	j, err := e.newGraft(ctx, g, int(o.Source.Inodes))
	if err != nil {
		return err
	}
	if err := o.Walk(ctx, e.f.waiting, j.step); err != nil {
		return tree.LoadError(err)
	}
	if g.Top {
		j.attrs = append(j.attrs, attrsOf{ino: j.root, from: tree.RootIno})
	}
	return j.finish()
}

type graft struct {
	ctx  context.Context
	f    *Forest
	e    *Edit
	v    *view
	g    Graft
	root uint64 // the inode of the prefix

	dirs    *directories          // of the view
	from    *directories          // of the source
	links   map[uint64]uint64     // Step.Link → inode of the view
	gone    map[*tree.Path]bool   // directories that were removed, with all that was in them
	emptied []*tree.Path          // directories that go if they are empty then, each in the one before
	attrs   []attrsOf             // of directories, to be set when all entries are made
	edited  map[uint64]*tree.Path // directories of the view whose entries changed
	stale   map[NodeID]bool
	mounted map[tree.Link]bool // see isMountPoint; nil before the first question

	rewritten uint64 // the inode that put uses, see rewrite; 0 for a new one

	by       []string      // of the edit
	enc      *wire.Encoder // steps that are not in the journal yet
	unsealed int           // bytes of memory, about
	copied   atomic.Int64
}

// attrsOf gives a directory the attributes of another one: of with or, if that is nil, of an
// inode of the source.
type attrsOf struct {
	ino, from uint64
	with      *tree.Inode
}

// newGraft takes inode numbers for all that steps make.
func (e *Edit) newGraft(ctx context.Context, g Graft, made int) (*graft, error) {
	prefix, err := e.copy.state.Resolve(e.f.waiting, g.Prefix)
	if err != nil {
		return nil, tree.LoadError(err)
	}
	if err := e.copy.state.Deepen(g.Prefix, g.Source); err != nil {
		return nil, err
	}
	e.f.mu.Lock()
	e.firstIno, err = e.copy.newInos(uint64(made))
	e.f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	e.nextIno = e.firstIno
	j := &graft{
		ctx: ctx, f: e.f, e: e, v: e.copy, g: g, root: prefix.Ino,
		dirs: newDirectories(e.f.waiting, e.copy.state, prefix.Ino), from: newDirectories(e.f.waiting, g.Source, tree.RootIno),
		links: make(map[uint64]uint64), gone: make(map[*tree.Path]bool), edited: make(map[uint64]*tree.Path), stale: make(map[NodeID]bool),
		enc: wire.NewEncoder(nil), by: e.copy.by,
	}
	e.copy.src = e.f.waiting.Counting(&j.copied)
	return j, nil
}

// step makes one step.
func (j *graft) step(s *Step) error {
	if err := errors.Join(j.ctx.Err(), j.removeEmptied(s.Path)); err != nil {
		return err
	}
	if j.g.By != nil {
		by, err := j.g.By(s)
		if err != nil {
			return err
		}
		if j.v.by = by; len(by) == 0 {
			j.v.by = j.by
		}
	}
	switch {
	case s.B == 0 && s.Path != nil && j.isGone(s.Path.Dir):
		if s.ADir {
			j.gone[s.Path] = true
		}
		return nil
	case s.ADir && s.BDir:
		ino, err := j.dirs.find(s.Path)
		j.attrs = append(j.attrs, attrsOf{ino, s.B, s.With})
		if err == nil && s.What&^tree.Mtime != 0 {
			j.v.mark(ino)
		}
		return err
	case s.ADir && s.B == 0 && j.g.KeepFull:
		j.emptied = append(j.emptied, s.Path)
		return nil
	case s.A != 0 && s.B != 0 && j.links[s.Link] == s.A:
		return nil // it goes on
	}
	if s.A != 0 && !s.ADir && s.B != 0 && !s.Linked && s.To == 0 {
		if done, err := j.rewrite(s); done || err != nil {
			return err
		}
	}
	if s.A != 0 {
		if s.ADir {
			j.gone[s.Path] = true
		}
		if err := j.remove(s.Path); err != nil {
			return err
		}
	}
	if s.B == 0 {
		return nil
	}
	return j.put(s)
}

// removeEmptied removes directories of emptied that a path is not in.
func (j *graft) removeEmptied(p *tree.Path) error {
	for n := len(j.emptied); n > 0 && !below(p, j.emptied[n-1]); n-- {
		dir := j.emptied[n-1]
		j.emptied = j.emptied[:n-1]
		if d, err := j.dirs.entry(dir); err != nil {
			return err
		} else if d.Dir.Len() == 0 {
			if err := j.remove(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// isGone reports whether a directory was removed with all that was in it.
func (j *graft) isGone(dir *tree.Path) bool {
	for ; dir != nil && len(j.gone) > 0; dir = dir.Dir {
		if j.gone[dir] {
			return true
		}
	}
	return false
}

func below(p, dir *tree.Path) bool {
	for ; p != nil; p = p.Dir {
		if p == dir {
			return true
		}
	}
	return false
}

func (j *graft) remove(p *tree.Path) error {
	parent, err := j.dirs.find(p.Dir)
	if err != nil {
		return err
	}
	j.touched(p, parent)
	return j.do(&record{kind: recUnlink, parent: parent, name: p.Name})
}

// wentAway notes a name that was removed, which may have been the last one of n.
func (j *graft) wentAway(parent uint64, name string, n *tree.Inode, last bool) {
	if j.rewritten != 0 {
		return
	}
	entry := Entry{Parent: Node(j.v.id, parent), Name: name, MountPoint: j.isMountPoint(parent, name, n.Ino)}
	id := Node(j.v.id, n.Ino)
	if last {
		entry.Was, entry.WasDir = id, n.IsDir()
		delete(j.edited, n.Ino)
	} else {
		j.stale[id] = true
	}
	j.e.inv.Entries = append(j.e.inv.Entries, entry)
}

func (j *graft) touched(p *tree.Path, parent uint64) {
	j.edited[parent] = p.Dir
	j.stale[Node(j.v.id, parent)] = true
}

func (j *graft) put(s *Step) error {
	parent, err := j.dirs.find(s.Path.Dir)
	if err != nil {
		return err
	}
	j.touched(s.Path, parent)
	if s.A == 0 && (parent < j.e.firstIno || len(j.e.inv.Entries) < namesBelow) {
		j.e.inv.Entries = append(j.e.inv.Entries, Entry{Parent: Node(j.v.id, parent), Name: s.Path.Name})
	}
	target, ok := j.links[s.Link]
	if s.To != 0 {
		target, ok = s.To, true
	}
	if ok {
		j.stale[Node(j.v.id, target)] = true
		return j.do(&record{kind: recLink, parent: parent, name: s.Path.Name, ino: target})
	}
	from, view := s.With, s.WithView
	if from == nil {
		view = j.g.View
		if from, err = j.g.Source.Get(j.f.waiting, s.B); err != nil {
			return tree.LoadError(err)
		}
	}
	n := tree.Like(from, cmp.Or(j.rewritten, j.beneath(parent, s.Path.Name, from)), j.g.Now)
	if n.Ino == 0 {
		n.Ino = j.e.nextIno
		j.e.nextIno++
	}
	j.touch(n)
	r := &record{kind: recPut, parent: parent, name: s.Path.Name, node: n}
	if sealed := from.Content.Sealed(); sealed == nil {
		r.view2, r.ino2 = view, from.Ino
	} else if from.Content != nil {
		r.content = content.Of(sealed)
	}
	if n.IsDir() {
		j.dirs.known[s.Path] = n.Ino
		j.attrs = append(j.attrs, attrsOf{n.Ino, from.Ino, s.With})
	} else if s.Linked {
		j.links[s.Link] = n.Ino
	}
	return j.do(r)
}

// do makes one change, and writes it down if that is asked for.
func (j *graft) do(r *record) error {
	r.view, r.time = j.v.id, j.g.Now
	if j.g.Record {
		j.enc.Byte(byte(r.kind))
		r.encodeBody(j.enc)
		j.e.Changes++
	}
	if err := j.v.applyStep(r, j.wentAway); err != nil {
		return err
	}
	if j.enc.Len() >= stepsBlob {
		if err := j.write(); err != nil {
			return err
		}
	}
	j.unsealed += stepMemory + 2*len(r.name)
	if j.g.Seal == nil || j.unsealed < maxUnsealed && j.copied.Load() < maxCopied {
		return nil
	}
	j.unsealed = 0
	j.copied.Store(0)
	return j.e.seal(j.g.Seal)
}

// write writes steps to the journal.
func (j *graft) write() error {
	_, err := j.e.steps.Write(j.enc.Out())
	j.enc.Reset()
	return err
}

// finish makes what has to wait for all steps.
func (j *graft) finish() error {
	if err := errors.Join(j.removeEmptied(nil), j.setAttrs()); err != nil {
		return err
	}
	for id := range j.stale {
		j.e.inv.Inodes = append(j.e.inv.Inodes, id)
	}
	slices.Sort(j.e.inv.Inodes)
	if j.g.Exact && !j.g.KeepFull {
		j.v.state.Depth = j.g.Source.Depth
	}
	if j.enc.Len() > 0 {
		if err := j.write(); err != nil {
			return err
		}
	}
	if j.g.Seal == nil {
		return nil
	}
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
			if j.g.KeepFull && (errors.Is(err, ErrNotExist) || errors.Is(err, ErrNotDir)) {
				continue // a directory that stays because it is not empty
			}
			if err != nil {
				return err
			}
			j.attrs = append(j.attrs, attrsOf{ino: ino, from: from})
		}
	}
	for _, a := range j.attrs {
		from := a.with
		if from == nil {
			var err error
			if from, err = j.g.Source.Get(j.f.waiting, a.from); err != nil {
				return tree.LoadError(err)
			}
		}
		n := &tree.Inode{Ino: a.ino}
		n.SetAttrs(from, j.g.Now)
		j.touch(n)
		j.stale[Node(j.v.id, n.Ino)] = true
		if err := j.do(&record{kind: recSetAll, node: n}); err != nil {
			return err
		}
	}
	return nil
}

// touch gives what is put in place the time of the change, if it is to have that.
func (j *graft) touch(n *tree.Inode) {
	if j.g.Touch {
		n.Atime, n.Mtime = j.g.Now, j.g.Now
	}
}
