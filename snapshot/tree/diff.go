package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
)

// DiffOptions limit what Diff looks at.
type DiffOptions struct {
	Paths []string // only these files, and what is below these directories; empty is everything

	// Renumbered is optional: a state with the same contents as b that shares more
	// pages with a. It is used to skip equal subtrees, and its contents are not read.
	Renumbered *State
	// SkipData leaves Data out where something else differs, and reads no content there.
	SkipData bool
}

// Diff calls fn for every path at which b differs from a: in order of bytes by component, a
// directory before its entries. An added or removed directory, also one whose type changed, is
// followed by every path below it. The cost depends on the differences, not on the sizes of the
// states.
//
// Paths are compared, not inodes: a file that was replaced by an equal one of
// another inode number is no change. Hard links are compared as follows. Where a
// path has the same inode in a and b, Links is set when the number of names
// differs. Where it has another inode, Links is set when the number of names
// differs, or when some other path that both states have is the same file as this
// one in only one of them.
func Diff(ctx context.Context, src *Source, a, b *State, o DiffOptions, fn func(Change) error) error {
	d := differ{
		ctx: ctx, src: src, a: a, b: b, renumbered: o.Renumbered, skipData: o.SkipData, fn: fn,
		marks:  make(map[uint64]map[string]struct{}),
		groups: make(map[[2]uint64]bool),
		aToB:   NewPairing(src, a, b, RootIno),
		bToA:   NewPairing(src, b, a, RootIno),
	}
	only, err := newFilter(o.Paths)
	if err != nil {
		return err
	}
	if ida, ok := a.ID(); ok {
		if idb, ok := b.ID(); ok && ida == idb {
			return nil
		}
	}
	// First, the tables are compared by inode number. Inodes that differ, and the directories
	// above them, are marked in a's tree. Then both trees are walked together. At each pair of
	// directories only marked entries and entries that differ are visited. That is complete: while
	// the entries on a path are equal, the path leads to the same inodes in both trees, so a's marks
	// lead to its end or to the first entry that differs. Where the renumbered b shares pages with
	// a nothing differs, so it is compared in place of b.
	like := b
	if o.Renumbered != nil {
		like = o.Renumbered
	}
	// Inodes that only one table has need no mark: in the other tree their entry is different or
	// missing, or there is no such directory.
	w := pairWalk{ctx: ctx, src: src, changed: true, fn: func(x, y *Inode) error {
		if surelySame(x, y) {
			return nil
		}
		return d.mark(x, 0)
	}}
	if err := w.tables(a.root, a.height, like.root, like.height, 0); err != nil {
		return fmt.Errorf("compare inodes: %w", err)
	}
	x, err := a.Get(src, RootIno)
	if err != nil {
		return err
	}
	y, err := b.Get(src, RootIno)
	if err != nil {
		return err
	}
	z, err := like.Get(src, RootIno)
	if err != nil {
		return err
	}
	return d.pair(nil, x, y, z, only)
}

var errDiffers = errors.New("it differs")

// Equal reports whether two states are alike at the paths of the options. A path that differs in
// ignored ways alone is alike.
func Equal(ctx context.Context, src *Source, a, b *State, o DiffOptions, ignored What) (bool, error) {
	err := Diff(ctx, src, a, b, o, func(c Change) error {
		if c.What&^ignored == 0 {
			return turns.Yield(ctx)
		}
		return errDiffers
	})
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil, err
}

type differ struct {
	ctx        context.Context
	src        *Source
	a, b       *State
	renumbered *State // b, or nil
	skipData   bool
	fn         func(Change) error

	marks  map[uint64]map[string]struct{} // directory in a → names to look at
	groups map[[2]uint64]bool             // pair of inodes → whether their hard links differ

	aToB, bToA *Pairing
}

