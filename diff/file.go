package diff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Status is the letter that git prints for a changed file.
type Status byte

// The letters of `git diff --name-status`.
const (
	Added    Status = 'A'
	Modified Status = 'M'
	Deleted  Status = 'D'
	Type     Status = 'T' // a file became a symbolic link, or the reverse
	Renamed  Status = 'R'
)

// Modes as git writes them.
const (
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeSymlink = 0o120000
)

// File is one changed file. Before and After are nil where the file is absent.
type File struct {
	Status     Status
	Similarity int    // of a rename, in percent
	Path       string // the new path; the old one of a deletion
	OldPath    string // differs from Path only for a rename
	Before     *tree.Inode
	After      *tree.Inode
}

// gitMode is n's mode as git records it, 0 for what git cannot hold.
func gitMode(n *tree.Inode) uint32 {
	switch {
	case n == nil:
		return 0
	case n.Mode&unix.S_IFMT == unix.S_IFLNK:
		return modeSymlink
	case n.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0
	case n.Mode&0o100 != 0:
		return modeExec
	}
	return modeFile
}

// Files lists the changed files in the order of `git diff --no-index`: by
// path, component by component, a rename at its new path.
func Files(ctx context.Context, src *tree.Source, a, b *tree.State, o Options) ([]File, error) {
	o.gitDirs = true
	return list(ctx, src, a, b, o)
}

// errEnough ends a comparison that has found what it should.
var errEnough = errors.New("enough")

// First lists the first n changed files, without looking for renames, and reports
// whether there are more. It takes as long as finding these.
func First(ctx context.Context, src *tree.Source, a, b *tree.State, o Options, n int) (files []File, more bool, err error) {
	err = tree.Diff(ctx, src, a, b, tree.DiffOptions{Paths: o.Paths}, func(c tree.Change) error {
		f, ok := fileOf(c)
		if more = ok && len(files) == n; more {
			return errEnough
		}
		if ok {
			files = append(files, f)
		}
		return nil
	})
	if err != nil && !more {
		return nil, false, fmt.Errorf("comparing the trees: %w", err)
	}
	return files, more, nil
}

// listedCost is what a changed file takes in a list beside its path, about, in bytes.
const listedCost = 200

// list finds the changed files but those whose paths git would refuse.
func list(ctx context.Context, src *tree.Source, a, b *tree.State, o Options) (files []File, err error) {
	err = tree.Diff(ctx, src, a, b, tree.DiffOptions{Paths: o.Paths}, func(c tree.Change) error {
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		if err := o.List.Add(ctx, listedCost+2*int64(c.Path.Len())); err != nil {
			return err
		}
		if f, ok := fileOf(c); ok && (o.gitDirs || !inGitDir(c.Path.String())) {
			files = append(files, f)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("comparing the trees: %w", err)
	}
	return findRenames(ctx, src, files)
}

// fileOf reduces a change to what git sees of it.
func fileOf(c tree.Change) (File, bool) {
	before, after := gitMode(c.Before), gitMode(c.After)
	p := c.Path.String()
	f := File{Path: p, OldPath: p, Before: c.Before, After: c.After}
	if before == 0 {
		f.Before = nil
	}
	if after == 0 {
		f.After = nil
	}
	switch {
	case before == 0 && after == 0:
		return f, false
	case before == 0:
		f.Status = Added
	case after == 0:
		f.Status = Deleted
	case (before == modeSymlink) != (after == modeSymlink):
		f.Status = Type
	case before != after, c.What&(tree.Data|tree.Target) != 0:
		f.Status = Modified
	default:
		return f, false
	}
	return f, true
}

// inGitDir reports whether git would refuse path because a component is ".git".
func inGitDir(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}

// Size is the number of bytes that git would store for n, 0 for nil.
func Size(n *tree.Inode) int64 {
	switch {
	case n == nil:
		return 0
	case n.IsSymlink():
		return int64(len(n.Target))
	}
	return n.Content.Size()
}

// read returns all the bytes that git would store for n.
func read(src *tree.Source, n *tree.Inode, path string) ([]byte, error) {
	data := make([]byte, Size(n))
	if _, err := io.ReadFull(reader(src, n), data); err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, err)
	}
	return data, nil
}

// reader streams the bytes that git would store for n.
func reader(src *tree.Source, n *tree.Inode) io.Reader {
	switch {
	case n == nil:
		return strings.NewReader("")
	case n.IsSymlink():
		return strings.NewReader(n.Target)
	}
	return n.Content.Reader(src.Files)
}
