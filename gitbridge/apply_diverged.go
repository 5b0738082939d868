package gitbridge

import (
	"cmp"
	"errors"
	"math"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

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
	return resolutions[a.ruleOf(name)]
}

// planMerges refuses a merge of a repository that is wanted if something is in its way, or if a conflict
// is not decided.
func (a *applying) planMerges(g *gitApply) error {
	for _, d := range g.change.Diverged {
		for i, at := range d.Conflicts {
			d.Conflicts[i] = path.Join(g.work, at)
		}
	}
	if g.plan == nil {
		return nil
	}
	if err := refusedMerge(g.plan); err != nil {
		return err
	}
	for _, at := range g.plan.Unresolved {
		a.res.Conflicts, a.refused = append(a.res.Conflicts, path.Join(g.work, at)), true
	}
	return nil
}

// refusedMerge is the error of a plan whose merge is wanted, and has something in its way.
func refusedMerge(p *gitdir.Plan) error {
	branch, why := p.NotMerged()
	if why == "" {
		return nil
	}
	return errs.Fail(errs.Conflict, "%s is not merged: %s; nothing was changed", branch, why)
}

// withReplaced adds the files that the directory gets because its HEAD becomes the workspace's, or is
// merged: they are what the workspace has, or what the merge has made.
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
	texts, err := g.plan.Texts(a.ctx)
	if err != nil {
		return nil, err
	}
	for name, text := range texts {
		replaced = append(replaced, name)
		a.merged[path.Join(g.work, name)] = text
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
			text, isMerged := a.merged[p.String()]
			if isMerged {
				if c.After, err = a.mergedFile(p, text, c.After); err != nil {
					return nil, err
				}
				files = slices.DeleteFunc(files, func(f tree.Change) bool { return f.Path.String() == p.String() })
			} else if c.Before == nil && c.After == nil || (c.After == nil || c.After.IsDir()) && a.hasDir(p) {
				break
			}
			if a.whole[p.String()] = true; isMerged || !known[p.String()] {
				files = append(files, c)
			}
		}
	}
	return files, nil
}

// mergedFile is the file that a merge makes at a path: with the attributes that the directory's has, or
// with those of the directory that it comes to. there is the workspace's, nil for none.
func (a *applying) mergedFile(p *tree.Path, text gitdir.Text, there *tree.Inode) (*tree.Inode, error) {
	if text.Data == nil {
		return nil, nil
	}
	n := &tree.Inode{Ino: math.MaxUint64 - uint64(len(a.whole)), Mode: unix.S_IFREG | 0o644, Nlink: 1, Mtime: time.Now().UnixNano()}
	if there != nil {
		n.Ino = there.Ino
	}
	at, err := a.host.look(p)
	if err != nil {
		return nil, err
	}
	if isFile := at.exists && at.st.Mode&unix.S_IFMT == unix.S_IFREG; isFile {
		n.Mode, n.UID, n.GID = at.st.Mode, at.st.Uid, at.st.Gid
		if n.Xattrs, err = a.host.xattrs(p); err != nil && !errors.Is(err, unix.EACCES) {
			return nil, err
		}
	} else if above, err := a.host.look(p.Dir); err == nil && above.exists {
		n.UID, n.GID = above.st.Uid, above.st.Gid
	}
	n.Mode = executable(n.Mode, text.Exec)
	return n, nil
}

// executable is the mode of a file that git makes executable, or not.
func executable(mode uint32, exec bool) uint32 {
	if !exec {
		return mode &^ 0o111
	}
	return mode | mode&0o444>>2
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
