package gitdir

import (
	"context"
	"io"
	"strings"
)

// A File is a file of a working tree.
type File struct {
	Size, Mtime int64
	Exec        bool
	Open        func() io.Reader       // may be nil
	Blob        func(idLen int) string // the id of its contents as a blob, without filters
}

// Worktree returns the working tree that the text of a configuration names, "" for none.
func Worktree(text string) string { return strings.TrimSpace(parseConfig(text).last("core.worktree")) }

// Committed returns a function about the paths that theirs has changed. It reports whether the receiving side does
// not get the change of a path: the file of theirs is as in their HEAD, and the receiving side does not get that
// HEAD; or their sparse checkout leaves the file out, and the receiving side does not get that. f is the file of
// theirs, nil for none.
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

		return p.matches(e, f, p.theirs.idLen)
	}, nil
}

// hasFile reports whether an entry, nil for none, has a file in the working tree.
func (e *IndexEntry) hasFile() bool { return e != nil && e.hasObject() }

// matches reports whether a file of a working tree is as an entry has it. Both may be nil, for none.
func (p *Plan) matches(e *IndexEntry, f *File, idLen int) bool {
	if f == nil || !e.hasFile() {
		return f == nil && !e.hasFile()
	}
	if e.isRegular() && f.Exec != (e.Mode&0o100 != 0) && p.comparesModes() {
		return false
	}
	return e.Mtime != 0 && e.Mtime == f.Mtime && e.Size == uint32(f.Size) || e.ID == f.Blob(idLen)
}

func (e *IndexEntry) isRegular() bool { return e.Mode>>12 == 0o10 }

// comparesModes reports whether a change of the executable bit alone is a change for git.
func (p *Plan) comparesModes() bool {
	switch strings.ToLower(p.m.Ours.setting("core.filemode")) {
	case "false", "no", "off", "0":
		return false
	}
	return true
}
