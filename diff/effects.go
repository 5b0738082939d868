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
	Deletes   Action = "deleted"
	Overwrote Action = "overwritten"
	Renames   Action = "renamed"
	Sets      Action = "attributes" // permissions, owner, extended attributes
	Creates   Action = "added"
)

var actionOrder = []Action{Deletes, Overwrote, Renames, Sets, Creates}

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

// minor has the differences that are no effects. Programs that only read a file may set its time, and a new link is
// an effect at its own path.
const minor = tree.Mtime | tree.Links

// Effects lists the effects between the trees a and b. It leaves out the paths for which skip returns true. The memory
// of the list is charged to o.List.
func Effects(ctx context.Context, src *tree.Source, a, b *tree.State, o Options, skip func(path string) bool) ([]Effect, error) {
	f := effectFinder{src: src, byPath: make(map[string]*effectPath), lost: make(map[uint64]*effectPath)}
	err := tree.Diff(ctx, src, a, b, tree.DiffOptions{Paths: o.Paths}, func(c tree.Change) error {
		if err := turns.Yield(ctx); err != nil || c.Path == nil {
			return err
		}

		at := c.Path.String()
		if skip(at) {
			return nil
		}

		f.add(at, c)

		return o.List.Add(ctx, 2*listedCost+2*int64(len(at)))
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
	at   string
	from *effectPath // the path that the file had before
	to   *effectPath // the path that the file has now
	same bool        // the file that was moved here has the same bytes
}

// An effectFinder makes effects of the paths that differ.
type effectFinder struct {
	src    *tree.Source
	paths  []*effectPath // a directory before its entries
	byPath map[string]*effectPath
	lost   map[uint64]*effectPath // the first path that a file lost, by its inode number
}

func (f *effectFinder) add(at string, c tree.Change) {
	p := &effectPath{Change: c, at: at}
	f.paths, f.byPath[at] = append(f.paths, p), p
	if c.Before != nil && (c.After == nil || c.After.Ino != c.Before.Ino) && f.lost[c.Before.Ino] == nil {
		f.lost[c.Before.Ino] = p
	}
}

// findMoves finds the paths whose files had another path before.
func (f *effectFinder) findMoves() error {
	for _, p := range f.paths {
		if p.After == nil || p.Before != nil && p.Before.Ino == p.After.Ino {
			continue
		}
		from := f.lost[p.After.Ino]
		if from == nil || from.to != nil || from.Before.Btime != p.After.Btime || from.Before.Type() != p.After.Type() {
			continue
		}

		same, err := tree.SameData(f.src, from.Before, p.After)
		if err != nil {
			return err
		}
		p.from, p.same, from.to = from, same, p
	}
	return nil
}

// isImplied reports whether a file has a new path only because its directory was renamed.
func (f *effectFinder) isImplied(p *effectPath) bool {
	dir := f.byPath[path.Dir(p.at)]
	return dir != nil && dir.from != nil && dir.from.at == path.Dir(p.from.at) && path.Base(p.at) == path.Base(p.from.at)
}

// effects lists the effects, each action in the order of the paths.
func (f *effectFinder) effects() []Effect {
	var list []Effect
	index := make(map[*effectPath]int) // number of a directory's effect in list, from 1
	add := func(p *effectPath, e Effect) {
		e.Path, e.Dir, e.Change = cmp.Or(e.Path, p.at), p.isDir(), p.Change
		if list = append(list, e); e.Dir || p.wasDir() {
			index[p] = len(list)
		}
	}

	for _, p := range f.paths {
		above := f.byPath[path.Dir(p.at)]

		switch {
		case p.from != nil:
			f.addMoved(p, add)
		case p.to != nil && p.After == nil: // a renamed file: the effect is added for its new path
		case p.After == nil:
			f.count(p, above, above != nil && above.wasDir() && above.to == nil, index, list, func() { add(p, Effect{Action: Deletes}) })
		case p.Before == nil:
			f.count(p, above, above != nil && above.becameDir() && above.from == nil, index, list, func() { add(p, Effect{Action: Creates}) })
		case p.What&(tree.Type|tree.Data|tree.Target|tree.Rdev) != 0:
			add(p, Effect{Action: Overwrote})
		case p.What&^minor != 0:
			add(p, Effect{Action: Sets})
		}
	}

	slices.SortStableFunc(list, func(x, y Effect) int {
		return slices.Index(actionOrder, x.Action) - slices.Index(actionOrder, y.Action)
	})

	return list
}

// count adds a path to the effect of the directory above it, if part is set. Otherwise it calls own, which adds an
// effect of the path.
func (f *effectFinder) count(p, above *effectPath, part bool, index map[*effectPath]int, list []Effect, own func()) {
	if !part {
		own()
		return
	}

	if p.isDir() {
		index[p] = index[above]
	} else if i := index[above]; i > 0 {
		list[i-1].Files++
	}
}

// addMoved adds the effect of a file that had another path before.
func (f *effectFinder) addMoved(p *effectPath, add func(*effectPath, Effect)) {
	if p.Before != nil {
		add(p, Effect{Action: Overwrote, From: p.from.at})
		return
	}

	p.Before = p.from.Before
	if !f.isImplied(p) {
		add(p, Effect{Action: Renames, From: p.from.at})
	}
	if !p.same {
		add(p, Effect{Action: Overwrote})
	}
}

func (p *effectPath) isDir() bool {
	return p.After != nil && p.After.IsDir() || p.After == nil && p.Before.IsDir()
}

// wasDir reports whether a directory was deleted or replaced by another file.
func (p *effectPath) wasDir() bool {
	return p.Before != nil && p.Before.IsDir() && (p.After == nil || !p.After.IsDir())
}

// becameDir reports whether a directory is new, or replaced another file.
func (p *effectPath) becameDir() bool {
	return p.After != nil && p.After.IsDir() && (p.Before == nil || !p.Before.IsDir())
}
