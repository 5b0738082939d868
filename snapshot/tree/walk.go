package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Walk calls fn for the root directory and all inodes below it: depth first, a
// directory before its entries, names in order of their bytes. An error of fn ends the walk.
func (s *State) Walk(ctx context.Context, src *Source, fn func(path *Path, n *Inode) error) error {
	return s.WalkFrom(ctx, src, "", fn)
}

// WalkFrom walks the tree at the path top, as Walk does. If the state does not have the path, fn is not called.
func (s *State) WalkFrom(ctx context.Context, src *Source, top string, fn func(path *Path, n *Inode) error) error {
	n, err := s.InodeAt(src, top)
	if err != nil || n == nil {
		return err
	}

	path, err := ParsePath(top)
	if err != nil {
		return err
	}

	return s.walk(ctx, src, path, n, fn)
}

func (s *State) walk(ctx context.Context, src *Source, path *Path, n *Inode, fn func(path *Path, n *Inode) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := fn(path, n); err != nil || !n.IsDir() || n.Dir.root == nil {
		return err
	}

	ents, err := n.Dir.sorted(src)
	if err != nil {
		return fmt.Errorf("list %q: %w", path.String(), err)
	}

	for _, e := range ents {
		child, err := path.Child(e.Name)
		if err != nil {
			return err
		}

		c, err := s.entryInode(src, n, e)
		if err != nil {
			return fmt.Errorf("%s: %w", child, err)
		}
		if err := s.walk(ctx, src, child, c, fn); err != nil {
			return err
		}
	}

	return nil
}

// sorted returns all entries in order of their names.
func (d *Dir) sorted(src *Source) ([]Dirent, error) {
	var list []Dirent // without a capacity of d.Len, which a forged page may state too high
	err := d.List(src, 0, func(e Dirent, _ uint64) bool {
		list = append(list, e)
		return true
	})
	slices.SortFunc(list, byName)
	return list, err
}

func byName(a, b Dirent) int { return strings.Compare(a.Name, b.Name) }
