package hostdir

import (
	"bytes"
	"cmp"
	"io"
	"path"

	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// listConflicts lists the conflicts of the merge. A file with conflict markers is listed too, and is
// written.
func (pl *planner) listConflicts() error {
	replaced := make(map[string]bool) // directories in conflict with a file: their entries are not listed

	for _, name := range pl.merge.Conflicts {
		c, err := pl.changeOf(name)
		if err != nil {
			return err
		}
		if naming.NearestIn(name, replaced) != "" {
			continue
		}
		replaced[name] = c.After != nil && !c.After.IsDir()

		marked, err := pl.markedText(c)
		if err != nil {
			return err
		}
		blocked, err := pl.isBlocked(c)
		if err != nil {
			return err
		}

		shown := cmp.Or(c.Path.Short(), ".")
		pl.res.Conflicts = append(pl.res.Conflicts, shown)
		pl.res.Plan = append(pl.res.Plan, PlannedChange{c, true, blocked, marked != nil})

		switch rule := pl.o.Rule(name); {
		case marked != nil && pl.o.ChoiceOf(name).Markers:
			edit := threeway.Edit{Path: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(marked)), nil }}
			if err := pl.merge.PlanEdits(pl.ctx, []threeway.Edit{edit}); err != nil {
				return err
			}

		case rule == threeway.RefuseConflicts:
			pl.undecided = true
		case rule == threeway.TakeTheirs && blocked:
			pl.blockedPaths = append(pl.blockedPaths, shown)
		}
	}

	return nil
}

// changeOf returns the change of a path from the base to the workspace.
func (pl *planner) changeOf(name string) (c tree.Change, err error) {
	if c, listed := pl.changes[name]; listed {
		return c, nil
	}

	c.Differences = tree.DataDiffers
	if c.Path, err = tree.ParsePath(name); err != nil {
		return c, err
	}
	if c.Before, err = pl.o.Base.InodeAt(pl.o.Source, name); err != nil {
		return c, err
	}

	c.After, err = pl.o.Now.InodeAt(pl.o.Source, name)
	return c, err
}

// markedText returns the text with conflict markers of a file in conflict, nil if its lines do not conflict.
func (pl *planner) markedText(c tree.Change) (marked []byte, err error) {
	dirNode, err := pl.tree.dirVersion(c.Path.String())
	if err != nil || dirNode == nil || c.After == nil || !dirNode.IsRegular() || !c.After.IsRegular() || max(dirNode.Size(), c.After.Size()) > threeway.MaxMerged {
		return nil, err
	}

	base := &tree.Inode{}
	if c.Before != nil && c.Before.IsRegular() {
		base = c.Before
	}
	files := pl.o.Source.Files
	in := threeway.TextInput{Base: base.Content.Reader(files), Ours: dirNode.Content.Reader(files), Theirs: c.After.Content.Reader(files), Path: c.Path.String()}

	err = pl.mergeLines(pl.ctx, in, func(m threeway.MergedText) error {
		if !m.Clean {
			marked = bytes.Clone(m.Text)
		}
		return nil
	})

	return marked, err
}

// isBlocked reports whether no rule may allow the change of a path, because the change would delete files that only
// the directory has. There are two cases:
//
//   - The change replaces a directory by a file, and the base does not have all files of the directory.
//   - The change needs a directory where the directory of the host has a file, and the base does not have that file.
func (pl *planner) isBlocked(c tree.Change) (bool, error) {
	name := c.Path.String()
	dirNode, err := pl.tree.inodeAt(name)
	if err != nil {
		return false, err
	}
	if dirNode != nil && dirNode.IsDir() && c.After != nil && !c.After.IsDir() {
		return pl.tree.hasMoreThanBase(name)
	}

	if c.After == nil || !c.After.IsDir() {
		name = path.Dir(name)
	}
	return pl.tree.isFileInWay(name)
}
