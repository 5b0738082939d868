package hostdir

import (
	"cmp"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// plan plans one path. It is called for a directory before its entries.
func (a *applying) plan(c tree.Change) error {
	if inSet(c.Path, a.excluded) || c.After != nil && c.After.Mode&unix.S_IFMT == unix.S_IFSOCK && a.isSocket(c) {
		return nil
	}
	at, err := a.host.look(c.Path)
	if err != nil {
		return err
	}
	p := c.Path.String()
	s := &applyStep{change: c, seen: at, text: a.repos.Merged[p].Data}
	if inSet(c.Path, a.whole) {
		if err := a.planIn(s); err != nil {
			return err
		}
		a.add(s)
		return nil
	}
	if only := minor(c) && c.What&tree.Links == 0; !only && a.choose(s) {
		return nil
	}
	conflict, err := a.judge(s)
	if err != nil {
		return err
	}
	if conflict && minor(c) {
		return nil
	}
	if conflict {
		if !a.conflict(s, at.unreachable != nil && !errors.Is(at.unreachable, unix.ENOENT)) {
			a.excluded[p] = true
			return nil
		}
	}
	a.add(s)
	return nil
}

func (a *applying) add(s *applyStep) {
	switch p := s.change.Path.String(); {
	case s.change.After == nil:
		a.removals[p] = s.todo
	case s.change.After.IsDir():
		a.willBeDir[p] = true
	}
	a.steps = append(a.steps, s)
}

// minor reports whether only the time and other names of a file differ.
func minor(c tree.Change) bool {
	return c.Before != nil && c.After != nil && c.What&^(tree.Mtime|tree.Links) == 0 &&
		(c.Before.Ino == c.After.Ino || len(c.Before.Links) < 2 && len(c.After.Links) < 2)
}

// judge decides whether a path is applied, and reports a conflict.
func (a *applying) judge(s *applyStep) (conflict bool, err error) {
	c, at := s.change, s.seen
	if at.unreachable != nil {
		// The path above it does not exist, or is not a directory.
		switch {
		case c.After == nil:
			return false, nil
		case a.willBeDir[c.Path.Dir.String()]:
			s.todo = true
			return false, nil
		}
		return true, nil
	}
	if c.Before != nil && c.Before.IsDir() && c.After != nil && c.After.IsDir() && at.isDir() {
		s.attrsOnly = true
		return a.judgeAttrs(s, c.Before)
	}
	if f := a.fileOf(s); f != nil && f.at != nil && at.exists && at.id() == f.id {
		s.attrsOnly = true
		return a.judgeAttrs(s, cmp.Or(f.was, c.Before))
	}
	if is, err := a.isApplied(s); err != nil || is {
		s.todo = is && a.fileOf(s) != nil // another file with the same bytes
		return false, err
	}
	if c.Before != nil && c.After != nil && c.Before.IsDir() != c.After.IsDir() && !at.exists {
		s.todo = true // an interrupted run removed what was there
		return false, nil
	}
	files := a.areFiles(s) && !minor(c)
	if !files || !a.goesOn(s) {
		if s.todo, err = a.host.same(a.o.Source, c.Path, at, c.Before); err != nil || s.todo {
			return false, err
		}
	}
	switch {
	case files:
		return a.mergeFile(s)
	case c.Before != nil:
		return true, nil
	}
	clean, err := a.mergeText(s)
	return !clean, err
}

// isSocket reports that a socket is skipped: it is useless without its program.
func (a *applying) isSocket(c tree.Change) bool {
	a.skip(c.Path, "sockets are not applied")
	return true
}

// planReplaced checks the directories that a file replaces: everything in them must be removed by a
// step.
func (a *applying) planReplaced() error {
	steps := a.steps
	a.steps = nil
	for _, s := range steps {
		c := s.change
		if inSet(c.Path, a.excluded) {
			continue
		}
		if s.todo && s.seen.isDir() && c.After != nil && !c.After.IsDir() {
			more, err := a.host.holdsMore(c.Path, a.removals)
			if err != nil {
				return err
			}
			if more && !a.conflict(s, true) {
				a.excluded[c.Path.String()] = true
				continue
			}
		}
		a.steps = append(a.steps, s)
	}
	return nil
}

// inSet reports whether a path, or a directory above it, is in a set.
func inSet(p *tree.Path, set map[string]bool) bool {
	if len(set) == 0 {
		return false
	}
	for ; p != nil; p = p.Dir {
		if set[p.String()] {
			return true
		}
	}
	return false
}
