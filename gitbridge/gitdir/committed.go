package gitdir

import (
	"context"
	"io"
	"slices"
	"strings"
)

// A File is a file of a working tree.
type File struct {
	Size, Mtime int64
	Exec        bool
	Open        func() io.Reader       // may be nil
	BlobID      func(idLen int) string // returns the id of the contents as a blob, without filters; idLen is in bytes
}

// ConfiguredWorktree returns the working tree that a configuration names (core.worktree), "" for none. text is the
// text of the configuration.
func ConfiguredWorktree(text string) string {
	return strings.TrimSpace(parseConfig(text).lastValue("core.worktree"))
}

// CommittedFilter returns a function that finds the files whose changes the receiving side must not take. The caller
// calls it with each path that theirs has changed, and with the file of theirs, nil for none. It returns true if:
//
//   - the file is as in the HEAD of theirs, and the new HEAD of the receiving side has a different file;
//   - or the sparse checkout of theirs leaves the file out, and the receiving side does not get that sparse checkout.
func (p *Plan) CommittedFilter(ctx context.Context) (mustLeave func(path string, f *File) bool, err error) {
	index := &p.index
	if err := index.convertIndexes(ctx); err != nil {
		return nil, err
	}

	staged, err := index.stagedEntries(ctx, p.theirs, index.heads.theirs)
	if err != nil {
		return nil, err
	}

	notTheirs, err := p.scratch.diffTree(ctx, index.heads.theirs, index.heads.oursAfter)
	if err != nil {
		return nil, err
	}

	sparse := index.takesSparse()
	return func(at string, f *File) bool {
		e := p.theirs.entry(at)
		if e != nil && e.Skip && f == nil {
			return !sparse
		}
		_, isStaged := staged[at]
		_, differs := notTheirs[at]
		return !isStaged && differs && p.matches(e, f)
	}, nil
}

// matches reports whether a file of a working tree equals an entry. If f is nil, it reports whether the entry
// has no file.
func (p *Plan) matches(e *IndexEntry, f *File) bool {
	if f == nil || !e.hasObject() {
		return f == nil && !e.hasObject()
	}
	if e.isRegular() && f.Exec != (e.Mode&0o100 != 0) && p.comparesModes() {
		return false
	}
	return e.Mtime != 0 && e.Mtime == f.Mtime && e.Size == uint32(f.Size) || e.ID == f.BlobID(p.ours.idLen)
}

func (e *IndexEntry) isRegular() bool { return e.Mode>>12 == 0o10 }

// comparesModes reports whether git compares executable bits (core.fileMode).
func (p *Plan) comparesModes() bool {
	return !slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(p.merge.Ours.setting("core.filemode")))
}
