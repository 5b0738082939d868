package runs

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/catalogue"
)

// ErrUndone means that the apply was undone already.
var ErrUndone = errors.New("undone already")

// FindApply returns the apply with a number in a workspace or, for 0, the last apply that was not undone. workspace
// is the name of the workspace in errors. If there are only undone applies, the error wraps ErrUndone. All errors
// about a missing apply are of kind errs.NotExist.
func FindApply(ctx context.Context, c *client.Client, number uint64, workspace string) (service.OpState, error) {
	var l service.OpList
	if err := c.Do(ctx, service.ListOps{}, client.Streams{}, &l); err != nil {
		return service.OpState{}, err
	}

	undone := false
	for _, op := range l.Ops {
		switch {
		case op.Name != catalogue.OpApply || number != 0 && op.Number != number:
		case op.Undone:
			undone = true
		default:
			return op, nil
		}
	}

	if undone {
		return service.OpState{}, errs.Fail(errs.NotExist, "%w: the apply of %s", ErrUndone, workspace)
	}
	return service.OpState{}, errs.Fail(errs.NotExist, "there is no apply of %s to undo", workspace).WithHint("see `amberfs ops`")
}

// UndoApply undoes an apply. write writes the reverse changes to the directory, and reports whether it did. If the
// previous apply to the same directory was interrupted, UndoApply undoes that apply too: the user sees both as one
// apply, which the second one completed.
func UndoApply(ctx context.Context, c *client.Client, op service.OpState, dryRun bool, write func(*client.Changes) (written bool, err error)) error {
	for {
		written, err := undoOneApply(ctx, c, op.Number, write)
		if err != nil || !written || dryRun {
			return err
		}

		earlier, err := FindApply(ctx, c, 0, op.Of)
		if err != nil || !earlier.Interrupted || earlier.Of != op.Of {
			return nil
		}
		op = earlier
	}
}

func undoOneApply(ctx context.Context, c *client.Client, number uint64, write func(*client.Changes) (bool, error)) (written bool, err error) {
	ch, err := c.UndoChanges(ctx, number)
	if err != nil {
		return false, err
	}
	defer ch.Close()

	if written, err = write(ch); err != nil || !written {
		return false, err
	}

	return true, c.Do(context.WithoutCancel(ctx), service.UndoneApply{Number: number}, client.Streams{}, nil)
}

// MarkKept marks a run as kept after its apply was undone.
func (r *Run) MarkKept(ctx context.Context, c *client.Client) error {
	if r.State != service.RunApplied {
		return nil
	}
	return takeSnapshot(ctx, c, r.Command, map[string]string{service.RunLabel: service.RunKept})
}
