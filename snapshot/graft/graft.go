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
	// KeepNonEmptyDirs keeps directories that are not in the source, if they are not empty in the target after all
	// steps.
	KeepNonEmptyDirs bool
	// CopyRootAttrs copies the attributes of the root of an overlay to the directory at Prefix.
	CopyRootAttrs bool
	// Now is the time of the change in nanoseconds since 1970.
	Now int64
	// BeforeStep, if not nil, is called before each step.
	BeforeStep func(*Step) error
}

const (
	// maxUnsealedBytes is the approximate memory of a graft, in bytes, after which Target.Seal is
	// called.
	maxUnsealedBytes = 32 << 20
	// stepMemory is the approximate memory of an inode with its directory entry and its page.
	stepMemory = 1 << 10
	// maxCopiedBytes is the size of pages copied for changes, in bytes, after which Target.Seal is called.
	maxCopiedBytes = 32 << 20
	// newDirCallLimit is the number of calls of Target.OnReplaced after which OnReplaced is no longer called for names
	// in new directories. The kernel does not know these names, but programs may watch for them.
	newDirCallLimit = 20_000
)

// Graft makes steps in a target: the file at the path of a step becomes the file in the source.
// Directories that are on both sides keep their inodes. Any other changed path gets a new inode, so
// that a program with the old file open does not see the new contents. Graft returns the inodes
// whose attributes or entries changed, sorted by number.
func (t *Target) Graft(ctx context.Context, steps []Step, o Options) (changed []uint64, err error) {
	newInodes := 0
	for i := range steps {
		if steps[i].After != 0 {
			newInodes++
		}
	}

	j, err := t.newRun(ctx, o, newInodes)
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

// Overlay does what Graft does, with the steps that over.Walk makes one after the other. So the steps are
// never all in memory. Overlay uses over.Source and over.Prefix instead of o.Source and o.Prefix.
func (t *Target) Overlay(ctx context.Context, over *Overlay, o Options) (changed []uint64, err error) {
	o.Source, o.Prefix = over.Source, over.Prefix
	j, err := t.newRun(ctx, o, int(over.Source.Inodes))
	if err != nil {
		return nil, err
	}
	if err := over.Walk(ctx, j.src, j.makeStep); err != nil {
		return nil, tree.LoadError(err)
	}
	if o.CopyRootAttrs {
		j.pendingAttrs = append(j.pendingAttrs, attrsCopy{ino: j.root, sourceIno: tree.RootIno})
	}

	return j.finish()
}

// A graftRun is one call of Target.Graft or Target.Overlay.
type graftRun struct {
	ctx     context.Context
	target  *Target
	options Options
	src     *tree.Source
	root    uint64 // the inode of the prefix

	targetDirs        *dirFinder            // directories of the target
	sourceDirs        *dirFinder            // directories of the source
	linkedInodes      map[uint64]uint64     // inode of the target by Step.LinkGroup
	removedDir        *tree.Path            // the last directory that was removed with its contents, nil if there is none
	maybeEmpty        []*tree.Path          // a stack of directories to remove if they are empty; each contains the next
	pendingAttrs      []attrsCopy           // attributes of directories, to be set after all steps
	editedDirs        map[uint64]*tree.Path // directories of the target whose entries changed
	changedInodes     map[uint64]bool       // inodes whose attributes or entries changed
	replacedNameCount int                   // number of calls of Target.OnReplaced

	reusedIno uint64 // the inode that putEntry reuses, see rewrite; 0: putEntry makes a new inode

	unsealedBytes int          // approximate memory since the last seal, in bytes
	copiedBytes   atomic.Int64 // bytes of pages copied since the last seal
}

// newRun begins a run, and reserves newInodes inode numbers for it.
func (t *Target) newRun(ctx context.Context, o Options, newInodes int) (*graftRun, error) {
	src := t.Source
	t.Time = o.Now
	prefix, err := t.State.Resolve(src, o.Prefix)
	if err != nil {
		return nil, tree.LoadError(err)
	}
	if err := t.State.Deepen(o.Prefix, o.Source); err != nil {
		return nil, err
	}
	if t.FirstIno, err = t.ReserveInos(&t.Editor, uint64(newInodes)); err != nil {
		return nil, err
	}

	t.NextIno = t.FirstIno
	j := &graftRun{
		ctx: ctx, target: t, options: o, src: src, root: prefix.Ino,
		targetDirs: newDirFinder(src, t.State, prefix.Ino), sourceDirs: newDirFinder(src, o.Source, tree.RootIno),
		linkedInodes: make(map[uint64]uint64), editedDirs: make(map[uint64]*tree.Path), changedInodes: make(map[uint64]bool),
	}

	t.Source = src.CountingCopies(&j.copiedBytes)

	return j, nil
}

// makeStep makes one step.
func (j *graftRun) makeStep(s *Step) error {
	if err := errors.Join(j.ctx.Err(), j.removeEmptied(s.Path)); err != nil {
		return err
	}

	if j.options.BeforeStep != nil {
		if err := j.options.BeforeStep(s); err != nil {
			return err
		}
	}

	switch {
	case s.After == 0 && j.removedDir != nil && s.Path.IsUnder(j.removedDir):
		return nil

	case s.WasDir && s.IsDir:
		ino, err := j.targetDirs.findDir(s.Path)
		j.pendingAttrs = append(j.pendingAttrs, attrsCopy{ino, s.After, s.ReplacementNode})
		if err != nil {
			return err
		}
		if s.Differences&^tree.MtimeDiffers != 0 {
			j.target.ReportChanged(ino)
		}

		return nil

	case s.WasDir && s.After == 0 && j.options.KeepNonEmptyDirs:
		j.maybeEmpty = append(j.maybeEmpty, s.Path)
		return nil
	case s.Before != 0 && s.After != 0 && j.linkedInodes[s.LinkGroup] == s.Before:
		return nil // the name keeps its inode
	}

	if s.Before != 0 && !s.WasDir && s.After != 0 && !s.Linked && s.TargetIno == 0 {
		if done, err := j.rewrite(s); done || err != nil {
			return err
		}
	}

	if s.Before != 0 {
		if s.WasDir {
			j.removedDir = s.Path
		}
		if err := j.remove(s.Path); err != nil {
			return err
		}
	}
	if s.After == 0 {
		return nil
	}

	return j.putEntry(s)
}

// removeEmptied removes the empty directories of maybeEmpty that do not contain the path p. Steps are sorted by
// path, so all steps in these directories have been made.
func (j *graftRun) removeEmptied(p *tree.Path) error {
	for n := len(j.maybeEmpty); n > 0 && !p.IsUnder(j.maybeEmpty[n-1]); n-- {
		dir := j.maybeEmpty[n-1]
		j.maybeEmpty = j.maybeEmpty[:n-1]
		if d, err := j.targetDirs.findInode(dir); err != nil {
			return err
		} else if d.Dir.Len() == 0 {
			if err := j.remove(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *graftRun) remove(p *tree.Path) error {
	parent, err := j.targetDirs.findDir(p.Dir)
	if err != nil {
		return err
	}
	j.markEdited(p, parent)
	return j.apply(&Op{Kind: OpRemove, Parent: parent, Name: p.Name})
}

// nameRemoved is called for each name that an operation removes. last is set if it was the last
// name of n.
func (j *graftRun) nameRemoved(parent uint64, name string, n *tree.Inode, last bool) {
	if j.reusedIno != 0 {
		return
	}
	r := ReplacedName{Link: tree.Link{Parent: parent, Name: name}}
	r.MountPoint = j.target.isMounted(r.Link, n.Ino)
	if last {
		r.OldIno, r.WasDir = n.Ino, n.IsDir()
		delete(j.editedDirs, n.Ino)
	} else {
		j.changedInodes[n.Ino] = true
	}

	j.notifyReplaced(r)
}

func (j *graftRun) notifyReplaced(r ReplacedName) {
	j.replacedNameCount++
	j.target.notifyReplaced(r)
}

// markEdited records that the entries of parent, the directory of p, change.
func (j *graftRun) markEdited(p *tree.Path, parent uint64) {
	j.editedDirs[parent] = p.Dir
	j.changedInodes[parent] = true
}

// putEntry makes an entry at the path of a step, for a new inode or as a link to an existing inode. There must be
// no entry at the path.
func (j *graftRun) putEntry(s *Step) error {
	parent, err := j.targetDirs.findDir(s.Path.Dir)
	if err != nil {
		return err
	}

	j.markEdited(s.Path, parent)
	name := tree.Link{Parent: parent, Name: s.Path.Name}
	if s.Before == 0 && (parent < j.target.FirstIno || j.replacedNameCount < newDirCallLimit) {
		j.notifyReplaced(ReplacedName{Link: name})
	}

	target, ok := j.linkedInodes[s.LinkGroup]
	if s.TargetIno != 0 {
		target, ok = s.TargetIno, true
	}

	if ok {
		j.changedInodes[target] = true
		return j.apply(&Op{Kind: OpLink, Parent: parent, Name: name.Name, Ino: target})
	}

	from, view := s.ReplacementNode, s.ReplacementView
	if from == nil {
		view = j.options.View
		if from, err = j.options.Source.Get(j.src, s.After); err != nil {
			return tree.LoadError(err)
		}
	}

	n := tree.NewInodeLike(from, cmp.Or(j.reusedIno, j.mountOrphan(name, from)), j.options.Now)
	if n.Ino == 0 {
		n.Ino = j.target.NextIno
		j.target.NextIno++
	}

	j.setTimes(n)

	if n.IsDir() {
		j.targetDirs.found[s.Path] = n.Ino
		j.pendingAttrs = append(j.pendingAttrs, attrsCopy{n.Ino, from.Ino, s.ReplacementNode})
	} else if s.Linked {
		j.linkedInodes[s.LinkGroup] = n.Ino
	}

	return j.apply(&Op{Kind: OpPut, Parent: parent, Name: name.Name, Node: n, ContentIno: from.Ino, ContentView: view})
}

// mountOrphan calls Target.MountOrphan, and adds the inode that it returns to changedInodes.
func (j *graftRun) mountOrphan(name tree.Link, from *tree.Inode) uint64 {
	if j.target.MountOrphan == nil {
		return 0
	}
	ino := j.target.MountOrphan(name, from)
	if ino != 0 {
		j.changedInodes[ino] = true
	}

	return ino
}

// rewrite makes a step from one regular file to another without a new inode, if a file system is mounted on the
// file. For a new inode, the kernel would drop the name and unmount that file system.
func (j *graftRun) rewrite(s *Step) (done bool, err error) {
	parent, err := j.targetDirs.findDir(s.Path.Dir)
	if err != nil || !j.target.isMounted(tree.Link{Parent: parent, Name: s.Path.Name}, s.Before) {
		return false, err
	}

	a, err := j.target.State.Get(j.src, s.Before)
	if err != nil {
		return false, tree.LoadError(err)
	}

	b := s.ReplacementNode
	if b == nil {
		if b, err = j.options.Source.Get(j.src, s.After); err != nil {
			return false, tree.LoadError(err)
		}
	}
	if len(a.Links) != 1 || !a.IsRegular() || !b.IsRegular() {
		return false, nil
	}

	j.reusedIno = s.Before
	defer func() { j.reusedIno = 0 }()

	j.changedInodes[s.Before] = true
	if err := j.remove(s.Path); err != nil {
		return false, err
	}

	return true, j.putEntry(s)
}

// apply records an operation, makes it in the target, and seals the target if its memory has grown
// to the limit.
func (j *graftRun) apply(c *Op) error {
	if j.target.RecordOp != nil {
		if err := j.target.RecordOp(c); err != nil {
			return err
		}
	}

	if err := c.Make(&j.target.Editor, j.nameRemoved); err != nil {
		return err
	}

	j.unsealedBytes += stepMemory + 2*len(c.Name)
	if j.unsealedBytes < maxUnsealedBytes && j.copiedBytes.Load() < maxCopiedBytes {
		return nil
	}

	return j.seal()
}

// seal calls Target.Seal, and begins to count memory again.
func (j *graftRun) seal() (err error) {
	if j.target.Seal == nil {
		return nil
	}
	j.unsealedBytes = 0
	j.copiedBytes.Store(0)
	j.target.Epoch, err = j.target.Seal(j.target.State)
	return err
}

// finish removes directories that are empty after all steps, sets the attributes of directories, and
// seals the target.
func (j *graftRun) finish() (changed []uint64, err error) {
	if err := errors.Join(j.removeEmptied(nil), j.setAttrs()); err != nil {
		return nil, err
	}
	if j.options.Exact && !j.options.KeepNonEmptyDirs {
		j.target.State.Depth = j.options.Source.Depth
	}

	return slices.Sorted(maps.Keys(j.changedInodes)), j.seal()
}
