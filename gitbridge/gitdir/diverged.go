package gitdir

import (
	"context"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot/threeway"
)

// A Diverged is a branch that both sides moved.
type Diverged struct {
	threeway.Diverged
	ours, theirs string // commits
}

// Replaced returns the files that the receiving side gets as theirs has them, because its HEAD becomes
// theirs: as for git, those that are as HEAD had them, whatever the base had. If both sides moved the
// branch, those are all that differ, otherwise asBase reports the ones that the merge of files brings.
func (p *Plan) Replaced(ctx context.Context, asBase func(at string) bool) ([]string, error) {
	if p.refs == nil || p.m.Ours.Work == "" {
		return nil, nil
	}
	moved, err := p.moved(ctx)
	maps.DeleteFunc(moved, func(at string, _ *IndexEntry) bool { return !p.refs.preferred && asBase(at) })
	if err != nil || len(moved) == 0 {
		return nil, err
	}

	dirty, err := p.receiver.status(ctx)
	if err != nil {
		return nil, err
	}
	for at := range dirty {
		delete(moved, at)
	}

	return slices.Sorted(maps.Keys(moved)), nil
}

// moved returns the files that HEAD has otherwise, and as theirs, when it becomes theirs or is merged:
// as it had them before. Those that a sparse checkout leaves out are none of them.
func (p *Plan) moved(ctx context.Context) (paths, error) {
	h := p.index.heads
	if h.was == h.to || h.to != h.theirs && !p.refs.preferred && p.merge == nil {
		return nil, nil
	}

	changed, err := p.git.diffTree(ctx, h.was, h.to)
	if err != nil {
		return nil, err
	}

	before := make(paths)
	for at, change := range changed {
		if p.merge == nil || !p.merge.both[at] {
			before[at] = change[0]
		}
	}

	for _, e := range slices.Concat(p.ours.entries, p.theirs.entries) {
		if e.Skip {
			delete(before, e.Path)
		}
	}

	return before, nil
}

// Behind returns the files that HEAD has otherwise when it becomes theirs, and are not staged: by a
// function that reports whether one is as HEAD had it.
func (p *Plan) Behind(ctx context.Context) (map[string]func(f *File) bool, error) {
	if p.refs == nil {
		return nil, nil
	}
	moved, err := p.moved(ctx)
	has, out := byPath(p.ours.entries), make(map[string]func(f *File) bool)
	for at, e := range moved {
		if equal(e, has[at]) && (e == nil || e.hasObject()) {
			out[at] = func(f *File) bool { return (e == nil) == (f == nil) && (e == nil || e.ID == f.Blob(p.ours.idLen)) }
		}
	}

	return out, err
}
