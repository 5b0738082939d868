package gitbridge

import (
	"cmp"
	"path"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ruleOf is the rule for a path in conflict.
func (a *applying) ruleOf(name string) threeway.Rule {
	if a.o.Choose == nil {
		return a.o.Conflicts
	}
	return cmp.Or(a.o.Choose(name).Conflicts, a.o.Conflicts)
}

// resolution is what becomes of a path that a merge of git leaves in conflict.
func (a *applying) resolution(name string) gitdir.Resolution {
	if a.o.Choose != nil && a.o.Choose(name).Markers {
		return gitdir.WithMarkers
	}
	if a.o.Choose != nil && a.o.Choose(name).Leave {
		return gitdir.TakeOurs
	}
	switch a.ruleOf(name) {
	case threeway.KeepOurs:
		return gitdir.TakeOurs
	case threeway.TakeTheirs:
		return gitdir.TakeTheirs
	}
	return gitdir.Unresolved
}

// planMerges finds what is in the way of the merges of a repository, and the conflicts of those that
// are chosen. files are the changes of the workspace that are not committed there.
func (a *applying) planMerges(g *gitApply, files []tree.Change) error {
	for _, d := range g.change.Diverged {
		for _, c := range files {
			if at, ok := below(c.Path.String(), g.work); ok && !isDirChange(c) && d.NoMerge == "" && d.Changes(at) {
				d.NoMerge = at + " has changes in the workspace that are not committed"
			}
		}
		for i, at := range d.Conflicts {
			d.Conflicts[i] = path.Join(g.work, at)
		}
		if !g.merge || !d.Head {
			continue
		}
		if d.NoMerge != "" {
			return errs.Fail(errs.Conflict, "%s is not merged: %s; nothing was changed", d.Branch, d.NoMerge)
		}
		for _, at := range d.Conflicts {
			if a.resolution(at) == gitdir.Unresolved {
				a.res.Conflicts, a.refused = append(a.res.Conflicts, at), true
			}
		}
	}
	return nil
}

// withReplaced adds the files that the directory gets because its HEAD becomes the workspace's: they are
// what the workspace has.
func (a *applying) withReplaced(g *gitApply, files []tree.Change) ([]tree.Change, error) {
	if g.plan == nil {
		return files, nil
	}
	known := make(map[string]bool)
	for _, c := range files {
		known[c.Path.String()] = true
	}
	replaced, err := g.plan.Replaced(a.ctx, func(at string) bool { return a.asBase(path.Join(g.work, at)) })
	if err != nil {
		return nil, err
	}
	for _, name := range replaced {
		p, err := tree.ParsePath(path.Join(g.work, name))
		if err != nil {
			return nil, err
		}
		for ; p != nil && !a.whole[p.String()]; p = p.Dir { // with directories that are not there
			c, err := a.changeTo(p)
			if err != nil {
				return nil, err
			}
			if c.Before == nil && c.After == nil || c.After != nil && c.After.IsDir() && a.hasDir(p) {
				break
			}
			if a.whole[p.String()] = true; !known[p.String()] {
				files = append(files, c)
			}
		}
	}
	return files, nil
}

// asBase reports whether the directory has the file of the base at a path, or as the base none.
func (a *applying) asBase(name string) bool {
	p, err := tree.ParsePath(name)
	if err != nil {
		return false
	}
	at, err := a.host.look(p)
	was, berr := a.o.Base.At(a.o.Source, name)
	if err != nil || berr != nil || was == nil || !at.exists {
		return err == nil && berr == nil && was == nil && !at.exists
	}
	return at.st.Mode == was.Mode && at.st.Size == was.Size() && at.st.Mtim.Nano() == was.Mtime
}

// hasDir reports whether the directory has a directory at a path.
func (a *applying) hasDir(p *tree.Path) bool {
	at, err := a.host.look(p)
	return err == nil && at.isDir()
}

// changeTo is the change of a path from what the base has, or the directory alone, to what the
// workspace has.
func (a *applying) changeTo(p *tree.Path) (c tree.Change, err error) {
	c = tree.Change{Path: p, What: tree.Data}
	if c.Before, err = a.o.Base.At(a.o.Source, p.String()); err != nil {
		return c, err
	}
	if c.After, err = a.o.Now.At(a.o.Source, p.String()); err != nil || c.Before != nil || c.After != nil {
		return c, err
	}
	at, err := a.host.look(p)
	if at.exists {
		c.Before = &tree.Inode{Ino: at.st.Ino, Mode: at.st.Mode, Nlink: 1}
	}
	return c, err
}
