package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
)

// DiffOptions limit the comparison of Diff.
type DiffOptions struct {
	Paths []string // only these files, and all paths below these directories; empty is everything

	// Renumbered is nil, or a state with the paths and contents of b that shares more pages with a. Diff compares
	// its pages instead of b's pages, to skip equal subtrees. Diff reads no file contents of Renumbered.
	Renumbered *State
	// If SkipData is set, the contents of a path that differs in another way are not compared: its Differences
	// then lack DataDiffers.
	SkipData bool
}

// Diff calls fn for every path at which b differs from a, in the order of ComparePaths: a directory before its
// entries. An added or removed directory, also one whose type changed, is followed by every path below it. The
// cost depends on the differences, not on the sizes of the states.
//
// Paths are compared, not inodes: a file that was replaced by an equal one with another inode number is no change.
// LinksDiffer is set
//
//   - when the number of names of the file differs;
//   - when the path has different inode numbers in a and b, and some other path that both states
//     have is a name of the same file in only one of them.
func Diff(ctx context.Context, src *Source, a, b *State, o DiffOptions, fn func(Change) error) error {
	d := differ{
		ctx: ctx, src: src, a: a, b: b, renumbered: o.Renumbered, skipData: o.SkipData, fn: fn,
		marks:       make(map[uint64]map[string]struct{}),
		linkResults: make(map[[2]uint64]bool),
		aToB:        NewPairing(src, a, b, RootIno),
		bToA:        NewPairing(src, b, a, RootIno),
		removed: walker{ctx: ctx, src: src, s: a, fn: func(path *Path, n *Inode) error {
			return fn(Change{Path: path, Before: n, Differences: PathRemoved})
		}},
		added: walker{ctx: ctx, src: src, s: b, fn: func(path *Path, n *Inode) error {
			return fn(Change{Path: path, After: n, Differences: PathAdded})
		}},
	}

	selection, err := newFilter(o.Paths)
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
	// directories only marked entries and entries that differ are visited.
	//
	// The walk misses no change: while the entries on a path are equal, the path leads to the same
	// inodes in both trees, so a's marks lead to its end or to the first entry that differs.
	//
	// Pages that the renumbered b shares with a are equal, so it is compared in place of b.
	compared := b
	if o.Renumbered != nil {
		compared = o.Renumbered
	}

	// An inode that only one of the tables has needs no mark: in the other tree its entry differs or is missing,
	// or the directory of the entry is missing.
	w := pairWalk{ctx: ctx, src: src, wantChanged: true, fn: func(x, y *Inode) error {
		if knownEqual(x, y) {
			return nil
		}
		return d.markPaths(x, 0)
	}}
	if err := w.compareTables(a.root, a.height, compared.root, compared.height, 0); err != nil {
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

	z, err := compared.Get(src, RootIno)
	if err != nil {
		return err
	}

	return d.comparePath(nil, x, y, z, selection)
}

var errDiffers = errors.New("the states differ")

// Equal reports whether two states are equal at the paths of the options. It does not count the differences in the
// set ignored.
func Equal(ctx context.Context, src *Source, a, b *State, o DiffOptions, ignored Differences) (bool, error) {
	err := Diff(ctx, src, a, b, o, func(c Change) error {
		if c.Differences&^ignored == 0 {
			return turns.Yield(ctx)
		}
		return errDiffers
	})
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil, err
}

// differ is the state of one call of Diff.
type differ struct {
	ctx        context.Context
	src        *Source
	a, b       *State
	renumbered *State // b with other inode numbers, or nil; see DiffOptions
	skipData   bool
	fn         func(Change) error

	marks       map[uint64]map[string]struct{} // directory in a → names to visit
	linkResults map[[2]uint64]bool             // by inode numbers in a and b: whether the hard links of the two files differ

	aToB, bToA *Pairing

	removed, added walker // calls fn for the paths at and below a path that only a or only b has
}

// markPaths marks every name that n has in a, and the names of the directories above.
func (d *differ) markPaths(n *Inode, depth int) error {
	if depth == MaxDepth {
		return ErrTooDeep
	}

	for _, l := range n.Links {
		names := d.marks[l.Parent]
		if names != nil {
			names[l.Name] = struct{}{} // the directories above are marked already
			continue
		}

		d.marks[l.Parent] = map[string]struct{}{l.Name: {}}
		dir, err := d.a.Get(d.src, l.Parent)
		if err != nil {
			return err
		}
		if err := d.markPaths(dir, depth+1); err != nil {
			return err
		}
	}

	return nil
}

// comparePath compares the inodes at one path, and the paths below: x of a, y of b, and z of the
// renumbered b. Without a renumbered b, z is y.
func (d *differ) comparePath(path *Path, x, y, z *Inode, selection filter) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}

	if selection.selected() {
		w, err := compareInodes(d.src, x, y, d.skipData)
		if err != nil {
			return fmt.Errorf("compare %q: %w", path.String(), err)
		}

		if !x.IsDir() && !y.IsDir() {
			other, err := d.linksDiffer(x, y)
			if err != nil {
				return fmt.Errorf("compare the links of %q: %w", path.String(), err)
			}
			if other {
				w |= LinksDiffer
			}
		}

		if w != 0 {
			if err := d.fn(Change{Path: path, Before: x, After: y, Differences: w}); err != nil {
				return err
			}
		}
	}

	switch {
	case x.IsDir() && y.IsDir():
		return d.compareListings(path, x, y, z, selection)
	case x.IsDir():
		return d.removed.walkEntries(path, x, selection)
	case y.IsDir():
		return d.added.walkEntries(path, y, selection)
	}

	return nil
}

