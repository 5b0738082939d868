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

// Committed returns a function that reports whether theirs has a path as their HEAD has it. nil is
// for no file.
func (p *Plan) Committed(ctx context.Context) (func(at string, f *File) bool, error) {
	staged, err := p.staged(ctx, p.theirs, p.theirHead)
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

// MergeParked merges the branch with the commits of theirs into HEAD, as git merge does, if that has
// no conflict.
func (p *Plan) MergeParked(ctx context.Context) error {
	r := p.m.Ours
	_, err := p.m.Git(ctx, r.Work, nil, nil, "--git-dir="+r.Dir, "--work-tree="+r.Work, "merge", "--no-edit", "--quiet", p.Parked)
	if err != nil {
		_, _ = p.m.Git(ctx, r.Work, nil, nil, "--git-dir="+r.Dir, "--work-tree="+r.Work, "merge", "--abort") // it may not have begun
	}
	return err
}

// Worktree is the setting of the working tree of a git directory, "" for none.
func Worktree(text string) string { return strings.TrimSpace(parseConfig(text).last("core.worktree")) }
