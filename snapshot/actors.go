package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Interval is what happened between two successive states of a workspace.
type Interval struct {
	From, To Info     // base is the first From; the last To has no name: it is the present
	Actors   []string // in order; also those of whose changes nothing is left
}

// Now reports whether the interval ends with the present state.
func (i Interval) Now() bool { return i.To.Name == "" }

// Intervals returns the intervals of the workspace, newest first. Snapshots that are no
// earlier state of it have no place in them, see Info.Past.
func (ss Snapshots) Intervals() []Interval {
	var out []Interval
	ss.w.store.look(func(tx *live.Tx) {
		i := Interval{Actors: ss.w.presentActors(tx)}
		for _, sn := range slices.Backward(ss.w.store.cat.withOrigin(ss.w)) {
			if sn.View != ss.w.base && !sn.Past() {
				continue
			}
			i.From = sn.Info
			out = append(out, i)
			i = Interval{To: sn.Info, Actors: sn.Actors}
		}
	})
	return out
}

// An OpenInterval is an interval with the states at its ends, which are kept until Close.
type OpenInterval struct {
	Interval
	Before, After *tree.State
	Set           *actors.Set // which inodes which actors changed

	store    *core
	close    []func()
	moved    [2]map[uint64][]string // directory → actors of its moves and of those above; Before, After
	resolved [2]map[*tree.Path][]string
}

// Open returns an interval with its states. Close it.
func (ss Snapshots) Open(i Interval) (*OpenInterval, error) {
	s := ss.w.store
	o := newOpenInterval(s.core)
	o.Interval = i
	var sets changes
	err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		from, ok := s.cat.snaps[i.From.View]
		if !ok {
			return removedMeanwhile(i.From)
		}
		if o.Before, err = s.cat.stateOf(from); err != nil {
			return err
		}
		if i.Now() {
			sets = ss.w.presentChanges(tx)
			o.After, err = tx.Capture(ss.w.view)
			return err
		}
		to, ok := s.cat.snaps[i.To.View]
		if !ok {
			return removedMeanwhile(i.To)
		}
		sets = to.changes
		o.After, err = s.cat.stateOf(to)
		return err
	})
	if err != nil {
		return nil, err
	}
	o.close = []func(){s.Hold(o.Before), s.Hold(o.After)}
	o.Set = s.union(sets)
	if i.Now() { // so that who asks often makes no long list
		s.alter(func(tx *live.Tx) { tx.JoinActors(ss.w.view, sets.sets, actors.Union(sets.sets...)) })
	}
	return o, nil
}

func newOpenInterval(s *core) *OpenInterval {
	o := &OpenInterval{store: s}
	for side := range o.moved {
		o.moved[side], o.resolved[side] = make(map[uint64][]string), make(map[*tree.Path][]string)
	}
	return o
}

func removedMeanwhile(i Info) error {
	return fmt.Errorf("%w: snapshot %s was deleted meanwhile", ErrNotFound, i.Name)
}

// Close lets the states go.
func (o *OpenInterval) Close() {
	for _, done := range o.close {
		done()
	}
	o.close = nil
}

// A ChangedBy is a path that differs at the ends of an interval.
type ChangedBy struct {
	tree.Change
	By []string // who changed it, in order; actors.Unknown if nothing is known
}

// Changes calls fn for each path that differs, as tree.Diff does. Directories of which only
// the times differ are left out.
func (o *OpenInterval) Changes(ctx context.Context, d tree.DiffOptions, fn func(ChangedBy) error) error {
	return tree.Diff(ctx, o.store.src, o.Before, o.After, d, func(c tree.Change) error {
		if step := live.StepOf(c); steps.Trivial(&step) {
			return nil
		}
		s := live.StepOf(c)
		by, err := o.actorsOf(&s)
		if err != nil {
			return err
		}
		if len(by) == 0 {
			by = []string{actors.Unknown}
		}
		return fn(ChangedBy{c, by})
	})
}

// actorsOf returns the actors of a step, in order; none if nothing is known.
func (o *OpenInterval) actorsOf(s *live.Step) (by []string, err error) {
	for side, ino := range [2]uint64{s.A, s.B} {
		if ino == 0 {
			continue
		}
		by = append(by, o.Set.Of(ino)...)
		if s.Path == nil {
			continue
		}
		moved, err := o.movedWith(side, s.Path.Dir)
		if err != nil {
			return nil, err
		}
		by = append(by, moved...)
	}
	if len(by) == 0 {
		by = o.Set.Rest()
	}
	slices.Sort(by)
	return slices.Compact(by), nil
}

// movedWith returns the actors that moved the directory at a path, or one above it: they
// changed the path of all that is in it.
func (o *OpenInterval) movedWith(side int, dir *tree.Path) ([]string, error) {
	if dir == nil {
		return nil, nil
	}
	if by, ok := o.resolved[side][dir]; ok {
		return by, nil
	}
	var by []string
	n, err := [2]*tree.State{o.Before, o.After}[side].Resolve(o.store.src, dir.String())
	if err == nil {
		by, err = o.movesOf(side, n, 0)
	} else if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || errors.Is(err, tree.ErrSymlink) {
		err = nil // of a merge into another tree
	}
	o.resolved[side][dir] = by
	return by, err
}

func (o *OpenInterval) movesOf(side int, n *tree.Inode, depth int) ([]string, error) {
	if n.Ino == tree.RootIno {
		return nil, nil
	}
	if by, ok := o.moved[side][n.Ino]; ok {
		return by, nil
	}
	if depth == tree.MaxDepth {
		return nil, tree.ErrTooDeep
	}
	states := [2]*tree.State{o.Before, o.After}
	other, err := states[1-side].Get(o.store.src, n.Ino)
	if errors.Is(err, tree.ErrNoInode) {
		return nil, nil // it came or went with the interval, and so did all that is in it
	}
	if err != nil {
		return nil, err
	}
	link, err := n.Parent()
	if err != nil {
		return nil, err
	}
	parent, err := states[side].Get(o.store.src, link.Parent)
	if err != nil {
		return nil, err
	}
	by, err := o.movesOf(side, parent, depth+1)
	if err != nil {
		return nil, err
	}
	if len(other.Links) != 1 || other.Links[0] != link {
		by = append(slices.Clone(by), o.Set.Of(n.Ino)...)
	}
	o.moved[side][n.Ino] = by
	return by, nil
}
