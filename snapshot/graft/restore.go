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

// ErrNoPath is for a path that is neither in the workspace nor in the snapshot.
var ErrNoPath = errs.New(errs.NotExist, "no such path")

// A Restore makes a workspace, or some paths of it, equal to a snapshot.
type Restore struct {
	Snapshot string
	State    *tree.State
	Like     *tree.State // see tree.DiffOptions.Renumbered; may be nil
	Paths    []string    // everything when empty
	Keep     []string    // left as they are
	Kept     []string    // those of Keep that differ, set by Steps
}

// Steps finds what has to change in a state of the workspace.
func (r *Restore) Steps(ctx context.Context, src *tree.Source, now *tree.State, list *budget.Charge) ([]Step, error) {
	var above []Step
	seen := make(map[string]bool)
	for _, p := range r.Paths {
		if err := r.check(src, now, p); err != nil {
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
	all, err := Between(ctx, src, now, r.State, tree.DiffOptions{Paths: r.Paths, Renumbered: r.Like}, list)
	if err != nil && r.Like != nil && ctx.Err() == nil && !list.Full() { // whatever is wrong with it
		all, err = Between(ctx, src, now, r.State, tree.DiffOptions{Paths: r.Paths}, list)
	}
	if err == nil && len(r.Keep) > 0 {
		all, r.Kept = Without(all, r.Keep)
	}
	if err != nil || len(above) == 0 {
		return all, err
	}
	return append(above, slices.DeleteFunc(all, func(s Step) bool { return seen[s.Path.String()] })...), nil
}

func (r *Restore) check(src *tree.Source, now *tree.State, p string) error {
	_, errNow := now.Resolve(src, p)
	_, errThen := r.State.Resolve(src, p)
	switch {
	case errThen == nil:
		return nil // what is in the place of its directories makes room
	case errors.Is(errNow, tree.ErrSymlink):
		return errs.New(errs.Invalid, "malformed request: %s goes through a symbolic link; name its target instead", p)
	case errors.Is(errThen, tree.ErrSymlink):
		return errs.New(errs.Invalid, "malformed request: %s goes through a symbolic link in snapshot %s; restore the link itself", p, r.Snapshot)
	case errNow != nil:
		return fmt.Errorf("%w: %s is neither in the workspace nor in snapshot %s", ErrNoPath, p, r.Snapshot)
	}
	return nil
}
