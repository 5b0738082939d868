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
	"github.com/amberfs/amberfs/snapshot/naming"
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

// An Undo plans the undo of the changes of an actor. ChooseIntervals sets the intervals. The caller sets the
// fields from Decisions to NewPlan, and calls Close at the end.
type Undo struct {
	Actor     string
	Paths     []string             // undo only changes of these files and directories; empty: of all
	KeepPaths map[string]bool      // paths that are not changed
	Intervals []catalogue.Interval // the intervals to revert, newest first
	SinceSeq  uint64               // sequence number of the snapshot at the beginning of the oldest interval

	Decisions    map[string]threeway.Decision // texts for single paths
	View         uint32                       // the view of the workspace
	OpenInterval func(catalogue.Interval) (*OpenInterval, error)
	NewPlan      func() *threeway.Plan // returns a plan without Ours and View

	SharedPaths, KeptPaths map[string]bool // results: changed paths that other actors changed, too, and paths of KeepPaths that the actor changed

	openedIntervals []*OpenInterval // the intervals opened so far, see Close
}

// NewUndo returns an Undo without intervals.
func NewUndo(actor string, paths, keepPaths []string) *Undo {
	u := &Undo{Actor: actor, Paths: paths, KeepPaths: make(map[string]bool), SharedPaths: make(map[string]bool), KeptPaths: make(map[string]bool)}
	for _, k := range keepPaths {
		u.KeepPaths[k] = true
	}
	return u
}

func (u *Undo) newPlan(ours *tree.State, view uint32) *threeway.Plan {
	p := u.NewPlan()
	p.Ours, p.View = ours, view
	return p
}

// Plan plans to revert the intervals on top of the present state. If present is nil, it reverts them on top of the
// newest state in which the actor changed a path, and does not revert earlier undos. It returns the plan and the
// reversed changes of the intervals.
func (u *Undo) Plan(ctx context.Context, present *tree.State) (*threeway.Plan, []threeway.Interval, error) {
	p, all, err := u.planIntervals(ctx, present)
	for at, d := range u.Decisions {
		if err == nil && naming.NearestIn(at, u.KeepPaths) == "" {
			err = p.UseDecision(ctx, at, d)
		}
	}
	return p, all, err
}

// planIntervals does what Plan does, without the decisions.
func (u *Undo) planIntervals(ctx context.Context, present *tree.State) (*threeway.Plan, []threeway.Interval, error) {
	p := u.newPlan(present, u.View)
	var all, withoutUndos []threeway.Interval

	for _, i := range u.Intervals {
		undo := u.revertsUndo(i)
		if undo && present == nil {
			continue
		}

		open, err := u.OpenInterval(i)
		if err != nil {
			return nil, nil, err
		}

		u.openedIntervals = append(u.openedIntervals, open)
		reverse, err := u.reverseChanges(ctx, p, open, undo)
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
		return nil, nil, errs.New(errs.NotExist, "there is no change by %s", u.Actor)
	}

	err := takeIntervals(ctx, p, all)
	if err != nil || len(p.Conflicts) == 0 || len(withoutUndos) == len(all) {
		return p, all, err
	}

	// After an earlier undo, a restore may have restored the undone changes. Then the undo must not be reverted.
	planWithoutUndos := u.newPlan(p.Ours, p.View)
	if err := takeIntervals(ctx, planWithoutUndos, withoutUndos); err != nil {
		return p, all, err
	}
	if len(planWithoutUndos.Conflicts) < len(p.Conflicts) {
		return planWithoutUndos, withoutUndos, nil
	}

	return p, all, nil
}

// takeIntervals adds the changes of all intervals to a plan.
func takeIntervals(ctx context.Context, p *threeway.Plan, all []threeway.Interval) error {
	return p.Run(func() error {
		for _, i := range all {
			if err := p.TakeInterval(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// revertsUndo reports whether an interval is an earlier undo of the same actor, and u has to revert that undo. This
// is so if the oldest interval of the earlier undo is not older than the oldest interval of u.
func (u *Undo) revertsUndo(i catalogue.Interval) bool {
	return i.Undoes != nil && actors.IsOrBelow(i.Undoes.By, u.Actor) && i.Undoes.Since >= u.SinceSeq
}

// reverseChanges returns the reversed changes of the actor in an interval. If undo is set, the interval is an
// earlier undo, and all its changes are reversed.
func (u *Undo) reverseChanges(ctx context.Context, p *threeway.Plan, open *OpenInterval, undo bool) (threeway.Interval, error) {
	reversed := threeway.Interval{Base: open.After, Theirs: open.Before, View: open.From.View, DisputedPaths: make(map[string]bool)}
	err := open.EachChange(ctx, tree.DiffOptions{Paths: u.Paths}, func(c ActorsChange) error {
		if _, decided := u.Decisions[c.Path.String()]; decided || !undo && !actors.ContainsOrBelow(c.Actors, u.Actor) {
			return nil
		}
		if _, _, git := threeway.SplitGitPath(c.Path.String() + "/"); git {
			return nil // leave the change out: only git can undo commits and branches
		}

		if k := naming.NearestIn(c.Path.String(), u.KeepPaths); k != "" {
			u.KeptPaths[k] = true
			return nil
		}

		dir := c.Before != nil && c.Before.IsDir() || c.After != nil && c.After.IsDir()
		madeOrRemoved := c.Before == nil || c.After == nil
		byOthers := slices.ContainsFunc(c.Actors, func(a string) bool { return !actors.IsOrBelow(a, u.Actor) })

		// A directory that was made or removed does not count as shared. Files of other actors in it have their
		// own changes, and prevent its removal.
		if !undo && byOthers && !(dir && madeOrRemoved) {
			u.SharedPaths[c.Path.Short()], reversed.DisputedPaths[c.Path.String()] = true, true
		}

		return p.Collect(ctx, &reversed, c.Reversed())
	})

	return reversed, err
}

// ChooseIntervals sets Intervals and SinceSeq. all are the intervals of the workspace, newest first. It leaves out
// intervals before the snapshot that since describes (unless since is zero), and intervals that did not end after
// endedAfter. found is false if the snapshot is no earlier state of the workspace.
func (u *Undo) ChooseIntervals(all []catalogue.Interval, since info.Info, endedAfter time.Time) (found bool) {
	found = since.Name == ""

	for _, i := range all {
		if !i.IsPresent() && !i.To.Created.After(endedAfter) {
			u.SinceSeq = i.To.Seq
			break
		}

		if i.ChangedBy(u.Actor) || i.Undoes != nil {
			u.Intervals = append(u.Intervals, i)
		}

		if found = found || i.From.View == since.View; found && since.Name != "" {
			u.SinceSeq = i.From.Seq
			break
		}
	}

	// Drop the undos that this undo does not revert. since was not known when they were collected.
	u.Intervals = slices.DeleteFunc(u.Intervals, func(i catalogue.Interval) bool { return !i.ChangedBy(u.Actor) && !u.revertsUndo(i) })

	return found
}

// Close releases the states of the plan.
func (u *Undo) Close() {
	for _, open := range u.openedIntervals {
		open.Close()
	}
	u.openedIntervals = nil
}
