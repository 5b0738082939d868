package blame

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An OpenInterval is an interval with the states at its ends. The states are protected from gc until the caller
// calls Close, exactly once.
type OpenInterval struct {
	catalogue.Interval
	States
	Close func()
}

// An Undo plans the undo of the changes of an actor. Choose sets the intervals. The caller sets the fields from
// Decided to NewPlan, and calls Close at the end.
type Undo struct {
	By        string
	Paths     []string             // undo only changes of these files and directories; empty: of all
	Keep      map[string]bool      // paths that are not changed
	Intervals []catalogue.Interval // the intervals to revert, newest first
	Since     uint64               // sequence number of the snapshot at the beginning of the oldest interval

	Decided map[string]threeway.Decision // texts for single paths
	View    uint32                       // the view of the workspace
	Open    func(catalogue.Interval) (*OpenInterval, error)
	NewPlan func() *threeway.Plan // returns a plan without Ours and View

	Shared, Kept map[string]bool // results: paths that other actors changed, too, and paths of Keep that the actor changed

	open []*OpenInterval // the intervals opened so far, see Close
}

// NewUndo returns an Undo without intervals.
func NewUndo(by string, paths, keep []string) *Undo {
	u := &Undo{By: by, Paths: paths, Keep: make(map[string]bool), Shared: make(map[string]bool), Kept: make(map[string]bool)}
	for _, k := range keep {
		u.Keep[k] = true
	}
	return u
}

func (u *Undo) newPlan(ours *tree.State, view uint32) *threeway.Plan {
	p := u.NewPlan()
	p.Ours, p.View = ours, view
	return p
}

// Plan reverts the intervals on top of now, the present state. If now is nil, it reverts them on top of the
// newest state in which the actor changed a path, and does not revert earlier undos. It returns the plan and the
// reversed changes of the intervals.
func (u *Undo) Plan(ctx context.Context, now *tree.State) (*threeway.Plan, []threeway.Interval, error) {
	p := u.newPlan(now, u.View)
	var all, withoutUndos []threeway.Interval

	for _, i := range u.Intervals {
		undo := u.revertsUndo(i)
		if undo && now == nil {
			continue
		}

		open, err := u.Open(i)
		if err != nil {
			return nil, nil, err
		}

		u.open = append(u.open, open)
		reverse, err := u.reverse(ctx, p, open, undo)
		if err != nil {
			return nil, nil, err
		}
		if p.Ours == nil && len(reverse.Changes) > 0 {
			p.Ours, p.View = open.After, cmp.Or(i.To.View, u.View)
		}
		if all = append(all, reverse); !undo {
			withoutUndos = append(withoutUndos, reverse)
		}
	}
	if p.Ours == nil {
		return nil, nil, errs.New(errs.NotExist, "there is no change by %s", u.By)
	}

	err := takeIntervals(ctx, p, all)
	if err != nil || len(p.Conflicts) == 0 || len(withoutUndos) == len(all) {
		return p, all, err
	}

	// After an earlier undo, a restore may have restored the undone changes. Then the undo must not be reverted.
	p2 := u.newPlan(p.Ours, p.View)
	if err := takeIntervals(ctx, p2, withoutUndos); err != nil {
		return p, all, err
	}
	if len(p2.Conflicts) < len(p.Conflicts) {
		return p2, withoutUndos, nil
	}

	return p, all, nil
}

// takeIntervals adds the changes of all intervals to a plan.
func takeIntervals(ctx context.Context, p *threeway.Plan, all []threeway.Interval) error {
	return p.Run(func() error {
		for _, i := range all {
			if err := p.Take(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// revertsUndo reports whether an interval is an earlier undo of the actor that this undo reverts. It does if this
// undo goes back at least as far.
func (u *Undo) revertsUndo(i catalogue.Interval) bool {
	return i.Undoes != nil && actors.Below(i.Undoes.By, u.By) && i.Undoes.Since >= u.Since
}

// reverse returns the reversed changes of the actor in an interval. If the interval is an undo, it returns all
// its changes, reversed.
func (u *Undo) reverse(ctx context.Context, p *threeway.Plan, open *OpenInterval, undo bool) (threeway.Interval, error) {
	of := threeway.Interval{Base: open.After, Theirs: open.Before, View: open.From.View, Disputed: make(map[string]bool)}
	err := open.Changes(ctx, tree.DiffOptions{Paths: u.Paths}, func(c ChangedBy) error {
		if _, decided := u.Decided[c.Path.String()]; decided || !undo && !actors.Among(c.By, u.By) {
			return nil
		}
		if _, _, git := threeway.InGit(c.Path.String() + "/"); git {
			return nil // only git can undo commits and branches
		}

		if k := threeway.Under(c.Path.String(), u.Keep); k != "" {
			u.Kept[k] = true
			return nil
		}

		dir := c.Before != nil && c.Before.IsDir() || c.After != nil && c.After.IsDir()
		madeOrRemoved := c.Before == nil || c.After == nil
		byOthers := slices.ContainsFunc(c.By, func(a string) bool { return !actors.Below(a, u.By) })

		// A directory that was made or removed does not count as shared. Files of other actors in it have their
		// own changes, and prevent its removal.
		if !undo && byOthers && !(dir && madeOrRemoved) {
			u.Shared[c.Path.Short()], of.Disputed[c.Path.String()] = true, true
		}

		return p.Collect(ctx, &of, c.Reversed())
	})

	return of, err
}

// Choose sets Intervals and Since. all are the intervals of the workspace, newest first. It leaves out intervals
// before the snapshot since, which may be zero, and intervals that ended before the time after. found is false if
// since is no earlier state of the workspace.
func (u *Undo) Choose(all []catalogue.Interval, since info.Info, after time.Time) (found bool) {
	found = since.Name == ""

	for _, i := range all {
		if !i.Now() && !i.To.Created.After(after) {
			u.Since = i.To.Seq
			break
		}

		if i.By(u.By) || i.Undoes != nil {
			u.Intervals = append(u.Intervals, i)
		}

		if found = found || i.From.View == since.View; found && since.Name != "" {
			u.Since = i.From.Seq
			break
		}
	}

	// Drop the undos that this undo does not revert. since was not known when they were collected.
	u.Intervals = slices.DeleteFunc(u.Intervals, func(i catalogue.Interval) bool { return !i.By(u.By) && !u.revertsUndo(i) })

	return found
}

// Close releases the states of the plan.
func (u *Undo) Close() {
	for _, open := range u.open {
		open.Close()
	}
	u.open = nil
}
