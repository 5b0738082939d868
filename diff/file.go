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
	Added       Status = 'A'
	Modified    Status = 'M'
	Deleted     Status = 'D'
	TypeChanged Status = 'T' // a file became a symbolic link, or the reverse
	Renamed     Status = 'R'
)

// Modes as git writes them.
const (
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeSymlink = 0o120000
)

// A File is one changed file. For a rename, Before is the inode at OldPath.
type File struct {
	tree.Change
	Status     Status
	Similarity int    // similarity of a rename in percent
	Path       string // the new path; of a deleted file, its last path
	OldPath    string // differs from Path only for a rename
}

// gitMode returns n's mode as git records it, 0 for nil and for types of files that git cannot record.
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
	return listFiles(ctx, src, a, b, o)
}

// errEnough ends the comparison of FirstFiles.
var errEnough = errors.New("enough changed files were found")

// FirstFiles lists the first n changed files, without looking for renames. more reports whether there are further
// changed files. FirstFiles compares no more of the trees than this needs.
func FirstFiles(ctx context.Context, src *tree.Source, a, b *tree.State, o Options, n int) (files []File, more bool, err error) {
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

// listEntryMemory is the estimated memory in bytes of a File in a list, without its path.
const listEntryMemory = 200

// listFiles lists the changed files and finds renames among them. Without o.gitDirs, it leaves out
// paths that git apply refuses.
func listFiles(ctx context.Context, src *tree.Source, a, b *tree.State, o Options) (files []File, err error) {
	err = tree.Diff(ctx, src, a, b, tree.DiffOptions{Paths: o.Paths}, func(c tree.Change) error {
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		if err := o.List.Add(ctx, listEntryMemory+2*int64(c.Path.Len())); err != nil {
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

// fileOf converts a change to the change that git records. ok is false if git records no difference.
func fileOf(c tree.Change) (f File, ok bool) {
	before, after := gitMode(c.Before), gitMode(c.After)
	p := c.Path.String()
	f = File{Change: c, Path: p, OldPath: p}
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
		f.Status = TypeChanged
	case before != after, c.Differences&(tree.DataDiffers|tree.TargetDiffers) != 0:
		f.Status = Modified
	default:
		return f, false
	}

	return f, true
}

// inGitDir reports whether a component of path is ".git" in any case.
func inGitDir(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}

// Size returns the number of bytes that git would store for n, 0 for nil.
func Size(n *tree.Inode) int64 {
	switch {
	case n == nil:
		return 0
	case n.IsSymlink():
		return int64(len(n.Target))
	}
	return n.Content.Size()
}

// readBlob returns all the bytes that git would store for n.
func readBlob(src *tree.Source, n *tree.Inode, path string) ([]byte, error) {
	data := make([]byte, Size(n))
	if _, err := io.ReadFull(blobReader(src, n), data); err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, err)
	}
	return data, nil
}

// blobReader returns a reader of the bytes that git would store for n.
func blobReader(src *tree.Source, n *tree.Inode) io.Reader {
	switch {
	case n == nil:
		return strings.NewReader("")
	case n.IsSymlink():
		return strings.NewReader(n.Target)
	}
	return n.Content.Reader(src.Files)
}