// compareListings compares the entries of directories at one path, see comparePath.
func (d *differ) compareListings(path *Path, x, y, z *Inode, selection filter) error {
	var names []string
	if err := compareDirs(d.src, dirPart{page: x.Dir.root}, dirPart{page: z.Dir.root}, triePos{}, func(name string) {
		names = append(names, name)
	}); err != nil {
		return fmt.Errorf("compare directory %q: %w", path.String(), err)
	}

	names = slices.AppendSeq(names, maps.Keys(d.marks[x.Ino]))

	slices.Sort(names)

	for _, name := range slices.Compact(names) {
		below, ok := selection.entry(name)
		if !ok {
			continue
		}
		if err := d.compareEntry(path, name, x, y, z, below); err != nil {
			return err
		}
	}

	return nil
}

// compareEntry compares the entries of one name in directories at one path, see comparePath.
func (d *differ) compareEntry(dir *Path, name string, x, y, z *Inode, selection filter) error {
	path, err := dir.Child(name)
	if err != nil {
		return err
	}

	n, err := d.a.lookupEntry(d.src, x, name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}

	m, err := d.b.lookupEntry(d.src, y, name)
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
		return d.comparePath(path, n, m, o, selection)
	case n != nil:
		return d.removed.walk(path, n, selection)
	case m != nil:
		return d.added.walk(path, m, selection)
	}

	return nil
}

// renumberedDir returns the entry name of dir, a directory of the renumbered b. m is the inode that b has at the same
// path. If m is no directory, renumberedDir returns m itself, so that the walk reads only directories of the
// renumbered b.
func (d *differ) renumberedDir(dir *Inode, name string, m *Inode) (*Inode, error) {
	e, ok, err := dir.Dir.Lookup(d.src, name)
	switch {
	case err != nil:
		return nil, err
	case ok != (m != nil) || ok && e.Type != m.Type():
		return nil, errors.New("the renumbered state has other paths") // the caller of Diff passed a wrong DiffOptions.Renumbered
	case !ok || !m.IsDir():
		return m, nil
	}

	return d.renumbered.entryInode(d.src, dir, e)
}
