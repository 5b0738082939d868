package graft

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// Options are how steps are made.
type Options struct {
	Source *tree.State
	View   uint32 // the number of the source, for changes that are written down
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
	// the target.
	KeepFull bool
	// Top gives the attributes of the root of an overlay to the directory at Prefix.
	Top bool
	// Now is the time of the change in nanoseconds since 1970.
	Now int64
	// Before, if set, is called before each step.
	Before func(*Step) error
}

const (
	// maxUnsealed is about how many bytes of memory a graft takes before the target is
	// sealed as it is, if it is to be sealed.
	maxUnsealed = 32 << 20
	// stepMemory is what an inode takes, with its directory entry and its page.
	stepMemory = 1 << 10
	// maxCopied is maxUnsealed for pages that were copied to be changed.
	maxCopied = 32 << 20
	// namesBelow is how many names in new directories Replaced is called with. The kernel
	// cannot know them; programs that watch directories can.
	namesBelow = 20_000
)

// Graft makes steps in a target: what is at A there becomes what is at B in the source.
// Directories that are in both keep their inode; anything else that differs gets a new one,
// so that nothing which still has the old one open can reach the new. It returns the inodes
// whose attributes or entries changed, in order.
func (t *Target) Graft(ctx context.Context, steps []Step, o Options) (changed []uint64, err error) {
	made := 0
	for i := range steps {
		if steps[i].After != 0 {
			made++
		}
	}
	j, err := t.begin(ctx, o, made)
	if err == nil {
		err = j.chooseLinks(steps)
	}
	for i := range steps {
		if err == nil {
			err = j.step(&steps[i])
		}
	}
	if err != nil {
		return nil, err
	}
	return j.finish()
}

// Overlay is Graft for the steps of an overlay.
func (t *Target) Overlay(ctx context.Context, over *Overlay, o Options) (changed []uint64, err error) {
	o.Source, o.Prefix = over.Source, over.Prefix
	j, err := t.begin(ctx, o, int(over.Source.Inodes))
	if err != nil {
		return nil, err
	}
	if err := over.Walk(ctx, j.src, j.step); err != nil {
		return nil, tree.LoadError(err)
	}
	if o.Top {
		j.attrs = append(j.attrs, attrsOf{ino: j.root, from: tree.RootIno})
	}
	return j.finish()
}

// grafting is a graft under way.
type grafting struct {
	ctx  context.Context
	t    *Target
	o    Options
	src  *tree.Source
	root uint64 // the inode of the prefix

	dirs    *directories          // of the target
	from    *directories          // of the source
	links   map[uint64]uint64     // Step.Link → inode of the target
	gone    map[*tree.Path]bool   // directories that were removed, with all that was in them
	emptied []*tree.Path          // directories that go if they are empty then, each in the one before
	attrs   []attrsOf             // of directories, to be set when all entries are made
	edited  map[uint64]*tree.Path // directories of the target whose entries changed
	stale   map[uint64]bool       // inodes whose attributes or entries changed
	names   int                   // that replaced was called for

	rewritten uint64 // the inode that put uses, see rewrite; 0 for a new one

	unsealed int // bytes of memory, about
	copied   atomic.Int64
}

// begin takes inode numbers for all that steps make.
func (t *Target) begin(ctx context.Context, o Options, made int) (*grafting, error) {
	src := t.Source
	t.Time = o.Now
	prefix, err := t.State.Resolve(src, o.Prefix)
	if err != nil {
		return nil, tree.LoadError(err)
	}
	if err := t.State.Deepen(o.Prefix, o.Source); err != nil {
		return nil, err
	}
	if t.First, err = t.Numbers(&t.Editor, uint64(made)); err != nil {
		return nil, err
	}
	t.Next = t.First
	j := &grafting{
		ctx: ctx, t: t, o: o, src: src, root: prefix.Ino,
		dirs: newDirectories(src, t.State, prefix.Ino), from: newDirectories(src, o.Source, tree.RootIno),
		links: make(map[uint64]uint64), gone: make(map[*tree.Path]bool), edited: make(map[uint64]*tree.Path), stale: make(map[uint64]bool),
	}
	t.Source = src.Counting(&j.copied)
	return j, nil
}

// step makes one step.
func (j *grafting) step(s *Step) error {
	if err := errors.Join(j.ctx.Err(), j.removeEmptied(s.Path)); err != nil {
		return err
	}
	if j.o.Before != nil {
		if err := j.o.Before(s); err != nil {
			return err
		}
	}
	switch {
	case s.After == 0 && s.Path != nil && j.isGone(s.Path.Dir):
		if s.WasDir {
			j.gone[s.Path] = true
		}
		return nil
	case s.WasDir && s.IsDir:
		ino, err := j.dirs.find(s.Path)
		j.attrs = append(j.attrs, attrsOf{ino, s.After, s.With})
		if err == nil && s.What&^tree.Mtime != 0 {
			j.t.Touched(ino)
		}
		return err
	case s.WasDir && s.After == 0 && j.o.KeepFull:
		j.emptied = append(j.emptied, s.Path)
		return nil
	case s.Before != 0 && s.After != 0 && j.links[s.Link] == s.Before:
		return nil // it goes on
	}
	if s.Before != 0 && !s.WasDir && s.After != 0 && !s.Linked && s.To == 0 {
		if done, err := j.rewrite(s); done || err != nil {
			return err
		}
	}
	if s.Before != 0 {
		if s.WasDir {
			j.gone[s.Path] = true
		}
		if err := j.remove(s.Path); err != nil {
			return err
		}
	}
	if s.After == 0 {
		return nil
	}
	return j.put(s)
}

