package live

import (
	"context"
	"errors"
	"path"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Overlay is a whole tree that is to come over a directory of a state: directories
// that are in both are merged, anything else is replaced.
type Overlay struct {
	Base   *tree.State
	Source *tree.State // sealed; its root directory is merged into Prefix
	Prefix string      // "" is the root

	first, linked uint64 // see number
}

// A Place is a directory of an Overlay.
type Place struct {
	Path *tree.Path  // in the source
	From *tree.Inode // there
	Here *tree.Inode // in the base; nil if it has none
	Ino  uint64      // in what the base becomes
}

// openPlace is a directory that is being walked.
type openPlace struct {
	Place
	after uint64 // the cookie of the last entry
}

// number gives the inode numbers from first on to what comes, and returns the next one.
// Those of files with one name, and of directories, follow each other in the order of the
// walk, for which few pages of the table are changed at a time. Those of files with
// several come behind, in the order of the source, so that each name leads to the same.
func (o *Overlay) number(first, highest uint64) (next uint64) {
	o.first, o.linked = first, first+highest
	return o.linked + highest
}

// Walk calls enter for each entry of the source but its root, with what the base has of
// that name and the inode number that it gets, a directory before what is in it, and leave
// for each directory, the root too, after that. Entries are in the order of their cookies, so that nothing has to be
// kept of a directory, whatever its size.
func (o *Overlay) Walk(ctx context.Context, src *tree.Source, enter func(in Place, c tree.Change, ino uint64) error, leave func(Place) error) error {
	from, err := o.Source.Get(src, RootIno)
	if err != nil {
		return err
	}
	here, err := o.Base.Resolve(src, o.Prefix)
	if err != nil {
		return err
	}
	next := o.first
	stack := []openPlace{{Place: Place{From: from, Here: here, Ino: here.Ino}}}
	for len(stack) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := &stack[len(stack)-1]
		name, ok, err := at.next(src)
		if err != nil {
			return err
		}
		if !ok {
			if err := leave(at.Place); err != nil {
				return err
			}
			stack = stack[:len(stack)-1]
			continue
		}
		c, err := o.change(src, at.Place, name)
		if err != nil {
			return err
		}
		ino := next
		switch {
		case c.B.IsDir() && c.A != nil:
			ino = c.A.Ino
		case len(c.B.Links) > 1:
			ino = o.linked + c.B.Ino - RootIno
		default:
			next++
		}
		if err := enter(at.Place, c, ino); err != nil {
			return err
		}
		if c.B.IsDir() {
			stack = append(stack, openPlace{Place: Place{Path: c.Path, From: c.B, Here: c.A, Ino: ino}})
		}
	}
	return nil
}

// next returns the name of the next entry of the source.
func (p *openPlace) next(src *tree.Source) (name string, ok bool, err error) {
	err = p.From.Dir.List(src, p.after, func(e tree.Dirent, cookie uint64) bool {
		name, ok, p.after = e.Name, true, cookie
		return false
	})
	return name, ok, err
}

// change is what an entry of the source is to the base.
func (o *Overlay) change(src *tree.Source, at Place, name string) (c tree.Change, err error) {
	c.What = tree.Data
	if c.Path, err = at.Path.At(name); err != nil {
		return c, err
	}
	if c.B, err = o.Source.Lookup(src, at.From, name); err != nil || at.Here == nil {
		return c, err
	}
	c.A, err = o.Base.Lookup(src, at.Here, name)
	if errors.Is(err, ErrNotExist) {
		return c, nil
	}
	if err == nil && c.A.IsDir() != c.B.IsDir() {
		err = &OverlayError{Path: path.Join(o.Prefix, c.Path.String()), Dir: c.A.IsDir()}
	}
	return c, err
}

// An OverlayError tells of a path that is a directory on one side only.
type OverlayError struct {
	Path string
	Dir  bool // here
}

func (e *OverlayError) Error() string {
	if e.Dir {
		return e.Path + " is a directory here and none in what is brought in; move it away first"
	}
	return e.Path + " is a directory in what is brought in and none here; move it away first"
}
