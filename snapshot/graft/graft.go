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

// Options are the options of Target.Graft and Target.Overlay.
type Options struct {
	Source *tree.State
	View   uint32 // the view of Source, for recorded operations
	// Prefix is the directory of the target to which the paths of steps are relative; "" is the
	// root.
	Prefix string
	// Touch sets the mtime of new files, and of directories with changed attributes, to Now.
	// Without it they get their times in the source.
	Touch bool
	// Exact makes the target equal to the source, including the attributes of directories whose
	// entries changed.
	Exact bool
	// KeepFull keeps directories that are not in the source, if they are not empty in the
	// target after all steps.
	KeepFull bool
	// Top copies the attributes of the root of an overlay to the directory at Prefix.
	Top bool
	// Now is the time of the change in nanoseconds since 1970.
	Now int64
	// Before, if not nil, is called before each step.
	Before func(*Step) error
}

const (
	// maxUnsealed is the approximate memory of a graft, in bytes, after which Target.Seal is
	// called.
	maxUnsealed = 32 << 20
	// stepMemory is the approximate memory of an inode with its directory entry and its page.
	stepMemory = 1 << 10
	// maxCopied is the limit as maxUnsealed for pages that were copied to be changed.
	maxCopied = 32 << 20
	// namesBelow is the limit for calls of Target.Replaced for names in new directories. The
	// kernel does not know these names, but programs may watch for them.
	namesBelow = 20_000
)

// Graft makes steps in a target: the file at the path of a step becomes the file in the source.
// Directories that are on both sides keep their inodes. Any other changed path gets a new inode, so
// that a program with the old file open does not see the new contents. Graft returns the inodes
// whose attributes or entries changed, sorted by number.
func (t *Target) Graft(ctx context.Context, steps []Step, o Options) (changed []uint64, err error) {
	made := 0
	for i := range steps {
		if steps[i].After != 0 {
			made++
		}
	}

	j, err := t.newRun(ctx, o, made)
	if err != nil {
		return nil, err
	}
	if err := j.chooseLinks(steps); err != nil {
		return nil, err
	}

	for i := range steps {
		if err := j.makeStep(&steps[i]); err != nil {
			return nil, err
		}
	}

	return j.finish()
}

// Overlay works as Graft, with the steps that over.Walk makes one after the other, so that they are never all in
// memory. It takes o.Source and o.Prefix from over.
func (t *Target) Overlay(ctx context.Context, over *Overlay, o Options) (changed []uint64, err error) {
	o.Source, o.Prefix = over.Source, over.Prefix
	j, err := t.newRun(ctx, o, int(over.Source.Inodes))
	if err != nil {
		return nil, err
	}
	if err := over.Walk(ctx, j.src, j.makeStep); err != nil {
		return nil, tree.LoadError(err)
	}
	if o.Top {
		j.attrs = append(j.attrs, attrsCopy{ino: j.root, from: tree.RootIno})
	}

	return j.finish()
}

// A graftRun is one call of Target.Graft or Target.Overlay.
type graftRun struct {
	ctx  context.Context
	t    *Target
	o    Options
	src  *tree.Source
	root uint64 // the inode of the prefix

	dirs          *directories          // directories of the target
	from          *directories          // directories of the source
	links         map[uint64]uint64     // inode of the target by Step.Link
	removedDirs   map[*tree.Path]bool   // directories that were removed with their contents
	maybeEmpty    []*tree.Path          // a stack of directories to remove if they are empty; each contains the next
	attrs         []attrsCopy           // attributes of directories, to be set after all steps
	edited        map[uint64]*tree.Path // directories of the target whose entries changed
	stale         map[uint64]bool       // inodes whose attributes or entries changed
	replacedNames int                   // number of calls of Target.Replaced

	rewritten uint64 // the inode that put reuses, see rewrite; 0: put makes a new one

	unsealed int          // approximate memory since the last seal, in bytes
	copied   atomic.Int64 // bytes of pages copied since the last seal
}

