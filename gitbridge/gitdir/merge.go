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
	// Prefer reports whether a branch that both sides moved gets the value of theirs. Then the commits of ours get a
	// new branch.
	Prefer func(branch string) bool
	// If Resolve is set, the branch of HEAD is merged when both sides moved it. Resolve decides each path in
	// conflict.
	Resolve func(at string) Resolution
	// TheirFile and OurFile return the file of a working tree at a path, nil for none. The field OurFile is nil if
	// the working tree of ours is at Ours.Work.
	TheirFile, OurFile func(at string) *File
	// Alternates are directories of this machine with objects that theirs uses. Git reads them there.
	Alternates []string
	// Borrowed are further git directories of their side whose objects theirs uses. Each key is a directory of this
	// machine with objects: those need not be copied from the git directory.
	Borrowed map[string]Files
	// Undo means that theirs is older than the base. Refs of ours that moved after the base stay.
	Undo bool
	// Another means that theirs and the base are different repositories.
	Another bool

	base, theirs *state // of Base and Theirs; see readSides
}

// A Plan is what a merge does to the receiving repository.
type Plan struct {
	// Lines describe the plan in git's words. Commits are the subjects of some new commits of each branch. Off are
	// subjects of commits that no branch has afterwards.
	Lines, Commits, Off []string
	// Parted means that some changes of files belong to commits or to a sparse checkout that the receiving side does
	// not get; see Committed.
	Parted   bool
	Diverged []*Diverged
	// Stay are the ids of linked working trees that one side has removed, and that the other side keeps.
	Stay []string
	// Unlinked are the ids of linked working trees that git removed on their side. Their state is removed from the
	// receiving side, too.
	Unlinked []string
	// Unresolved are the paths in conflict that Resolve did not decide. If there are any, the branch is not merged.
	Unresolved []string

	m *Merge
	sides
	git      *scratchRepo
	refs     *refPlan
	work     workPlan
	index    indexPlan
	merge    *branchMerge // nil for none
	receiver receiver
	tips     []string // objects that the receiving side needs, with all objects that can be reached from them
}

// sides are the three states of a git directory.
type sides struct{ base, ours, theirs *state }

// Empty reports whether the plan does not change the receiving repository.
func (p *Plan) Empty() bool {
	return p.refs == nil || len(p.refs.updates)+len(p.refs.symrefs)+len(p.work.files)+len(p.index.delta) == 0 && p.refs.head == ""
}

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
	remotes  = "refs/remotes/"
	stash    = "refs/stash"
)

// Plan decides what the merge does. scratch is an empty directory for a scratch repository.
func (m *Merge) Plan(ctx context.Context, scratch string) (*Plan, error) {
	p := &Plan{m: m, receiver: receiver{gitCaller{m.Git, m.Ours.Dir, m.Ours.Work, literalPaths}, m.Ours}, work: workPlan{files: make(map[string][]byte)}}
	err := p.plan(ctx, scratch)
	if p.git != nil && p.git.failed != nil {
		err = p.git.failed // the plan may be wrong: a decision took the failed call for an answer of git
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
	m := p.m
	if err := m.readSides(); err != nil {
		return err
	}

	p.theirs = m.theirs
	if p.base = (&state{idLen: p.theirs.idLen}); m.Base != nil && !m.Another {
		p.base = m.base
	}
	if p.ours, err = readState(m.Ours); err != nil {
		return err
	}
	if err := errors.Join(p.base.checkStorage(), p.theirs.checkStorage(), p.ours.checkStorage(), m.Ours.isWhole()); err != nil {
		return err
	}
	if p.ours.idLen != p.theirs.idLen {
		return fmt.Errorf("%w: their object ids have another format", ErrKind)
	}
	if !m.Another && p.ours.same(p.theirs) {
		return nil
	}
	if p.git, err = m.newScratchRepo(ctx, filepath.Join(scratch, "git"), p.ours, p.theirs); err != nil {
		return err
	}
	if err := p.checkHeads(ctx); err != nil {
		return err
	}
	if m.Base != nil && !m.Another && p.git.unrelated(ctx, p.theirs, p.base) && !m.leftBase(p.base) {
		m.Another, p.base = true, &state{idLen: p.theirs.idLen}
	}
	if err := p.decide(ctx); err != nil {
		return err
	}

	p.summarize(ctx)

	return nil
}

// checkHeads returns ErrKind if the commit of HEAD of the base or of theirs is missing: objects that theirs uses from
// another repository may not exist on this machine.
func (p *Plan) checkHeads(ctx context.Context) error {
	var heads []string
	for _, s := range []*state{p.base, p.theirs} {
		if id := s.resolve(s.head); s.isID(id) {
			heads = append(heads, id)
		}
	}
	if len(heads) == 0 {
		return nil
	}

	missing, err := p.git.missing(ctx, heads)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: commits that it needs are gone", ErrKind)
	}

	return err
}

