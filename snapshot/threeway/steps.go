package threeway

import (
	"maps"
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// firstLinkGroup is the first value of Step.LinkGroup for files with several names, larger than all inode numbers.
const firstLinkGroup = tree.MaxIno + 1

// Steps returns the steps from ours to the planned tree, sorted by path, a directory before its
// entries.
func (p *Plan) Steps() ([]graft.Step, error) {
	s := stepper{plannedFiles: &p.files, paths: make(map[string]*tree.Path), links: make(map[*file]linkPlan)}
	changed := slices.Collect(maps.Keys(p.files.changedPaths))

	for _, f := range p.files.presentFiles {
		if f.changed && !f.node.IsDir() {
			names, err := p.files.namesOf(f, 0)
			if err != nil {
				return nil, err
			}
			changed = append(changed, names...)
		}
	}

	slices.SortFunc(changed, tree.ComparePaths)
	var all []graft.Step

	for _, filePath := range slices.Compact(changed) {
		step, ok, err := s.step(filePath)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, step)
		}
	}

	return all, nil
}

// A stepper makes the steps of a plan.
type stepper struct {
	*plannedFiles
	paths map[string]*tree.Path // results of path
	links map[*file]linkPlan    // results of linksOf
}

// A linkPlan has the values of a step that make the names of a file hard links of one inode.
type linkPlan struct {
	targetIno uint64 // Step.TargetIno
	group     uint64 // Step.LinkGroup
	linked    bool   // Step.Linked
}

// step returns the step for a path. ok is false if the path stays as it is.
func (s *stepper) step(filePath string) (step graft.Step, ok bool, err error) {
	f, err := s.fileAt(filePath)
	if err != nil {
		return step, false, err
	}

	n, err := s.presentAt(filePath)
	if err != nil {
		return step, false, err
	}

	c := tree.Change{Path: s.path(filePath), Before: n}

	switch {
	case f == nil && n == nil, f != nil && n != nil && !f.changed && f.isPresent(n):
		return step, false, nil
	case f == nil:
		c.Differences = tree.PathRemoved
		return graft.StepOf(c), true, nil
	case n == nil:
		c.Differences = tree.PathAdded
	default:
		c.Differences = tree.DataDiffers
		if f.node.IsDir() && n.IsDir() {
			c.Differences = tree.ModeDiffers
			if f.node.UID != n.UID || f.node.GID != n.GID {
				c.Differences = tree.OwnerDiffers
			}
		}
	}

	c.After = f.node

	if n != nil {
		if same, err := s.canKeepInode(f, n); err != nil || same {
			return step, false, err
		}
	}

	step = graft.StepOf(c)
	step.ReplacementNode, step.ReplacementView, step.LinkGroup, step.Linked = f.node, f.view, 0, false
	if f.node.IsDir() {
		return step, true, nil
	}

	l, err := s.linksOf(f)
	step.TargetIno, step.LinkGroup, step.Linked = l.targetIno, l.group, l.linked
	return step, true, err
}

// canKeepInode reports whether a path of the file f can keep its present inode n. n must equal f. If f is no directory, n
// must also be the present inode of f, or neither n nor f may have other names.
func (s *stepper) canKeepInode(f *file, n *tree.Inode) (bool, error) {
	if !f.node.IsDir() && !f.isPresent(n) {
		names, err := s.namesOf(f, 2)
		if err != nil || len(names) > 1 || n.Nlink > 1 {
			return false, err
		}
	}
	return s.equals(f, n)
}

// isPresent reports whether n is the present inode of f.
func (f *file) isPresent(n *tree.Inode) bool { return f.present != nil && f.present.Ino == n.Ino }

// linksOf returns the values of steps that make the names of a file hard links of one inode.
func (s *stepper) linksOf(f *file) (linkPlan, error) {
	l, ok := s.links[f]
	if ok || f.present == nil && len(f.addedPaths) < 2 {
		return l, nil
	}

	names, err := s.namesOf(f, 0)
	if err != nil {
		return l, err
	}

	same := false
	if f.present != nil {
		if same, err = s.equals(f, f.present); err != nil {
			return l, err
		}
	}

	for _, filePath := range names {
		if n, err := s.presentAt(filePath); same && err == nil && n != nil && f.isPresent(n) {
			l.targetIno = n.Ino // this name keeps its inode
		}
	}

	l.linked, l.group = len(names) > 1, firstLinkGroup+uint64(len(s.links))
	s.links[f] = l

	return l, nil
}

// path returns the path of a step. Steps share the Path values of their directories.
func (s *stepper) path(filePath string) *tree.Path {
	if filePath == "." || filePath == "" {
		return nil
	}
	p, ok := s.paths[filePath]
	if !ok {
		p = s.path(path.Dir(filePath)).ChildUnchecked(path.Base(filePath))
		s.paths[filePath] = p
	}

	return p
}
