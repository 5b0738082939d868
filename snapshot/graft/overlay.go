package graft

import (
	"context"
	"errors"
	"path"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Overlay is a tree that is merged into a directory of a state. Directories
// on both sides are merged, other files are replaced.
type Overlay struct {
	Base   *tree.State
	Source *tree.State // sealed; its root directory is merged into Prefix
	Prefix string      // "" is the root
}

// Walk calls fn for each entry of the source except the root, a directory before its entries.
// Entries are read in the order of their cookies, so that Walk needs little memory for a large
// directory.
func (o *Overlay) Walk(ctx context.Context, src *tree.Source, fn func(*Step) error) error {
	top, err := o.Base.Resolve(src, o.Prefix)
	if err != nil {
		return err
	}

	baseDirs := []*tree.Inode{top} // directories of the base above the visited path; nil if they do not exist
	return o.Source.Walk(ctx, src, tree.WalkOptions{ByCookie: true}, func(p *tree.Path, n *tree.Inode) error {
		if p == nil {
			return nil
		}

		c, err := o.changeOf(src, baseDirs[p.Depth()-1], p, n)
		if err != nil {
			return err
		}
		baseDirs = append(baseDirs[:p.Depth()], c.Before)

		s := StepOf(c)
		s.ReplacementNode = n

		return fn(&s)
	})
}

// changeOf returns the change from the base to the inode n at a path of the source. baseDir is the directory of the
// base above the path, or nil. A path that is a directory on one side only is an OverlayError.
func (o *Overlay) changeOf(src *tree.Source, baseDir *tree.Inode, p *tree.Path, n *tree.Inode) (c tree.Change, err error) {
	c = tree.Change{Path: p, After: n, Differences: tree.DataDiffers}
	if baseDir == nil {
		return c, nil
	}

	c.Before, err = o.Base.Lookup(src, baseDir, p.Name)
	if errors.Is(err, tree.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if c.Before.IsDir() != n.IsDir() {
		return c, &OverlayError{Path: path.Join(o.Prefix, p.String()), BaseIsDir: c.Before.IsDir()}
	}

	return c, nil
}

// An OverlayError reports a path that is a directory on one side only.
type OverlayError struct {
	Path      string
	BaseIsDir bool // the base has the directory
}

func (e *OverlayError) Error() string {
	if e.BaseIsDir {
		return e.Path + " is a directory here and none in what is brought in; move it away first"
	}
	return e.Path + " is a directory in what is brought in and none here; move it away first"
}
