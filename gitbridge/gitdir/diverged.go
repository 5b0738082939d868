package gitdir

import (
	"context"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/snapshot/threeway"
)

// A DivergedBranch is a branch that both sides moved.
type DivergedBranch struct {
	threeway.Diverged
	ourCommit, theirCommit string // ids of the commits that the branch has on each side
}

// FollowingFiles returns the paths of the files that the receiving side takes from theirs because its HEAD becomes the
// HEAD of theirs. As in git checkout, a file follows HEAD only if the receiving side has not changed the file since
// its own HEAD. The state of the file in the base does not matter.
//
// A file does not follow HEAD if leave returns true: then the merge of files decides about it. The argument changed
// means that the file of theirs has changes that are not committed. leave is not called if the branch of HEAD becomes
// theirs although both sides moved it (Merge.PreferTheirs): then all files follow HEAD.
func (p *Plan) FollowingFiles(ctx context.Context, leave func(path string, changed bool) bool) ([]string, error) {
	if p.refs == nil || p.merge.Ours.Worktree == "" && p.merge.OurFile == nil {
		return nil, nil
	}
	moved, err := p.followingPaths(ctx)
	maps.DeleteFunc(moved, func(at string, _ [2]*IndexEntry) bool {
		return !p.refs.prefersTheirs && leave(at, !p.matches(p.theirs.entry(at), p.merge.TheirFile(at)))
	})
	if err != nil || len(moved) == 0 {
		return nil, err
	}

	dirty, err := p.dirtyPaths(ctx, moved)
	maps.DeleteFunc(moved, func(at string, _ [2]*IndexEntry) bool { return dirty[at] })
	return slices.Sorted(maps.Keys(moved)), err
}

// dirtyPaths returns the paths of the files of the receiving side that differ from HEAD or from the index. changes are
// changes of HEAD at the paths to compare. The result may also have paths that are not in changes.
func (p *Plan) dirtyPaths(ctx context.Context, changes treeDiff) (map[string]bool, error) {
	if p.merge.OurFile == nil {
		return p.receiver.changedPaths(ctx)
	}

	differ := make(map[string]bool)
	for at, change := range changes {
		e, has := change[0], p.ours.entry(at)
		differ[at] = !equalEntries(e, has) || e != nil && !e.hasObject() || !p.matches(has, p.merge.OurFile(at))
	}

	return differ, nil
}

// followingPaths returns the paths that differ between the old and the new HEAD of the receiving side. If the new HEAD is neither the HEAD of theirs nor a merge, it returns no paths. It leaves out
// paths that git merged from both sides, paths that a sparse checkout leaves out, and paths of submodules, whose files
// git checkout does not write either.
func (p *Plan) followingPaths(ctx context.Context) (treeDiff, error) {
	h := p.index.heads
	if h.oursBefore == h.oursAfter || h.oursAfter != h.theirs && !p.refs.prefersTheirs && p.branchMerge == nil {
		return nil, nil
	}

	changed, err := p.scratch.diffTree(ctx, h.oursBefore, h.oursAfter)
	if err != nil {
		return nil, err
	}

	maps.DeleteFunc(changed, func(at string, change [2]*IndexEntry) bool {
		isModule := change[1] != nil && !change[1].hasObject()
		return isModule || p.branchMerge != nil && p.branchMerge.fromBoth[at]
	})
	for _, e := range slices.Concat(p.ours.entries(), p.theirs.entries()) {
		if e.Skip {
			delete(changed, e.Path)
		}
	}

	return changed, nil
}
