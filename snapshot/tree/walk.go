package tree

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// WalkOptions limit the paths that Walk visits, and choose the order of the entries of a directory.
type WalkOptions struct {
	Paths    []string // only these files, and all paths below these directories; empty is everything
	DirsOnly bool     // only directories
	// ByCookie visits entries in the order of their cookies and reads them in parts, so that the walk needs little
	// memory for a large directory. Without it, the order is that of the bytes of the names.
	ByCookie bool
}

// Walk calls fn for the root directory and all paths below it, or for those that the options select: depth first, a
// directory before its entries. If fn returns fs.SkipDir, the walk leaves out the paths below. Any other error of fn
// ends the walk.
func (s *State) Walk(ctx context.Context, src *Source, o WalkOptions, fn func(path *Path, n *Inode) error) error {
	selection, err := newFilter(o.Paths)
	if err != nil {
		return err
	}

	root, err := s.Get(src, RootIno)
	if err != nil {
		return err
	}

	w := walker{WalkOptions: o, ctx: ctx, src: src, s: s, fn: fn}
	return w.walk(nil, root, selection)
}

// walker is the state of one call of Walk.
type walker struct {
	WalkOptions
	ctx context.Context
	src *Source
	s   *State
	fn  func(path *Path, n *Inode) error

	buffers [][]Dirent // entries by the depth of their directory; directories of one depth use the same memory
}

// walk visits a path, if it is selected, and the selected paths below it.
func (w *walker) walk(path *Path, n *Inode, selection filter) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if selection.selected() {
		if err := w.fn(path, n); err == fs.SkipDir {
			return nil
		} else if err != nil {
			return err
		}
	}
	if !n.IsDir() {
		return nil
	}

	return w.walkEntries(path, n, selection)
}

// walkEntries visits the selected paths below the directory n.
func (w *walker) walkEntries(path *Path, n *Inode, selection filter) error {
	depth := path.Depth()
	for len(w.buffers) <= depth {
		w.buffers = append(w.buffers, nil)
	}

	for after, more := uint64(0), true; more; {
		part, last, err := w.entries(n, selection, after, w.buffers[depth][:0])
		if err != nil {
			return fmt.Errorf("list %q: %w", path.String(), err)
		}
		w.buffers[depth], after, more = part, last, last != 0

		for _, e := range part {
			child, err := path.Child(e.Name)
			if err != nil {
				return err
			}

			c, err := w.s.entryInode(w.src, n, e)
			if err != nil {
				return fmt.Errorf("%s: %w", child, err)
			}

			below, _ := selection.entry(e.Name)
			if err := w.walk(child, c, below); err != nil {
				return err
			}
		}
	}

	return nil
}

// entries appends the selected entries of a directory after a cookie to all. If these are not all of its entries, last
// is the cookie of the last one, else 0.
func (w *walker) entries(dir *Inode, selection filter, after uint64, all []Dirent) (part []Dirent, last uint64, err error) {
	const partSize = 64
	add := func(e Dirent) {
		if !w.DirsOnly || e.Type == unix.S_IFDIR {
			all = append(all, e) // without a capacity of dir.Dir.Len, which a forged page may state too high
		}
	}

	for name := range selection {
		e, found, err := dir.Dir.Lookup(w.src, name)
		if err != nil {
			return nil, 0, err
		}
		if found {
			add(e)
		}
	}

	if selection.selected() {
		err = dir.Dir.List(w.src, after, func(e Dirent, cookie uint64) bool {
			if add(e); w.ByCookie && len(all) == partSize {
				last = cookie
			}
			return last == 0
		})
	}
	if !w.ByCookie || !selection.selected() {
		slices.SortFunc(all, byName)
	}

	return all, last, err
}

func byName(a, b Dirent) int { return strings.Compare(a.Name, b.Name) }
