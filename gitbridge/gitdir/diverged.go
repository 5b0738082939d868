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

// Follow returns the files that the receiving side gets as theirs has them, because its HEAD becomes
// theirs: as for git, those that are as HEAD had them, whatever the base had. If both sides moved the
// branch, those are all that differ, otherwise asBase reports the ones that the merge of files brings. It
// is told whether theirs has changes there that are not committed.
func (p *Plan) Follow(ctx context.Context, asBase func(at string, changed bool) bool) ([]string, error) {
	if p.refs == nil || p.m.Ours.Work == "" && p.m.OurFile == nil {
		return nil, nil
	}
	moved, err := p.moved(ctx)
	maps.DeleteFunc(moved, func(at string, _ *IndexEntry) bool {
		return !p.refs.preferred && asBase(at, !p.theirs.entry(at).is(p.m.TheirFile(at), p.ours.idLen))
	})
	if err != nil || len(moved) == 0 {
		return nil, err
	}

	dirty, err := p.differing(ctx, moved)
	maps.DeleteFunc(moved, func(at string, _ *IndexEntry) bool { return dirty[at] })
	return slices.Sorted(maps.Keys(moved)), err
}

// differing returns those files of the receiving side that are not as its HEAD, which has entries, and
// its index have them.
func (p *Plan) differing(ctx context.Context, entries paths) (map[string]bool, error) {
	if p.m.OurFile == nil {
		return p.receiver.status(ctx)
	}

	differ := make(map[string]bool)
	for at, e := range entries {
		has := p.ours.entry(at)
		differ[at] = !equal(e, has) || e != nil && !e.hasObject() || !has.is(p.m.OurFile(at), p.ours.idLen)
	}

	return differ, nil
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

	for _, e := range slices.Concat(p.ours.entries(), p.theirs.entries()) {
		if e.Skip {
			delete(before, e.Path)
		}
	}

	return before, nil
}