// mark notes every name that n has in a, and those of the directories above.
func (d *differ) mark(n *Inode, depth int) error {
	if depth == MaxDepth {
		return ErrTooDeep
	}
	for _, l := range n.Links {
		names := d.marks[l.Parent]
		if names != nil {
			names[l.Name] = struct{}{}
			continue
		}
		d.marks[l.Parent] = map[string]struct{}{l.Name: {}}
		dir, err := d.a.Get(d.src, l.Parent)
		if err != nil {
			return err
		}
		if err := d.mark(dir, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// pair compares what a and b have at one path. z is what the renumbered b has
// there; y if there is none.
func (d *differ) pair(path *Path, x, y, z *Inode, only filter) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if only.within() {
		w, err := compare(d.src, x, y, d.skipData)
		if err != nil {
			return fmt.Errorf("compare %q: %w", path.String(), err)
		}
		if !x.IsDir() && !y.IsDir() {
			if other, err := d.linksDiffer(x, y); err != nil {
				return fmt.Errorf("compare the links of %q: %w", path.String(), err)
			} else if other {
				w |= Links
			}
		}
		if w != 0 {
			if err := d.fn(Change{Path: path, Before: x, After: y, What: w}); err != nil {
				return err
			}
		}
	}
	switch {
	case x.IsDir() && y.IsDir():
		return d.dirs(path, x, y, z, only)
	case x.IsDir():
		return d.below(d.a, path, x, Removed, only, false)
	case y.IsDir():
		return d.below(d.b, path, y, Added, only, false)
	}
	return nil
}

// dirs compares the entries of two directories at one path.
func (d *differ) dirs(path *Path, x, y, z *Inode, only filter) error {
	var names []string
	if err := compareDirs(d.src, trie{page: x.Dir.root}, trie{page: z.Dir.root}, pos{}, func(name string) {
		names = append(names, name)
	}); err != nil {
		return fmt.Errorf("compare directory %q: %w", path.String(), err)
	}
	names = slices.AppendSeq(names, maps.Keys(d.marks[x.Ino]))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		below, ok := only.at(name)
		if !ok {
			continue
		}
		if err := d.entry(path, name, x, y, z, below); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) entry(dir *Path, name string, x, y, z *Inode, only filter) error {
	path, err := dir.At(name)
	if err != nil {
		return err
	}
	n, err := d.a.find(d.src, x, name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m, err := d.b.find(d.src, y, name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	o := m
	if d.renumbered != nil {
		if o, err = d.renumberedDir(z, name, m); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	switch {
	case n != nil && m != nil:
		return d.pair(path, n, m, o, only)
	case n != nil:
		return d.below(d.a, path, n, Removed, only, true)
	case m != nil:
		return d.below(d.b, path, m, Added, only, true)
	}
	return nil
}

// renumberedDir returns the directory of the renumbered b where b has the directory m, and m itself
// if that is another inode, of which the walk reads nothing.
func (d *differ) renumberedDir(dir *Inode, name string, m *Inode) (*Inode, error) {
	e, ok, err := dir.Dir.Lookup(d.src, name)
	switch {
	case err != nil:
		return nil, err
	case ok != (m != nil) || ok && e.Type != m.Type():
		return nil, errors.New("what is given as the renumbered state has other paths") // by the caller
	case !ok || !m.IsDir():
		return m, nil
	}
	return d.renumbered.child(d.src, dir, e)
}

// below reports all paths of one state below a path, and with top the path itself.
func (d *differ) below(s *State, path *Path, n *Inode, w What, only filter, top bool) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if top && only.within() {
		c := Change{Path: path, Before: n, What: w}
		if w == Added {
			c.Before, c.After = nil, n
		}
		if err := d.fn(c); err != nil {
			return err
		}
	}
	if !n.IsDir() {
		return nil
	}
	ents, err := n.Dir.sorted(d.src)
	if err != nil {
		return fmt.Errorf("list %q: %w", path.String(), err)
	}
	for _, e := range ents {
		sub, ok := only.at(e.Name)
		if !ok {
			continue
		}
		child, err := path.At(e.Name)
		if err != nil {
			return err
		}
		c, err := s.child(d.src, n, e)
		if err != nil {
			return fmt.Errorf("%s: %w", child, err)
		}
		if err := d.below(s, child, c, w, sub, true); err != nil {
			return err
		}
	}
	return nil
}
