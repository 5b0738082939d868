package diff

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Action is what happened to a path.
type Action string

// The actions, in the order in which effects are listed: actions that lose data come first.
const (
	ActionDelete        Action = "deleted"
	ActionOverwrite     Action = "overwritten"
	ActionRename        Action = "renamed"
	ActionSetAttributes Action = "attributes" // permissions, owner, extended attributes
	ActionAdd           Action = "added"
)

var actionOrder = []Action{ActionDelete, ActionOverwrite, ActionRename, ActionSetAttributes, ActionAdd}

// An Effect is a change of a tree as a person would describe it: the deletion of a directory with all its files is
// one effect, and so is its rename.
type Effect struct {
	Action Action
	Path   string
	From   string // the old path of a renamed file; also set if the rename overwrote another file
	Dir    bool
	Files  int // number of files in a directory that was deleted, replaced or added
	// Change has both versions. For a rename, Before is the version at From.
	Change tree.Change
}

// minorDifferences are the differences that are no effects. Programs that only read a file may set its time, and a
// new link is an effect at its own path.
const minorDifferences = tree.MtimeDiffers | tree.LinksDiffer

// Effects lists the effects between the trees a and b. It leaves out the paths for which skip returns true. The memory
// of the list is charged to o.List.
func Effects(ctx context.Context, src *tree.Source, a, b *tree.State, o Options, skip func(path string) bool) ([]Effect, error) {
	f := effectFinder{src: src, byPath: make(map[string]*effectPath), lostPaths: make(map[uint64]*effectPath)}
	err := tree.Diff(ctx, src, a, b, tree.DiffOptions{Paths: o.Paths}, func(c tree.Change) error {
		if err := turns.Yield(ctx); err != nil || c.Path == nil {
			return err
		}

		path := c.Path.String()
		if skip(path) {
			return nil
		}

		f.add(path, c)

		return o.List.Add(ctx, 2*listEntryMemory+2*int64(len(path)))
	})
	if err != nil {
		return nil, fmt.Errorf("comparing the trees: %w", err)
	}

	if err := f.findMoves(); err != nil {
		return nil, err
	}

	return f.effects(), nil
}

// An effectPath is a path that differs between the trees.
type effectPath struct {
	tree.Change
	path      string
	movedFrom *effectPath // the path that the file had before
	movedTo   *effectPath // the path that the file has now
	sameData  bool        // the file that was moved here has the same bytes
}

// An effectFinder makes effects of the paths that differ.
type effectFinder struct {
	src       *tree.Source
	paths     []*effectPath // a directory before its entries
	byPath    map[string]*effectPath
	lostPaths map[uint64]*effectPath // the first path that a file lost, by its inode number
}

func (f *effectFinder) add(path string, c tree.Change) {
	p := &effectPath{Change: c, path: path}
	f.paths, f.byPath[path] = append(f.paths, p), p
	if c.Before != nil && (c.After == nil || c.After.Ino != c.Before.Ino) && f.lostPaths[c.Before.Ino] == nil {
		f.lostPaths[c.Before.Ino] = p
	}
}

// findMoves finds the paths whose files had another path before.
func (f *effectFinder) findMoves() error {
	for _, p := range f.paths {
		if p.After == nil || p.Before != nil && p.Before.Ino == p.After.Ino {
			continue
		}
		from := f.lostPaths[p.After.Ino]
		if from == nil || from.movedTo != nil || from.Before.Btime != p.After.Btime || from.Before.Type() != p.After.Type() {
			continue
		}

		same, err := tree.SameData(f.src, from.Before, p.After)
		if err != nil {
			return err
		}
		p.movedFrom, p.sameData, from.movedTo = from, same, p
	}
	return nil
}

// isImplied reports whether a file has a new path only because its directory was renamed.
func (f *effectFinder) isImplied(p *effectPath) bool {
	dir := f.byPath[path.Dir(p.path)]
	return dir != nil && dir.movedFrom != nil && dir.movedFrom.path == path.Dir(p.movedFrom.path) && path.Base(p.path) == path.Base(p.movedFrom.path)
}

// effects lists the effects, each action in the order of the paths.
func (f *effectFinder) effects() []Effect {
	var list []Effect
	index := make(map[*effectPath]int) // number of a directory's effect in list, from 1
	add := func(p *effectPath, e Effect) {
		e.Path, e.Dir, e.Change = cmp.Or(e.Path, p.path), p.isDir(), p.Change
		if list = append(list, e); e.Dir || p.noLongerDir() {
			index[p] = len(list)
		}
	}

	for _, p := range f.paths {
		parent := f.byPath[path.Dir(p.path)]

		switch {
		case p.movedFrom != nil:
			f.addMoved(p, add)
		case p.movedTo != nil && p.After == nil: // a renamed file: the effect is added for its new path
		case p.After == nil:
			f.addToParent(p, parent, parent != nil && parent.noLongerDir() && parent.movedTo == nil, index, list, func() { add(p, Effect{Action: ActionDelete}) })
		case p.Before == nil:
			f.addToParent(p, parent, parent != nil && parent.becameDir() && parent.movedFrom == nil, index, list, func() { add(p, Effect{Action: ActionAdd}) })
		case p.Differences&(tree.TypeDiffers|tree.DataDiffers|tree.TargetDiffers|tree.RdevDiffers) != 0:
			add(p, Effect{Action: ActionOverwrite})
		case p.Differences&^minorDifferences != 0:
			add(p, Effect{Action: ActionSetAttributes})
		}
	}

	slices.SortStableFunc(list, func(x, y Effect) int {
		return slices.Index(actionOrder, x.Action) - slices.Index(actionOrder, y.Action)
	})

	return list
}

// addToParent adds a path to the effect of its directory, parent, if isPart is set. Otherwise it calls addOwn, which
// adds an effect of the path itself.
func (f *effectFinder) addToParent(p, parent *effectPath, isPart bool, index map[*effectPath]int, list []Effect, addOwn func()) {
	if !isPart {
		addOwn()
		return
	}

	if p.isDir() {
		index[p] = index[parent]
	} else if i := index[parent]; i > 0 {
		list[i-1].Files++
	}
}

// addMoved adds the effect of a file that had another path before.
func (f *effectFinder) addMoved(p *effectPath, add func(*effectPath, Effect)) {
	if p.Before != nil {
		add(p, Effect{Action: ActionOverwrite, From: p.movedFrom.path})
		return
	}

	p.Before = p.movedFrom.Before
	if !f.isImplied(p) {
		add(p, Effect{Action: ActionRename, From: p.movedFrom.path})
	}
	if !p.sameData {
		add(p, Effect{Action: ActionOverwrite})
	}
}

func (p *effectPath) isDir() bool {
	return p.After != nil && p.After.IsDir() || p.After == nil && p.Before.IsDir()
}

// noLongerDir reports whether a directory was deleted or replaced by another file.
func (p *effectPath) noLongerDir() bool {
	return p.Before != nil && p.Before.IsDir() && (p.After == nil || !p.After.IsDir())
}

// becameDir reports whether a directory is new, or replaced another file.
func (p *effectPath) becameDir() bool {
	return p.After != nil && p.After.IsDir() && (p.Before == nil || !p.Before.IsDir())
}
