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

// Committed returns a function that reports whether theirs has a path as their HEAD has it. nil is
// for no file.
func (p *Plan) Committed(ctx context.Context) (func(at string, f *File) bool, error) {
	return p.index.committed(ctx)
}

func (p *indexPlan) committed(ctx context.Context) (func(at string, f *File) bool, error) {
	staged, err := p.staged(ctx, p.theirs, p.heads.theirs)
	if err != nil {
		return nil, err
	}
	has := byPath(p.theirs.entries)
	return func(at string, f *File) bool {
		if _, is := staged[at]; is {
			return false
		}
		e := has[at]
		if e == nil || f == nil {
			return e == nil && f == nil
		}
		return !e.Skip && (e.Mtime == f.Mtime && e.Size == uint32(f.Size) || e.ID == f.Blob(p.theirs.idLen))
	}, nil
}
