// Package blame finds the actors that changed the paths of an interval between two snapshots, and plans the undo
// of an actor. It uses no lock and no store.
//
// Imported by: service, snapshot.
package blame

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// States are the states at the ends of an interval, with the actors of the changes between them.
type States struct {
	Source        *tree.Source
	Before, After *tree.State
	ActorSet      *actors.Set // the inodes that each actor changed between the states

	// Cached results of moversOf by inode and of moversAbove by path, each for Before (0) and After (1).
	moversByIno [2]map[uint64][]string
	moversByDir [2]map[*tree.Path][]string
}

// An ActorsChange is a changed path of an interval with its actors.
type ActorsChange struct {
	tree.Change
	Actors []string // the actors that changed the path, sorted; actors.Unknown if there is no record
}

// EachChange calls fn for each changed path, in the order of tree.Diff. It skips directories of which only the
// times differ.
func (o *States) EachChange(ctx context.Context, d tree.DiffOptions, fn func(ActorsChange) error) error {
	return tree.Diff(ctx, o.Source, o.Before, o.After, d, func(c tree.Change) error {
		s := graft.StepOf(c)
		if graft.IsTrivial(&s) {
			return nil
		}

		by, err := o.ActorsOf(&s)
		if err != nil {
			return err
		}
		if len(by) == 0 {
			by = []string{actors.Unknown}
		}

		return fn(ActorsChange{c, by})
	})
}

// ActorsOf returns the actors of a step, sorted; none if there is no record of them.
func (o *States) ActorsOf(s *graft.Step) (all []string, err error) {
	for side, ino := range [2]uint64{s.Before, s.After} {
		if ino == 0 {
			continue
		}
		all = append(all, o.ActorSet.ActorsOf(ino)...)
		if s.Path == nil {
			continue
		}

		present, err := o.inodeAt(side, s.Path)
		if err != nil {
			return nil, err
		}
		if present != ino { // in a merge, s.Before is an inode of another tree than o.Before
			all = append(all, o.ActorSet.ActorsOf(present)...)
		}

		moved, err := o.moversAbove(side, s.Path.Dir)
		if err != nil {
			return nil, err
		}
		all = append(all, moved...)
	}

	if len(all) == 0 {
		all = o.ActorSet.ActorsWithoutInodes()
	}

	slices.Sort(all)
	return slices.Compact(all), nil
}

// inodeAt returns the inode at a path, 0 if there is none. side is 0 for Before and 1 for After.
func (o *States) inodeAt(side int, p *tree.Path) (uint64, error) {
	n, err := [2]*tree.State{o.Before, o.After}[side].InodeAt(o.Source, p.String())
	if n == nil {
		return 0, err
	}
	return n.Ino, err
}

// moversAbove returns the actors that moved the directory at a path, or a directory above it. They changed the
// paths of all files in the directory. side is 0 for Before and 1 for After.
func (o *States) moversAbove(side int, dir *tree.Path) ([]string, error) {
	if dir == nil {
		return nil, nil
	}
	if by, ok := o.moversByDir[side][dir]; ok {
		return by, nil
	}

	var by []string
	n, err := [2]*tree.State{o.Before, o.After}[side].InodeAt(o.Source, dir.String())
	if n != nil && n.IsDir() { // in a merge, there may be no directory at the path
		by, err = o.moversOf(side, n, 0)
	}
	if o.moversByDir[side] == nil {
		o.moversByDir[side] = make(map[*tree.Path][]string)
	}

	o.moversByDir[side][dir] = by

	return by, err
}

// moversOf returns the actors that moved the directory n, or a directory above it. n is a directory of Before
// (side 0) or After (side 1).
func (o *States) moversOf(side int, n *tree.Inode, depth int) ([]string, error) {
	if n.Ino == tree.RootIno {
		return nil, nil
	}
	if by, ok := o.moversByIno[side][n.Ino]; ok {
		return by, nil
	}
	if depth == tree.MaxDepth {
		return nil, tree.ErrTooDeep
	}

	states := [2]*tree.State{o.Before, o.After}
	other, err := states[1-side].Find(o.Source, n.Ino)
	if other == nil || err != nil {
		return nil, err // without an error, the directory was made or removed in the interval, with all files in it
	}

	link, err := n.Parent()
	if err != nil {
		return nil, err
	}

	parent, err := states[side].Get(o.Source, link.Parent)
	if err != nil {
		return nil, err
	}

	by, err := o.moversOf(side, parent, depth+1)
	if err != nil {
		return nil, err
	}
	if len(other.Links) != 1 || other.Links[0] != link {
		by = append(slices.Clone(by), o.ActorSet.ActorsOf(n.Ino)...)
	}
	if o.moversByIno[side] == nil {
		o.moversByIno[side] = make(map[uint64][]string)
	}

	o.moversByIno[side][n.Ino] = by

	return by, nil
}
