package threeway

import (
	"maps"
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// firstLink is the first value of Step.Link for files with several names, larger than all inode
// numbers.
const firstLink = tree.MaxIno + 1

// Steps returns the steps from ours to the planned tree, sorted by path, a directory before its
// entries.
func (p *Plan) Steps() ([]graft.Step, error) {
	s := stepper{plannedFiles: &p.files, paths: make(map[string]*tree.Path), links: make(map[*file]linkPlan)}
	touched := slices.Collect(maps.Keys(p.files.planned))

	for _, f := range p.files.presentFiles {
		if f.changed && !f.node.IsDir() {
			names, err := p.files.namesOf(f, 0)
			if err != nil {
				return nil, err
			}
			touched = append(touched, names...)
		}
	}

	slices.SortFunc(touched, tree.ComparePaths)
	var all []graft.Step

	for _, at := range slices.Compact(touched) {
		step, ok, err := s.step(at)
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
	to     uint64 // Step.To
	number uint64 // Step.Link
	linked bool   // Step.Linked
}

// step returns the step for a path. ok is false if the path stays as it is.
func (s *stepper) step(at string) (step graft.Step, ok bool, err error) {
	f, err := s.get(at)
	if err != nil {
		return step, false, err
	}

	n, err := s.presentAt(at)
	if err != nil {
		return step, false, err
	}

	c := tree.Change{Path: s.path(at), Before: n}

	switch {
	case f == nil && n == nil, f != nil && n != nil && !f.changed && f.isPresent(n):
		return step, false, nil
	case f == nil:
		c.What = tree.Removed
		return graft.StepOf(c), true, nil
	case n == nil:
		c.What = tree.Added
	default:
		c.What = tree.Data
		if f.node.IsDir() && n.IsDir() {
			c.What = tree.Mode
			if f.node.UID != n.UID || f.node.GID != n.GID {
				c.What = tree.Owner
			}
		}
	}

	c.After = f.node

	if n != nil {
		if same, err := s.unchanged(f, n); err != nil || same {
			return step, false, err
		}
	}

	step = graft.StepOf(c)
	step.With, step.WithView, step.Link, step.Linked = f.node, f.view, 0, false
	if f.node.IsDir() {
		return step, true, nil
	}

	l, err := s.linksOf(f)
	step.To, step.Link, step.Linked = l.to, l.number, l.linked
	return step, true, err
}

// unchanged reports whether a path of the file f can keep its present inode n. It can if n equals f and, unless f is a
// directory, n is the present inode of f or both have only this name.
func (s *stepper) unchanged(f *file, n *tree.Inode) (bool, error) {
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

// linksOf returns the plan for the hard links of a file.
func (s *stepper) linksOf(f *file) (linkPlan, error) {
	l, ok := s.links[f]
	if ok || f.present == nil && len(f.names) < 2 {
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

	for _, at := range names {
		if n, err := s.presentAt(at); same && err == nil && n != nil && f.isPresent(n) {
			l.to = n.Ino // this name keeps its inode
		}
	}

	l.linked, l.number = len(names) > 1, firstLink+uint64(len(s.links))
	s.links[f] = l

	return l, nil
}

// path returns the path of a step. Steps share the Path values of their directories.
func (s *stepper) path(at string) *tree.Path {
	if at == "." || at == "" {
		return nil
	}
	p, ok := s.paths[at]
	if !ok {
		p = s.path(path.Dir(at)).Entry(path.Base(at))
		s.paths[at] = p
	}

	return p
}
