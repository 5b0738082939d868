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
	Snapshot string      // name of the snapshot
	State    *tree.State // state of the snapshot
	Like     *tree.State // see tree.DiffOptions.Renumbered; may be nil
	Paths    []string    // the paths to restore; all if empty
	Keep     []string    // paths that are not changed
	Kept     []string    // the paths of Keep that differ; set by Steps
}

// Steps returns the steps from the state now of the workspace to the snapshot, charged to list. It
// begins with the missing directories above Paths.
func (r *Restore) Steps(ctx context.Context, src *tree.Source, now *tree.State, list *budget.Charge) ([]Step, error) {
	var above []Step
	seen := make(map[string]bool)

	for _, p := range r.Paths {
		if err := r.checkPath(src, now, p); err != nil {
			return nil, err
		}

		at, err := tree.ParsePath(p)
		if err != nil {
			return nil, err
		}

		more, err := MissingParents(src, now, r.State, at, seen)
		if err != nil {
			return nil, err
		}
		above = append(above, more...)
	}

	all, err := StepsBetween(ctx, src, now, r.State, tree.DiffOptions{Paths: r.Paths, Renumbered: r.Like}, list)
	if err != nil && r.Like != nil && ctx.Err() == nil && !list.Full() { // the diff works without Like, too
		all, err = StepsBetween(ctx, src, now, r.State, tree.DiffOptions{Paths: r.Paths}, list)
	}
	if err != nil {
		return all, err
	}

	if len(r.Keep) > 0 {
		all, r.Kept = DropKept(all, r.Keep)
	}
	if len(above) == 0 {
		return all, nil
	}

	return append(above, slices.DeleteFunc(all, func(s Step) bool { return seen[s.Path.String()] })...), nil
}

// checkPath returns an error if a path is in neither state, or leads through a symbolic link.
func (r *Restore) checkPath(src *tree.Source, now *tree.State, p string) error {
	_, errNow := now.Resolve(src, p)
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