// newRun begins a run, and reserves made inode numbers for it.
func (t *Target) newRun(ctx context.Context, o Options, made int) (*graftRun, error) {
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
	j := &graftRun{
		ctx: ctx, t: t, o: o, src: src, root: prefix.Ino,
		dirs: newDirectories(src, t.State, prefix.Ino), from: newDirectories(src, o.Source, tree.RootIno),
		links: make(map[uint64]uint64), removedDirs: make(map[*tree.Path]bool), edited: make(map[uint64]*tree.Path), stale: make(map[uint64]bool),
	}

	t.Source = src.Counting(&j.copied)

	return j, nil
}

// makeStep makes one step.
func (j *graftRun) makeStep(s *Step) error {
	if err := errors.Join(j.ctx.Err(), j.removeEmptied(s.Path)); err != nil {
		return err
	}

	if j.o.Before != nil {
		if err := j.o.Before(s); err != nil {
			return err
		}
	}

	switch {
	case s.After == 0 && s.Path != nil && j.inRemovedDir(s.Path.Dir):
		if s.WasDir {
			j.removedDirs[s.Path] = true
		}
		return nil

	case s.WasDir && s.IsDir:
		ino, err := j.dirs.find(s.Path)
		j.attrs = append(j.attrs, attrsCopy{ino, s.After, s.With})
		if err != nil {
			return err
		}
		if s.What&^tree.Mtime != 0 {
			j.t.Touched(ino)
		}

		return nil

	case s.WasDir && s.After == 0 && j.o.KeepFull:
		j.maybeEmpty = append(j.maybeEmpty, s.Path)
		return nil
	case s.Before != 0 && s.After != 0 && j.links[s.Link] == s.Before:
		return nil // the name keeps its inode
	}

	if s.Before != 0 && !s.WasDir && s.After != 0 && !s.Linked && s.To == 0 {
		if done, err := j.rewrite(s); done || err != nil {
			return err
		}
	}

	if s.Before != 0 {
		if s.WasDir {
			j.removedDirs[s.Path] = true
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

// removeEmptied removes the empty directories of maybeEmpty that do not contain the path p. Steps are sorted by
// path, so all steps in these directories have been made.
func (j *graftRun) removeEmptied(p *tree.Path) error {
	for n := len(j.maybeEmpty); n > 0 && !below(p, j.maybeEmpty[n-1]); n-- {
		dir := j.maybeEmpty[n-1]
		j.maybeEmpty = j.maybeEmpty[:n-1]
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

// inRemovedDir reports whether dir, or a directory above it, was removed with its contents.
func (j *graftRun) inRemovedDir(dir *tree.Path) bool {
	for ; dir != nil && len(j.removedDirs) > 0; dir = dir.Dir {
		if j.removedDirs[dir] {
			return true
		}
	}
	return false
}

// below reports whether p is dir or a path below it.
func below(p, dir *tree.Path) bool {
	for ; p != nil; p = p.Dir {
		if p == dir {
			return true
		}
	}
	return false
}

func (j *graftRun) remove(p *tree.Path) error {
	parent, err := j.dirs.find(p.Dir)
	if err != nil {
		return err
	}
	j.markEdited(p, parent)
	return j.apply(&Op{Kind: Remove, Parent: parent, Name: p.Name})
}

// nameRemoved is called for each name that an operation removes. last is set if it was the last
// name of n.
func (j *graftRun) nameRemoved(parent uint64, name string, n *tree.Inode, last bool) {
	if j.rewritten != 0 {
		return
	}
	r := Replaced{Link: tree.Link{Parent: parent, Name: name}}
	r.MountPoint = j.t.isMounted(r.Link, n.Ino)
	if last {
		r.Was, r.WasDir = n.Ino, n.IsDir()
		delete(j.edited, n.Ino)
	} else {
		j.stale[n.Ino] = true
	}

	j.notifyReplaced(r)
}

func (j *graftRun) notifyReplaced(r Replaced) {
	j.replacedNames++
	j.t.notifyReplaced(r)
}

// markEdited notes that the entries of parent, the directory of p, change.
func (j *graftRun) markEdited(p *tree.Path, parent uint64) {
	j.edited[parent] = p.Dir
	j.stale[parent] = true
}

// put makes an entry at the path of a step, for a new inode or as a link to an existing inode. There must be no entry
// at the path.
func (j *graftRun) put(s *Step) error {
	parent, err := j.dirs.find(s.Path.Dir)
	if err != nil {
		return err
	}

	j.markEdited(s.Path, parent)
	at := tree.Link{Parent: parent, Name: s.Path.Name}
	if s.Before == 0 && (parent < j.t.First || j.replacedNames < namesBelow) {
		j.notifyReplaced(Replaced{Link: at})
	}

	target, ok := j.links[s.Link]
	if s.To != 0 {
		target, ok = s.To, true
	}

	if ok {
		j.stale[target] = true
		return j.apply(&Op{Kind: Link, Parent: parent, Name: at.Name, Ino: target})
	}

	from, view := s.With, s.WithView
	if from == nil {
		view = j.o.View
		if from, err = j.o.Source.Get(j.src, s.After); err != nil {
			return tree.LoadError(err)
		}
	}

	n := tree.Like(from, cmp.Or(j.rewritten, j.inodeBeneath(at, from)), j.o.Now)
	if n.Ino == 0 {
		n.Ino = j.t.Next
		j.t.Next++
	}

	j.setTimes(n)

	if n.IsDir() {
		j.dirs.known[s.Path] = n.Ino
		j.attrs = append(j.attrs, attrsCopy{n.Ino, from.Ino, s.With})
	} else if s.Linked {
		j.links[s.Link] = n.Ino
	}

	return j.apply(&Op{Kind: Put, Parent: parent, Name: at.Name, Node: n, From: from.Ino, View: view})
}

// inodeBeneath calls Target.Beneath.
func (j *graftRun) inodeBeneath(at tree.Link, from *tree.Inode) uint64 {
	if j.t.Beneath == nil {
		return 0
	}
	ino := j.t.Beneath(at, from)
	if ino != 0 {
		j.stale[ino] = true
	}

	return ino
}

// rewrite makes a step from one regular file to another without a new inode, if a file system is mounted on the
// file. For a new inode, the kernel would drop the name and unmount that file system.
func (j *graftRun) rewrite(s *Step) (done bool, err error) {
	parent, err := j.dirs.find(s.Path.Dir)
	if err != nil || !j.t.isMounted(tree.Link{Parent: parent, Name: s.Path.Name}, s.Before) {
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

// apply records an operation, makes it in the target, and seals the target if its memory has grown
// to the limit.
func (j *graftRun) apply(c *Op) error {
	if j.t.Record != nil {
		if err := j.t.Record(c); err != nil {
			return err
		}
	}

	if err := c.Make(&j.t.Editor, j.nameRemoved); err != nil {
		return err
	}

	j.unsealed += stepMemory + 2*len(c.Name)
	if j.unsealed < maxUnsealed && j.copied.Load() < maxCopied {
		return nil
	}

	return j.seal()
}

// seal calls Target.Seal, and begins to count memory again.
func (j *graftRun) seal() (err error) {
	if j.t.Seal == nil {
		return nil
	}
	j.unsealed = 0
	j.copied.Store(0)
	j.t.Epoch, err = j.t.Seal(j.t.State)
	return err
}

// finish removes directories that are empty after all steps, sets the attributes of directories, and
// seals the target.
func (j *graftRun) finish() (changed []uint64, err error) {
	if err := errors.Join(j.removeEmptied(nil), j.setAttrs()); err != nil {
		return nil, err
	}
	if j.o.Exact && !j.o.KeepFull {
		j.t.State.Depth = j.o.Source.Depth
	}

	return slices.Sorted(maps.Keys(j.stale)), j.seal()
}