// leftBase reports whether the log of HEAD of theirs has the commit of the base. Then theirs is the repository of the
// base, although the two have no commit in common: a user has amended the first commit.
func (m *Merge) leftBase(base *state) bool {
	head := base.resolve(base.head)
	return head != "" && bytes.Contains(readAny(m.Theirs, "logs/HEAD"), []byte(head))
}

// decide plans refs, HEAD, work in progress and the index.
func (p *Plan) decide(ctx context.Context) error {
	s := p.sides
	p.refs = &refPlan{sides: s, m: p.m, git: p.git, symrefs: make(map[string]string)}
	p.index = indexPlan{sides: s, m: p.m, git: p.git, heads: heads{was: s.ours.resolve(s.ours.head)}}
	if p.m.Another {
		p.refs.parkAll(ctx)
		p.index.heads.to, p.tips = p.index.heads.was, p.refs.tips
		return nil
	}

	p.refs.decide(ctx, &p.work)
	h := &p.index.heads
	h.base, h.theirs, h.to = s.base.resolve(s.base.head), s.theirs.resolve(s.theirs.head), p.refs.newHead()
	if err := p.describe(ctx); err != nil {
		return err
	}

	if p.work.decide(s, p.refs, h.to == h.theirs, p.index.takesSparse()); h.to == h.theirs {
		p.work.takeLast(p.m)
	}

	p.takeTrees(ctx)
	p.Parted = h.to != h.theirs || !p.index.takesSparse()
	if err := p.index.decide(ctx); err != nil {
		return err
	}

	if left := p.Marked(); len(left) > 0 {
		inConflict := func(e IndexEntry) bool { return slices.Contains(left, e.Path) }
		p.index.delta = slices.Concat(slices.DeleteFunc(p.index.delta, inConflict), slices.DeleteFunc(p.merge.stages, func(e IndexEntry) bool { return !inConflict(e) }))
	}

	return p.collectTips(ctx)
}

// collectTips sets tips. It leaves updates and entries of the index out of the plan if their objects are missing.
func (p *Plan) collectTips(ctx context.Context) error {
	p.tips = slices.Concat(p.refs.tips, p.work.tips)
	for _, u := range p.refs.updates {
		p.tips = append(p.tips, u.new)
	}
	for _, tree := range p.theirs.worktrees {
		p.tips = append(p.tips, tree.commit)
	}

	p.tips = append(p.tips, p.refs.head)
	for _, e := range p.index.delta {
		if e.hasObject() {
			p.tips = append(p.tips, e.ID)
		}
	}

	slices.Sort(p.tips)
	p.tips = slices.DeleteFunc(slices.Compact(p.tips), func(id string) bool { return !p.ours.isID(id) })
	if len(p.tips) == 0 {
		return nil
	}

	missing, err := p.git.missing(ctx, p.tips)
	if err != nil {
		return err
	}

	p.tips = slices.DeleteFunc(p.tips, func(id string) bool { return missing[id] })
	was := p.refs.newHead()
	p.refs.drop(missing)
	p.index.delta = slices.DeleteFunc(p.index.delta, func(e IndexEntry) bool { return e.hasObject() && missing[e.ID] })
	if to := p.refs.newHead(); missing[to] || to != was {
		p.index.heads.to, p.index.delta, p.work.files = to, nil, map[string][]byte{}
	}

	return nil
}
