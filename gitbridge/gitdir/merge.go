package gitdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// A Merge applies the changes from the base to theirs to the receiving side, ours.
type Merge struct {
	Git    Git
	Base   Files // nil: the base has no git directory
	Theirs Files
	Ours   *Repo
	Name   string // the name of their side, for the names of new branches
	// PreferTheirs reports whether a branch that both sides moved gets the value of theirs. Then the commits of ours
	// get a new branch.
	PreferTheirs func(branch string) bool
	// If Resolve is set, the branch of HEAD is merged when both sides moved it. Resolve decides each path in
	// conflict.
	Resolve func(at string) Resolution
	// TheirFile and OurFile return the file of a working tree at a path, nil for none. The field OurFile is nil if
	// the working tree of ours is at Ours.Worktree.
	TheirFile, OurFile func(at string) *File
	// Alternates are directories of this machine with objects that theirs uses. Git reads them there.
	Alternates []string
	// TheirAlternates are further git directories of their side whose objects theirs uses. Each key is a directory of
	// this machine with objects: those need not be copied from the git directory.
	TheirAlternates map[string]Files
	// Undo means that theirs is older than the base. Refs of ours that moved after the base stay.
	Undo bool
	// IsOtherRepo means that theirs and the base are different repositories.
	IsOtherRepo bool

	base, theirs *state // the states of Base and Theirs; see readSides
}

// A Plan is what a merge does to the receiving repository.
type Plan struct {
	// Lines describe the plan in git's words. NewCommits are the subjects of some new commits of each branch.
	// DroppedCommits are subjects of commits that no branch has afterwards.
	Lines, NewCommits, DroppedCommits []string
	// CheckoutDiffers means that the receiving side does not get the HEAD or the sparse checkout of theirs. Then the
	// caller calls CommittedFilter.
	CheckoutDiffers  bool
	DivergedBranches []*DivergedBranch
	// KeptWorktrees are the ids of linked working trees that one side has removed, and that the other side keeps.
	KeptWorktrees []string
	// RemovedWorktrees are the ids of linked working trees that git removed on their side. Their state is removed from
	// the receiving side, too.
	RemovedWorktrees []string
	// UnresolvedPaths are the paths in conflict about which Merge.Resolve returned Unresolved. If there are any, the
	// branch is not merged.
	UnresolvedPaths []string
	// MarkedPaths are the paths that get conflict markers. If there are any, CarryOut leaves the merge in progress.
	MarkedPaths []string

	merge *Merge
	sides
	scratch     *scratchRepo
	refs        *refPlan
	files       filePlan
	index       indexPlan
	branchMerge *branchMerge // nil for none
	receiver    receiver
	tips        []string // objects that the receiving side needs, with all objects that can be reached from them
}

// sides are the three states of a git directory.
type sides struct{ base, ours, theirs *state }

// Empty reports whether the plan does not change the receiving repository.
func (p *Plan) Empty() bool {
	return p.refs == nil || len(p.refs.updates)+len(p.refs.symrefs)+len(p.files.contents)+len(p.index.newEntries) == 0 && p.refs.head == ""
}

// LacksObjects reports whether refs of theirs are left out because their objects are missing.
func (p *Plan) LacksObjects() bool { return p.refs != nil && p.refs.lacksObjects }

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
	remotes  = "refs/remotes/"
	stash    = "refs/stash"
)

// Plan decides what the merge does. scratch is an empty directory for a scratch repository.
func (m *Merge) Plan(ctx context.Context, scratch string) (*Plan, error) {
	p := &Plan{merge: m, receiver: receiver{gitCaller{m.Git, m.Ours.Dir, m.Ours.Worktree, literalPaths}, m.Ours}, files: filePlan{contents: make(map[string][]byte)}}
	err := p.plan(ctx, scratch)
	if p.scratch != nil && p.scratch.callErr != nil {
		// The plan may be wrong, because a decision may have used the output of the failed call as an answer of
		// git.
		err = p.scratch.callErr
	}

	return p, err
}

// Same reports whether base and theirs are equal, except for objects and logs.
func (m *Merge) Same() (bool, error) {
	err := m.readSides()
	return err == nil && m.base != nil && m.base.same(m.theirs), err
}

// readSides reads the states of theirs and the base, if they were not read before.
func (m *Merge) readSides() (err error) {
	if m.theirs == nil {
		m.theirs, err = readState(m.Theirs)
	}
	if m.base == nil && m.Base != nil && err == nil {
		m.base, err = readState(m.Base)
	}
	return err
}