// removeEmptied removes directories of emptied that a path is not in.
func (j *grafting) removeEmptied(p *tree.Path) error {
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
func (j *grafting) isGone(dir *tree.Path) bool {
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

func (j *grafting) remove(p *tree.Path) error {
	parent, err := j.dirs.find(p.Dir)
	if err != nil {
		return err
	}
	j.touched(p, parent)
	return j.do(&Op{Kind: Remove, Parent: parent, Name: p.Name})
}

// removed notes a name that was removed, which may have been the last one of n.
func (j *grafting) removed(parent uint64, name string, n *tree.Inode, last bool) {
	if j.rewritten != 0 {
		return
	}
	r := Replaced{Link: tree.Link{Parent: parent, Name: name}}
	r.MountPoint = j.t.mounted(r.Link, n.Ino)
	if last {
		r.Was, r.WasDir = n.Ino, n.IsDir()
		delete(j.edited, n.Ino)
	} else {
		j.stale[n.Ino] = true
	}
	j.replaced(r)
}

func (j *grafting) replaced(r Replaced) {
	j.names++
	j.t.replaced(r)
}

func (j *grafting) touched(p *tree.Path, parent uint64) {
	j.edited[parent] = p.Dir
	j.stale[parent] = true
}

func (j *grafting) put(s *Step) error {
	parent, err := j.dirs.find(s.Path.Dir)
	if err != nil {
		return err
	}
	j.touched(s.Path, parent)
	at := tree.Link{Parent: parent, Name: s.Path.Name}
	if s.Before == 0 && (parent < j.t.First || j.names < namesBelow) {
		j.replaced(Replaced{Link: at})
	}
	target, ok := j.links[s.Link]
	if s.To != 0 {
		target, ok = s.To, true
	}
	if ok {
		j.stale[target] = true
		return j.do(&Op{Kind: Link, Parent: parent, Name: at.Name, Ino: target})
	}
	from, view := s.With, s.WithView
	if from == nil {
		view = j.o.View
		if from, err = j.o.Source.Get(j.src, s.After); err != nil {
			return tree.LoadError(err)
		}
	}
	n := tree.Like(from, cmp.Or(j.rewritten, j.beneath(at, from)), j.o.Now)
	if n.Ino == 0 {
		n.Ino = j.t.Next
		j.t.Next++
	}
	j.touch(n)
	if n.IsDir() {
		j.dirs.known[s.Path] = n.Ino
		j.attrs = append(j.attrs, attrsOf{n.Ino, from.Ino, s.With})
	} else if s.Linked {
		j.links[s.Link] = n.Ino
	}
	return j.do(&Op{Kind: Put, Parent: parent, Name: at.Name, Node: n, From: from.Ino, View: view})
}

func (j *grafting) beneath(at tree.Link, from *tree.Inode) uint64 {
	if j.t.Beneath == nil {
		return 0
	}
	ino := j.t.Beneath(at, from)
	if ino != 0 {
		j.stale[ino] = true
	}
	return ino
}

// rewrite makes a step from one file to another within the inode, if something is mounted
// on that: the kernel unmounts what is mounted on a name that it has to drop.
func (j *grafting) rewrite(s *Step) (done bool, err error) {
	parent, err := j.dirs.find(s.Path.Dir)
	if err != nil || !j.t.mounted(tree.Link{Parent: parent, Name: s.Path.Name}, s.Before) {
		return false, err
	}
	a, err := j.t.State.Get(j.src, s.Before)
	if err != nil {
		return false, tree.LoadError(err)
	}
	b := s.With
	if b == nil {
		if b, err = j.o.Source.Get(j.src, s.After); err != nil {
			return false, tree.LoadError(err)
		}
	}
	if len(a.Links) != 1 || !a.IsRegular() || !b.IsRegular() {
		return false, nil
	}
	j.rewritten = s.Before
	defer func() { j.rewritten = 0 }()
	j.stale[s.Before] = true
	if err := j.remove(s.Path); err != nil {
		return false, err
	}
	return true, j.put(s)
}

// do makes one change, and writes it down if that is asked for.
func (j *grafting) do(c *Op) error {
	if j.t.Record != nil {
		if err := j.t.Record(c); err != nil {
			return err
		}
	}
	if err := c.Make(&j.t.Editor, j.removed); err != nil {
		return err
	}
	j.unsealed += stepMemory + 2*len(c.Name)
	if j.unsealed < maxUnsealed && j.copied.Load() < maxCopied {
		return nil
	}
	return j.seal()
}

func (j *grafting) seal() (err error) {
	if j.t.Seal == nil {
		return nil
	}
	j.unsealed = 0
	j.copied.Store(0)
	j.t.Epoch, err = j.t.Seal(j.t.State)
	return err
}

// finish makes what has to wait for all steps.
func (j *grafting) finish() (changed []uint64, err error) {
	if err := errors.Join(j.removeEmptied(nil), j.setAttrs()); err != nil {
		return nil, err
	}
	if j.o.Exact && !j.o.KeepFull {
		j.t.State.Depth = j.o.Source.Depth
	}
	return slices.Sorted(maps.Keys(j.stale)), j.seal()
}
