package hostdir

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A planner plans an apply. It reads the directory as a tree, and merges the changes of the workspace into that
// tree. (A refresh merges the changes of the directory into the workspace in the same way.) The planner does
// not change the directory.
type planner struct {
	ctx  context.Context
	o    ApplyOptions
	host *host
	res  *ApplyResult

	changes   map[string]tree.Change // from the base to the workspace, by path
	tree      *hostTree
	merge     *threeway.Plan
	repos     Repositories
	files     map[*threeway.File]*hostFile // by planned file: the file of the directory that has the same bytes
	lostFiles map[fileKind][]*tree.Inode   // see findLostFiles

	steps        []*decision // sorted by path, a directory before its entries
	blockedPaths []string    // paths in conflict that no rule decides, see isBlocked
	undecided    bool        // there is a conflict that no rule decides
}

// A decision is a step, with the workspace's change of the same path.
type decision struct {
	*step
	workspace tree.Change // the change from the base to the workspace; Before and After are nil if only the directory changed
	// movedWithDir is set if a directory at or above the path is renamed. Then the path needs no step of its own.
	movedWithDir bool
}

// planAll plans the changes from the base to the workspace.
func (pl *planner) planAll() error {
	changes, err := pl.chosenChanges()
	if err != nil {
		return err
	}

	if err := pl.readChanged(changes); err != nil {
		return err
	}

	pl.merge = &threeway.Plan{
		Source: pl.o.Source, StoreText: pl.tree.texts.storeText, Ours: pl.tree.editor.State, Now: time.Now().UnixNano(), Merge: pl.mergeLines, ByPath: true, Rule: pl.o.Rule,
	}
	if pl.o.Git != nil {
		pl.merge.Git = pl.planGit
	}
	if err := pl.merge.TakeChanges(pl.ctx, threeway.Interval{Base: pl.o.Base, Theirs: pl.o.Now, Changes: changes}); err != nil {
		return err
	}

	if err := pl.listConflicts(); err != nil {
		return err
	}

	return pl.makeSteps()
}

// readChanged reads the directory's entries at the paths of changes, and at the other hard links of the changed
// files.
func (pl *planner) readChanged(changes []tree.Change) error {
	for _, c := range changes {
		pl.changes[c.Path.String()] = c
	}
	pl.tree.changes = pl.changes

	// The names that the files have in the base are read first, so that the files at these names keep the inode
	// numbers of the base.
	if err := pl.readLinks(changes, pl.o.Base, func(c tree.Change) *tree.Inode { return c.Before }); err != nil {
		return err
	}
	if err := pl.readLinks(changes, pl.o.Now, func(c tree.Change) *tree.Inode { return c.After }); err != nil {
		return err
	}

	for _, c := range changes {
		if c.After == nil || !c.After.IsDir() {
			if err := pl.tree.readBelow(c.Path); err != nil {
				return err
			}
		}

		if dir, ok := threeway.WholeDir(c); ok {
			if err := pl.readPath(dir, pl.tree.readBelow); err != nil {
				return err
			}
		}
	}

	return nil
}

// readLinks reads the directory's entries at all hard links that the files of changes have in a state.
// versionOf returns the version of a changed file in this state.
func (pl *planner) readLinks(changes []tree.Change, st *tree.State, versionOf func(tree.Change) *tree.Inode) error {
	linked := make(map[uint64]bool)

	for _, c := range changes {
		n := versionOf(c)
		if n == nil {
			continue
		}
		if err := pl.tree.read(c.Path); err != nil {
			return err
		}
		if len(n.Links) < 2 || linked[n.Ino] {
			continue
		}
		linked[n.Ino] = true

		names, err := st.Paths(pl.o.Source, n)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := pl.readPath(name, pl.tree.read); err != nil {
				return err
			}
		}
	}

	return nil
}

