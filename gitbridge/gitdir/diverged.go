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

// Follow returns the paths of the files that the receiving side takes from theirs because its HEAD becomes the HEAD
// of theirs. As in git checkout, a file follows only if the receiving side has not changed it since its HEAD; the
// base does not matter. If the branch of HEAD became theirs although both sides moved it (Merge.Prefer), all these
// files follow. Otherwise a file does not follow if the merge of files decides about it, which asBase reports.
// changed means that the file of theirs has changes that are not committed.
func (p *Plan) Follow(ctx context.Context, asBase func(at string, changed bool) bool) ([]string, error) {
	if p.refs == nil || p.m.Ours.Work == "" && p.m.OurFile == nil {
		return nil, nil
	}
	moved, err := p.followingPaths(ctx)
	maps.DeleteFunc(moved, func(at string, _ *IndexEntry) bool {
		return !p.refs.preferred && asBase(at, !p.matches(p.theirs.entry(at), p.m.TheirFile(at), p.ours.idLen))
	})
	if err != nil || len(moved) == 0 {
		return nil, err
	}

	dirty, err := p.differing(ctx, moved)
	maps.DeleteFunc(moved, func(at string, _ *IndexEntry) bool { return dirty[at] })
	return slices.Sorted(maps.Keys(moved)), err
}

// differing returns the paths of the files of the receiving side that differ from HEAD or from the index. entries are
// the entries of HEAD at the paths to compare. The result may also have paths that are not in entries.
func (p *Plan) differing(ctx context.Context, entries paths) (map[string]bool, error) {
	if p.m.OurFile == nil {
		return p.receiver.status(ctx)
	}

	differ := make(map[string]bool)
	for at, e := range entries {
		has := p.ours.entry(at)
		differ[at] = !equalEntries(e, has) || e != nil && !e.hasObject() || !p.matches(has, p.m.OurFile(at), p.ours.idLen)
	}

	return differ, nil
}

// followingPaths returns the paths that differ between the old and the new HEAD of the receiving side, each with its
// entry in the old HEAD. It returns no paths unless the new HEAD is that of theirs or a merge. It leaves out paths
// that git merged from both sides, and paths that a sparse checkout leaves out.
func (p *Plan) followingPaths(ctx context.Context) (paths, error) {
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

	for _, e := range slices.Concat(p.ours.entries(), p.theirs.entries()) {
		if e.Skip {
			delete(before, e.Path)
		}
	}

	return before, nil
}