// plan sets the fields of p.
func (p *Plan) plan(ctx context.Context, scratch string) (err error) {
	m := p.merge
	if err := m.readSides(); err != nil {
		return err
	}

	p.theirs = m.theirs
	if p.base = (&state{idLen: p.theirs.idLen}); m.Base != nil && !m.IsOtherRepo {
		p.base = m.base
	}
	if p.ours, err = readState(m.Ours); err != nil {
		return err
	}
	if err := errors.Join(p.base.checkRefStorage(), p.theirs.checkRefStorage(), p.ours.checkRefStorage(), m.Ours.checkWhole()); err != nil {
		return err
	}
	if p.ours.idLen != p.theirs.idLen {
		return fmt.Errorf("%w: their object ids have another format", ErrUnsupported)
	}
	if !m.IsOtherRepo && p.ours.same(p.theirs) {
		return nil
	}
	if p.scratch, err = m.newScratchRepo(ctx, filepath.Join(scratch, "git"), p.ours, p.theirs); err != nil {
		return err
	}
	if err := p.checkHeads(ctx); err != nil {
		return err
	}
	if m.Base != nil && !m.IsOtherRepo && p.scratch.unrelated(ctx, p.theirs, p.base) && !m.logHasHeadOf(p.base) {
		m.IsOtherRepo, p.base = true, &state{idLen: p.theirs.idLen}
	}
	if err := p.decide(ctx); err != nil {
		return err
	}

	p.summarize(ctx)

	return nil
}

// checkHeads returns ErrUnsupported if one of the states lacks the commit of its HEAD, or the tree of this commit. A
// side can use objects of another repository, which may have been removed there, or may not exist on this machine.
func (p *Plan) checkHeads(ctx context.Context) error {
	var heads []string
	for _, s := range []*state{p.base, p.ours, p.theirs} {
		if id := s.resolve(s.head); s.isID(id) {
			heads = append(heads, id, id+"^{tree}")
		}
	}

	missing, err := p.scratch.missingObjects(ctx, heads)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: commits that it needs are gone", ErrUnsupported)
	}

	return err
}

// logHasHeadOf reports whether the log of HEAD of theirs has the commit of the base. Then theirs is the repository of
// the base, although the two have no commit in common: a user has amended the first commit.
func (m *Merge) logHasHeadOf(base *state) bool {
	head := base.resolve(base.head)
	return head != "" && bytes.Contains(readOptional(m.Theirs, "logs/HEAD"), []byte(head))
}

// decide plans refs, HEAD, operations in progress and the index.
func (p *Plan) decide(ctx context.Context) error {
	s := p.sides
	p.refs = &refPlan{sides: s, merge: p.merge, scratch: p.scratch, symrefs: make(map[string]string)}
	p.index = indexPlan{sides: s, merge: p.merge, scratch: p.scratch, heads: headCommits{oursBefore: s.ours.resolve(s.ours.head)}}
	if p.merge.IsOtherRepo {
		p.refs.parkBranches(ctx)
		p.index.heads.oursAfter, p.tips = p.index.heads.oursBefore, p.refs.tips
		return nil
	}

	p.refs.decide(ctx, &p.files)
	h := &p.index.heads
	h.base, h.theirs, h.oursAfter = s.base.resolve(s.base.head), s.theirs.resolve(s.theirs.head), p.refs.newHead()
	if err := p.decideDiverged(ctx); err != nil {
		return err
	}

	if p.files.decideOperation(s, p.refs, h.oursAfter == h.theirs, p.index.takesSparse()); h.oursAfter == h.theirs {
		p.files.takeLeftovers(p.merge)
	}

	p.takeWorktrees(ctx)
	p.CheckoutDiffers = h.oursAfter != h.theirs || !p.index.takesSparse()
	if err := p.index.decide(ctx); err != nil {
		return err
	}

	if len(p.MarkedPaths) > 0 {
		inConflict := func(e IndexEntry) bool { return slices.Contains(p.MarkedPaths, e.Path) }
		p.index.newEntries = slices.Concat(slices.DeleteFunc(p.index.newEntries, inConflict), slices.DeleteFunc(p.branchMerge.stages, func(e IndexEntry) bool { return !inConflict(e) }))
	}

	return p.collectTips(ctx)
}

// collectTips sets tips. It leaves updates and entries of the index out of the plan if their objects are missing.
func (p *Plan) collectTips(ctx context.Context) error {
	p.tips = slices.Concat(p.refs.tips, p.files.tips)
	for _, u := range p.refs.updates {
		p.tips = append(p.tips, u.new)
	}
	for _, tree := range p.theirs.worktrees {
		p.tips = append(p.tips, tree.commit)
	}

	p.tips = append(p.tips, p.refs.head)
	commits := slices.Clone(p.tips)
	for _, e := range p.index.newEntries {
		if e.hasObject() {
			p.tips = append(p.tips, e.ID)
		}
	}

	slices.Sort(p.tips)
	p.tips = slices.DeleteFunc(slices.Compact(p.tips), func(id string) bool { return !p.ours.isID(id) })
	missing, err := p.scratch.missingObjects(ctx, p.tips)
	if err != nil {
		return err
	}
	commits = slices.DeleteFunc(commits, func(id string) bool { return missing[id] || !p.ours.isID(id) })
	p.scratch.findBroken(ctx, commits, p.refs.refValues(false), missing)
	p.tips = slices.DeleteFunc(p.tips, func(id string) bool { return missing[id] })
	plannedHead := p.refs.newHead()
	p.refs.dropMissing(missing)
	p.index.newEntries = slices.DeleteFunc(p.index.newEntries, func(e IndexEntry) bool { return e.hasObject() && missing[e.ID] })
	if head := p.refs.newHead(); missing[head] || head != plannedHead {
		p.index.heads.oursAfter, p.index.newEntries, p.files.contents = head, nil, map[string][]byte{}
	}

	return nil
}
