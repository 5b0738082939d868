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

// An openDir is a directory on the stack of Overlay.Walk.
type openDir struct {
	path      *tree.Path  // relative to the root of the source
	sourceDir *tree.Inode // the directory in the source
	baseDir   *tree.Inode // the directory in the base; nil if it does not exist
	cookie    uint64      // of the last entry that was read
}

// Walk calls fn for each entry of the source except the root, a directory before its entries.
// Entries are read in the order of their cookies, so that Walk needs little memory for a large
// directory.
func (o *Overlay) Walk(ctx context.Context, src *tree.Source, fn func(*Step) error) error {
	sourceDir, err := o.Source.Get(src, tree.RootIno)
	if err != nil {
		return err
	}

	baseDir, err := o.Base.Resolve(src, o.Prefix)
	if err != nil {
		return err
	}

	stack := []openDir{{sourceDir: sourceDir, baseDir: baseDir}}
	for len(stack) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}

		dir := &stack[len(stack)-1]
		name, ok, err := dir.next(src)
		if err != nil {
			return err
		}

		if !ok {
			stack = stack[:len(stack)-1]
			continue
		}

		c, err := o.changeOf(src, dir, name)
		if err != nil {
			return err
		}

		s := StepOf(c)
		s.ReplacementNode = c.After
		if err := fn(&s); err != nil {
			return err
		}
		if c.After.IsDir() {
			stack = append(stack, openDir{path: c.Path, sourceDir: c.After, baseDir: c.Before})
		}
	}

	return nil
}

// next returns the name of the next entry of the source.
func (p *openDir) next(src *tree.Source) (name string, ok bool, err error) {
	err = p.sourceDir.Dir.List(src, p.cookie, func(e tree.Dirent, cookie uint64) bool {
		name, ok, p.cookie = e.Name, true, cookie
		return false
	})
	return name, ok, err
}

// changeOf returns the change from the base to an entry of the source. A path that is a directory on
// one side only is an OverlayError.
func (o *Overlay) changeOf(src *tree.Source, dir *openDir, name string) (c tree.Change, err error) {
	c.Differences = tree.DataDiffers
	if c.Path, err = dir.path.Child(name); err != nil {
		return c, err
	}
	if c.After, err = o.Source.Lookup(src, dir.sourceDir, name); err != nil || dir.baseDir == nil {
		return c, err
	}

	c.Before, err = o.Base.Lookup(src, dir.baseDir, name)
	if errors.Is(err, tree.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if c.Before.IsDir() != c.After.IsDir() {
		return c, &OverlayError{Path: path.Join(o.Prefix, c.Path.String()), BaseIsDir: c.Before.IsDir()}
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