// chosenChanges returns the changes from the base to the workspace that are to be applied.
func (pl *planner) chosenChanges() ([]tree.Change, error) {
	var changes, top []tree.Change
	if err := tree.Diff(pl.ctx, pl.o.Source, pl.o.Base, pl.o.Now, tree.DiffOptions{}, func(c tree.Change) error {
		if c.Path == nil {
			top = append(top, c)
		} else {
			changes = append(changes, c)
		}
		return nil
	}); err != nil {
		return nil, err
	}

	changes, err := pl.withoutHidden(changes)
	if err != nil {
		return nil, fmt.Errorf("looking for hidden paths: %w", err)
	}

	leftOut, err := pl.leftOutPaths(changes)
	if err != nil {
		return nil, err
	}
	pl.res.LeftOut = topmost(leftOut, changes)

	keptDirs := make(map[string]bool) // directories that are left as they are, with all entries below
	for _, c := range changes {
		if dir, ok := threeway.WholeDir(c); ok && pl.o.ChoiceOf(c.Path.String()).Leave {
			// The directory is applied as a whole or not at all. As this path is left, all its other paths are
			// left, too.
			keptDirs[dir] = true
		}
	}

	chosen := top
	for _, c := range changes {
		p := c.Path.String()
		if leftOut[p] || naming.NearestIn(p, keptDirs) != "" {
			continue
		}
		if c.After != nil && c.After.Type() == unix.S_IFSOCK {
			pl.res.addSkipped(c.Path, "sockets are not applied") // without its program, a socket would be of no use in the directory
			continue
		}

		leave, err := pl.applyChoice(&c)
		if err != nil {
			return nil, err
		}
		if keptDirs[p] = leave && c.Before != nil && c.After != nil && c.Before.IsDir() != c.After.IsDir(); !leave {
			chosen = append(chosen, c)
		}
	}

	return chosen, nil
}

// readPath parses a path, and calls a method of hostTree for it.
func (pl *planner) readPath(name string, method func(*tree.Path) error) error {
	p, err := tree.ParsePath(name)
	if err != nil {
		return err
	}
	return method(p)
}

// planGit plans the git directories. The merge calls it as threeway.Plan.Git.
func (pl *planner) planGit(ctx context.Context, s threeway.Sides) (out threeway.GitOutcome, err error) {
	if pl.repos, err = pl.o.Git.Plan(ctx, RepositorySides{&pl.o, s.Changes, s.Ours, Receiver{pl}}); err != nil {
		return out, err
	}
	pl.res.Git, pl.res.Conflicts = pl.repos.Repositories, pl.repos.Conflicts
	pl.undecided = len(pl.repos.Conflicts) > 0

	isHidden := func(e threeway.Edit) bool { return pl.o.Hidden.Paths.Hides(e.Path, false) }
	return threeway.GitOutcome{Changes: pl.repos.Changes, TakenPaths: pl.repos.TakenPaths, Edits: slices.DeleteFunc(pl.repos.Edits, isHidden)}, nil
}

// mergeLines merges the lines of a file. The merge calls it as threeway.Plan.Merge.
func (pl *planner) mergeLines(ctx context.Context, in threeway.TextInput, merged func(threeway.MergedText) error) error {
	if pl.o.MergeLines == nil {
		return nil
	}

	err := pl.o.MergeLines(ctx, in, merged)
	if k := errs.ScriptKind(err); err != nil && (k == errs.NotExist || k == errs.Damaged) {
		return nil // without the base's version, the file stays in conflict
	}
	if err != nil {
		return fmt.Errorf("merging %q: %w", in.Path, err)
	}

	return nil
}

// listChanges lists the planned changes in pl.res. It fails if there are conflicts that no rule decides.
func (pl *planner) listChanges() error {
	res := pl.res
	if len(pl.blockedPaths) > 0 {
		res.Conflicts = pl.blockedPaths
		return fmt.Errorf("%w: %w", ErrConflict, errBlocked)
	}
	if pl.undecided {
		return ErrConflict
	}

	for _, d := range pl.steps {
		if d.action != keep {
			res.countFile(d.step)
			res.Paths = append(res.Paths, graft.PathChangeOf(graft.StepOf(d.change)))
		}
	}

	slices.SortStableFunc(res.Paths, func(x, y graft.PathChange) int { return gitOrder(x.Path) - gitOrder(y.Path) })
	res.Changed = len(res.Paths)

	return nil
}

// isMinor reports whether only the modification time and other hard links of a file differ.
func isMinor(c tree.Change) bool {
	return c.Before != nil && c.After != nil && c.Differences&^(tree.MtimeDiffers|tree.LinksDiffer) == 0 &&
		(c.Differences&tree.LinksDiffer == 0 || c.Before.Ino == c.After.Ino || len(c.Before.Links) < 2 && len(c.After.Links) < 2)
}
