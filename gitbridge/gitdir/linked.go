package gitdir

import (
	"bytes"
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A linkedTree is the state of a linked working tree in the git directory of its repository.
type linkedTree struct {
	head, commit string            // the value of HEAD, and the commit to which it leads
	files        map[string][]byte // its files, by their paths below the git directory
	entries      []IndexEntry
	indexMtime   int64 // time of the index file, in nanoseconds
	isFork       bool  // `amberfs worktree add` made the working tree
}

// forkMark is a file in worktrees/ID of the git directory. It marks a linked working tree that is a fork.
const forkMark = "amberfs-link"

// linkedTree reads the state of a linked working tree from dir, a path below the git directory. It returns nil if dir
// has no HEAD.
func (s *state) linkedTree(f Files, dir string) (*linkedTree, error) {
	t := &linkedTree{files: make(map[string][]byte)}
	var err error
	if _, t.indexMtime, err = f.Stat(path.Join(dir, "index")); err != nil {
		return nil, err
	}
	if err := collect(f, dir, t.files); err != nil {
		return nil, err
	}

	head, ok := t.files[path.Join(dir, "HEAD")]
	if !ok {
		return nil, nil
	}

	_, t.isFork = t.files[path.Join(dir, forkMark)]
	t.head = refValue(head)
	t.commit = s.resolve(t.head)
	t.entries, _ = parseIndex(t.files[path.Join(dir, "index")], s.idLen) // an index that cannot be read has no entries
	return t, nil
}

// same reports whether two linked working trees have the same HEAD, index and work in progress.
func (t *linkedTree) same(o *linkedTree) bool {
	if t == nil || o == nil {
		return t == o
	}
	work := func(t *linkedTree) map[string][]byte {
		files := maps.Clone(t.files)
		maps.DeleteFunc(files, func(name string, _ []byte) bool {
			rel := strings.SplitN(name, "/", 3)[2] // after worktrees/ID/
			return !below(rel, unfinishedNames...) && (!below(rel, ownParts...) || below(rel, "logs"))
		})
		return files
	}

	return t.head == o.head && t.commit == o.commit && slices.EqualFunc(t.entries, o.entries, IndexEntry.same) && maps.EqualFunc(work(t), work(o), bytes.Equal)
}

// takesTree reports whether the receiving side gets the state of a linked working tree from theirs, because only
// theirs has changed it.
func (s sides) takesTree(id string) bool {
	b, o, t := s.base.worktrees[id], s.ours.worktrees[id], s.theirs.worktrees[id]
	return !b.same(t) && b.same(o)
}

// takeTrees takes the states of the linked working trees that only theirs has changed, each as a whole. It skips
// working trees that are forks: each fork exists on one side only.
func (p *Plan) takeTrees(ctx context.Context) {
	s, refs := p.sides, p.refs
	all := maps.Clone(s.base.worktrees)
	maps.Copy(all, s.theirs.worktrees)

	for _, id := range slices.Sorted(maps.Keys(all)) {
		b, o, t := s.base.worktrees[id], s.ours.worktrees[id], s.theirs.worktrees[id]
		linked := refs.m.Ours.Dir != refs.m.Ours.Common

		switch {
		case b != nil && b.isFork || t != nil && t.isFork:
		case b != nil && (o == nil || t == nil && !(b.same(o) && p.isClean(ctx, id, o))) && (o != nil || t != nil):
			p.Stay = append(p.Stay, id)
			refs.parkHead(ctx, id, t)
		case b.same(t) || o.same(t):
		case linked || !b.same(o) || t != nil && refs.valueOf(t.head) != t.commit: // the index of theirs belongs to t.commit
			refs.say("the working tree %s stays as it is here", id)
			refs.parkHead(ctx, id, t)
		default:
			if t == nil {
				p.Unlinked = append(p.Unlinked, id)
			}
			p.work.said = append(p.work.said, "the working tree "+id)
			p.work.takeTree(path.Join("worktrees", id), s, o, t)
		}
	}
}

// isClean reports whether a linked working tree on this machine has no uncommitted changes. Like git worktree remove,
// a merge removes only a clean working tree.
func (p *Plan) isClean(ctx context.Context, id string, t *linkedTree) bool {
	if p.m.OurFile != nil {
		return true // the merge of files decides about each file
	}

	dir := path.Join("worktrees", id)
	file := strings.TrimSpace(string(t.files[path.Join(dir, "gitdir")]))
	dirty, err := gitCaller{p.m.Git, p.m.Ours.place(dir), filepath.Dir(file), nil}.status(ctx)

	return err == nil && len(dirty) == 0
}

// parkHead makes a branch for the commits that only the HEAD of a linked working tree of theirs has.
func (p *refPlan) parkHead(ctx context.Context, id string, t *linkedTree) {
	if t == nil || !p.theirs.isID(t.head) {
		return
	}
	if n, _ := p.git.between(ctx, t.head, p.values(true)...); n > 0 {
		p.say("%s has the commits of the working tree %s", p.park(ctx, refName(id), t.head), id)
	}
}

// takeTree replaces the state o of a linked working tree by the state t. Either is nil if the working tree does not
// exist. dir is the path of the state below the git directory. takeTree writes its own commondir, and takes only
// plain settings (PlainConfig), which name no programs.
func (p *workPlan) takeTree(dir string, s sides, o, t *linkedTree) {
	if o != nil {
		for name := range o.files {
			p.files[name] = nil
		}
	}
	if t == nil {
		return
	}

	for name, b := range t.files {
		if p.files[name] = b; name == dir+"/index" && len(t.entries) > 0 {
			p.files[name], _ = smudged(b, s.theirs.idLen, t.indexMtime)
		}
		if below(name, dir+"/index", dir+"/logs") {
			continue
		}
		p.tips = append(p.tips, wordsOf(b)...)
	}

	for _, e := range t.entries {
		if e.hasObject() {
			p.tips = append(p.tips, e.ID)
		}
	}

	p.files[dir+"/commondir"] = []byte("../..\n")
	if b, ok := p.files[dir+"/config.worktree"]; ok && b != nil {
		p.files[dir+"/config.worktree"] = []byte(PlainConfig(string(b)))
	}
	if o != nil && bytes.Equal(o.files[dir+"/gitdir"], p.files[dir+"/gitdir"]) {
		delete(p.files, dir+"/gitdir")
	}
}

// wordsOf returns the words of a small file, some of which may be ids of objects.
func wordsOf(b []byte) []string {
	return strings.FieldsFunc(string(b[:min(len(b), smallFile)]), func(r rune) bool { return r <= ' ' })
}
