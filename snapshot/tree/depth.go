package tree

import (
	"context"
	"errors"
	"io/fs"

	"github.com/amberfs/amberfs/internal/errs"
)

// Directories are nested less than MaxDepth deep, so that every walk ends and recursion is bounded.
// State.Depth is an upper bound and not the exact depth: after a move of a directory the exact depth
// could be found only by reading all directories below it.

// DepthOf returns the number of names in the path of the directory dir. If dir is forbiddenTop or below it, the
// error is errs.Invalid. A forbiddenTop of 0 forbids no directory.
func (s *State) DepthOf(src *Source, dir, forbiddenTop uint64) (int, error) {
	for depth := range MaxDepth {
		switch dir {
		case forbiddenTop:
			return 0, errs.Invalid
		case RootIno:
			return depth, nil
		}

		n, err := s.Get(src, dir)
		if err != nil {
			return 0, LoadError(err)
		}
		if len(n.Links) == 0 {
			return depth, nil
		}
		dir = n.Links[0].Parent
	}
	return 0, ErrTooDeep
}

// DepthWith returns the State.Depth that s has with a new directory in the directory dir. height is the depth to
// which directories are nested below the new directory.
func (s *State) DepthWith(src *Source, dir uint64, height int) (int, error) {
	above, err := s.DepthOf(src, dir, 0)
	if err != nil {
		return 0, err
	}

	depth := above + 1 + height
	if depth >= MaxDepth {
		return 0, ErrTooDeep
	}

	return max(s.Depth, depth), nil
}

// DepthAfter returns the State.Depth that s has after a move of the inode n to the directory dir.
func (s *State) DepthAfter(src *Source, n *Inode, dir uint64) (int, error) {
	if !n.IsDir() || len(n.Links) == 1 && n.Links[0].Parent == dir {
		return s.Depth, nil
	}
	height, known, err := s.heightOf(src, n)
	if err != nil {
		return 0, err
	}

	if !known { // State.Depth minus the depth of n is an upper bound of the height
		depth, err := s.DepthOf(src, n.Ino, 0)
		if err != nil {
			return 0, err
		}
		height = s.Depth - depth
	}

	return s.DepthWith(src, dir, height)
}

// maxHeightEntries bounds the entries that heightOf reads.
const maxHeightEntries = MaxDepth

var errManyEntries = errors.New("too many entries")

// heightOf returns the depth to which directories are nested below n. known is false if the directories have many
// entries, or one of them cannot be read. The only error is Unread: the caller then reads the object and calls
// heightOf again.
func (s *State) heightOf(src *Source, n *Inode) (height int, known bool, err error) {
	entries := 0
	w := walker{WalkOptions: WalkOptions{DirsOnly: true}, ctx: context.Background(), src: src, s: s, fn: func(path *Path, dir *Inode) error {
		height = max(height, path.Depth())
		if dir.Nlink == 2 {
			return fs.SkipDir // dir contains no directory
		}
		if entries += dir.Dir.Len(); entries >= maxHeightEntries {
			return errManyEntries
		}
		return nil
	}}

	err = w.walk(nil, n, nil)
	if _, unread := errors.AsType[*Unread](err); unread {
		return 0, false, err
	}

	return height, err == nil, nil
}

// Deepen raises State.Depth for a copy of the tree of source at the path prefix.
func (s *State) Deepen(prefix string, source *State) error {
	p, err := ParsePath(prefix)
	if err != nil {
		return err
	}

	depth := p.Depth() + source.Depth
	if depth >= MaxDepth {
		return ErrTooDeep
	}

	s.Depth = max(s.Depth, depth)

	return nil
}
