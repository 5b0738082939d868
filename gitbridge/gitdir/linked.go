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

// A linkedWorktree is the state of a linked working tree: its part of the git directory of the repository.
type linkedWorktree struct {
	head, commit string            // the value of HEAD, and the commit to which it leads
	files        map[string][]byte // its files, by their paths below the git directory
	entries      []IndexEntry
	indexMtime   int64 // time of the index file, in nanoseconds
	isFork       bool  // `amberfs worktree add` made the working tree
}

// forkMark is a file in worktrees/ID of the git directory. It marks a linked working tree that is a fork.
const forkMark = "amberfs-link"

// readWorktree reads the state of a linked working tree from dir, a path below the git directory. It returns nil if
// dir has no HEAD.
func (s *state) readWorktree(f Files, dir string) (*linkedWorktree, error) {
	_, indexMtime, err := f.Stat(path.Join(dir, "index"))
	if err != nil {
		return nil, err
	}
	files, err := readFiles(f, dir)
	head, ok := files[path.Join(dir, "HEAD")]
	if !ok {
		return nil, err
	}

	t := &linkedWorktree{files: files, indexMtime: indexMtime, head: refValue(head)}

	_, t.isFork = t.files[path.Join(dir, forkMark)]
	t.commit = s.resolve(t.head)
	t.entries, _ = parseIndex(t.files[path.Join(dir, "index")], s.idLen) // an index that cannot be read has no entries
	return t, nil
}

// same reports whether two linked working trees have the same HEAD, index and operations in progress.
func (t *linkedWorktree) same(o *linkedWorktree) bool {
	if t == nil || o == nil {
		return t == o
	}
	compared := func(t *linkedWorktree) map[string][]byte {
		files := maps.Clone(t.files)
		maps.DeleteFunc(files, func(name string, _ []byte) bool {
			rel := strings.SplitN(name, "/", 3)[2] // the part of the path after worktrees/ID/
			return !below(rel, operationNames...) && (!below(rel, ownNames...) || below(rel, "logs"))
		})
		return files
	}

	return t.head == o.head && t.commit == o.commit && slices.EqualFunc(t.entries, o.entries, IndexEntry.same) && maps.EqualFunc(compared(t), compared(o), bytes.Equal)
}

// takesWorktree reports whether the receiving side gets the state of a linked working tree from theirs, because only
// theirs has changed it.
func (s sides) takesWorktree(id string) bool {
	b, o, t := s.base.worktrees[id], s.ours.worktrees[id], s.theirs.worktrees[id]
	return !b.same(t) && b.same(o)
}

// takeWorktrees takes the states of the linked working trees that only theirs has changed, each as a whole. It skips
// working trees that are forks: each fork exists on one side only.
func (p *Plan) takeWorktrees(ctx context.Context) {
	s, refs := p.sides, p.refs

	for _, id := range keysOf(s.base.worktrees, s.theirs.worktrees) {
		b, o, t := s.base.worktrees[id], s.ours.worktrees[id], s.theirs.worktrees[id]
		linked := refs.merge.Ours.Dir != refs.merge.Ours.Common

		switch {
		case b != nil && b.isFork || t != nil && t.isFork:
		case b != nil && (o == nil || t == nil && !(b.same(o) && p.isClean(ctx, id, o))) && (o != nil || t != nil):
			p.KeptWorktrees = append(p.KeptWorktrees, id)
			refs.parkWorktreeHead(ctx, id, t)
		case b.same(t) || o.same(t):
		case linked || !b.same(o) || t != nil && refs.resolveNew(t.head) != t.commit:
			// In the last case HEAD would lead to another commit than t.commit, the only one that the index of
			// theirs fits.
			refs.note("the working tree %s stays as it is here", id)
			refs.parkWorktreeHead(ctx, id, t)
		default:
			if t == nil {
				p.RemovedWorktrees = append(p.RemovedWorktrees, id)
			}
			p.files.lines = append(p.files.lines, "the working tree "+id)
			p.files.takeWorktree(path.Join("worktrees", id), s, o, t)
		}
	}
}

// isClean reports whether a linked working tree on this machine has no uncommitted changes. Like git worktree remove,
// a merge removes only a clean working tree.
func (p *Plan) isClean(ctx context.Context, id string, t *linkedWorktree) bool {
	if p.merge.OurFile != nil {
		return true // the working tree is not on this machine, and the merge of files decides about each of its files
	}

	dir := path.Join("worktrees", id)
	file := strings.TrimSpace(string(t.files[path.Join(dir, "gitdir")]))
	dirty, err := gitCaller{p.merge.Git, p.merge.Ours.pathOf(dir), filepath.Dir(file), nil}.changedPaths(ctx)

	return err == nil && len(dirty) == 0
}

// parkWorktreeHead makes a branch for the commits that only the HEAD of a linked working tree of theirs has.
func (p *refPlan) parkWorktreeHead(ctx context.Context, id string, t *linkedWorktree) {
	if t == nil || !p.theirs.isID(t.head) {
		return
	}
	if n, _ := p.scratch.commitsBetween(ctx, t.head, p.refValues(true)...); n > 0 {
		p.note("%s has the commits of the working tree %s", p.park(ctx, refComponent(id), t.head), id)
	}
}

// takeWorktree replaces the state o of a linked working tree by the state t. Either is nil if the working tree does
// not exist. dir is the path of the state below the git directory. takeWorktree writes its own commondir, and takes
// only plain settings (PlainConfig), which name no programs.
func (p *filePlan) takeWorktree(dir string, s sides, o, t *linkedWorktree) {
	if o != nil {
		for name := range o.files {
			p.contents[name] = nil
		}
	}
	if t == nil {
		return
	}

	for name, b := range t.files {
		if p.contents[name] = b; name == dir+"/index" && len(t.entries) > 0 {
			p.contents[name], _ = smudgedCopy(b, t.entries, s.theirs.idLen, t.indexMtime)
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

	p.contents[dir+"/commondir"] = []byte("../..\n")
	if b, ok := p.contents[dir+"/config.worktree"]; ok && b != nil {
		p.contents[dir+"/config.worktree"] = []byte(PlainConfig(string(b)))
	}
	if o != nil && bytes.Equal(o.files[dir+"/gitdir"], p.contents[dir+"/gitdir"]) {
		delete(p.contents, dir+"/gitdir")
	}
}

// wordsOf returns the words of a small file, some of which may be ids of objects.
func wordsOf(b []byte) []string {
	return strings.FieldsFunc(string(b[:min(len(b), maxSmallFileBytes)]), func(r rune) bool { return r <= ' ' })
}
