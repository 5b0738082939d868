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
	Blob        func(idLen int) string // returns the id of the contents as a blob, without filters; idLen is in bytes
}

// Worktree returns the working tree that a configuration names (core.worktree), "" for none. text is the text of the
// configuration.
func Worktree(text string) string { return strings.TrimSpace(parseConfig(text).last("core.worktree")) }

// Committed returns a function about the paths that theirs has changed. f is the file of theirs at a path, nil for
// none. The function returns true if the receiving side must not take the change of the file:
//
//   - the file is as in the HEAD of theirs, and the new HEAD has a different file;
//   - or the sparse checkout of theirs leaves the file out, and the receiving side does not get that sparse checkout.
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

// hasFile reports whether an entry stands for a file in the working tree. A submodule does not, nor does a nil entry.
func (e *IndexEntry) hasFile() bool { return e != nil && e.hasObject() }

// matches reports whether a file of a working tree equals an entry. A nil file matches an entry without a file. idLen
// is in bytes.
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

// comparesModes reports whether git compares executable bits (core.fileMode).
func (p *Plan) comparesModes() bool {
	switch strings.ToLower(p.m.Ours.setting("core.filemode")) {
	case "false", "no", "off", "0":
		return false
	}
	return true
}
