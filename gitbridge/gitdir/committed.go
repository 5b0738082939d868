package gitdir

import (
	"context"
	"strings"
)

// A File is what a working tree has at a path.
type File struct {
	Size, Mtime int64
	Blob        func(idLen int) string // its id as git would store it, without filters
}

// Worktree is the setting of the working tree of a git directory, "" for none.
func Worktree(text string) string { return strings.TrimSpace(parseConfig(text).last("core.worktree")) }

// Committed returns a function that reports whether a change of theirs at a path does not come: they
// have the path as their HEAD has it, which does not come, or a sparse checkout left it out that does
// not come. nil is for no file.
func (p *Plan) Committed(ctx context.Context) (func(at string, f *File) bool, error) {
	i := &p.index
	if err := i.readSplit(ctx); err != nil {
		return nil, err
	}

	staged, err := i.staged(ctx, p.theirs, i.heads.theirs)
	if err != nil {
		return nil, err
	}

	apart, err := p.git.diffTree(ctx, i.heads.theirs, i.heads.to)
	if err != nil {
		return nil, err
	}

	sparse := i.takesSparse()
	return func(at string, f *File) bool {
		e := p.theirs.entry(at)
		if e != nil && e.Skip && f == nil {
			return !sparse
		}
		if _, is := staged[at]; is {
			return false
		}
		if _, differs := apart[at]; !differs {
			return false
		}

		return e.is(f, p.theirs.idLen)
	}, nil
}

// hasFile reports whether an entry is a file of the working tree.
func (e *IndexEntry) hasFile() bool { return e != nil && e.hasObject() }

// is reports whether a working tree has a file as an entry has it; nil is for none.
func (e *IndexEntry) is(f *File, idLen int) bool {
	if f == nil || !e.hasFile() {
		return f == nil && !e.hasFile()
	}
	return e.Mtime != 0 && e.Mtime == f.Mtime && e.Size == uint32(f.Size) || e.ID == f.Blob(idLen)
}
