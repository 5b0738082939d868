package graft

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ErrNoPath is returned for a path that is neither in the workspace nor in the snapshot.
var ErrNoPath = errs.New(errs.NotExist, "no such path")

// A Restore makes a workspace, or some paths of it, equal to a snapshot.
type Restore struct {
	Snapshot   string      // name of the snapshot
	State      *tree.State // state of the snapshot
	Renumbered *tree.State // see tree.DiffOptions.Renumbered; may be nil
	Paths      []string    // the paths to restore; all if empty
	Keep       []string    // paths that are not changed
	Kept       []string    // the paths of Keep that differ; set by Steps
}

// Steps returns the steps from the present state of the workspace to the snapshot. It charges their memory to
// charge. The list begins with the missing directories above Paths.
func (r *Restore) Steps(ctx context.Context, src *tree.Source, present *tree.State, charge *budget.Charge) ([]Step, error) {
	var parents []Step
	haveStep := make(map[string]bool)

	for _, p := range r.Paths {
		if err := r.checkPath(src, present, p); err != nil {
			return nil, err
		}

		at, err := tree.ParsePath(p)
		if err != nil {
			return nil, err
		}

		missing, err := MissingParents(src, present, r.State, at, haveStep)
		if err != nil {
			return nil, err
		}
		parents = append(parents, missing...)
	}

	all, err := StepsBetween(ctx, src, present, r.State, tree.DiffOptions{Paths: r.Paths, Renumbered: r.Renumbered}, charge)
	if err != nil && r.Renumbered != nil && ctx.Err() == nil && !charge.TryFailed() { // the diff works without Renumbered, too
		all, err = StepsBetween(ctx, src, present, r.State, tree.DiffOptions{Paths: r.Paths}, charge)
	}
	if err != nil {
		return all, err
	}

	if len(r.Keep) > 0 {
		all, r.Kept = DropKept(all, r.Keep)
	}
	if len(parents) == 0 {
		return all, nil
	}

	return append(parents, slices.DeleteFunc(all, func(s Step) bool { return haveStep[s.Path.String()] })...), nil
}

// checkPath returns an error if a path is in neither state, or goes through a symbolic link.
func (r *Restore) checkPath(src *tree.Source, present *tree.State, p string) error {
	_, errNow := present.Resolve(src, p)
	_, errThen := r.State.Resolve(src, p)
	switch {
	case errThen == nil:
		return nil // where the snapshot has a directory above p, a file of the workspace is replaced by the directory
	case errors.Is(errNow, tree.ErrSymlink):
		return errs.New(errs.Invalid, "malformed request: %s goes through a symbolic link; name its target instead", p)
	case errors.Is(errThen, tree.ErrSymlink):
		return errs.New(errs.Invalid, "malformed request: %s goes through a symbolic link in snapshot %s; restore the link itself", p, r.Snapshot)
	case errNow != nil:
		return fmt.Errorf("%w: %s is neither in the workspace nor in snapshot %s", ErrNoPath, p, r.Snapshot)
	}

	return nil
}
