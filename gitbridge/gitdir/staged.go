package gitdir

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An indexPlan is the plan for the index of the receiving side.
type indexPlan struct {
	sides
	merge      *Merge
	scratch    *scratchRepo
	heads      headCommits
	newEntries []IndexEntry // the entries in which the new index differs from the present one; an entry with Mode 0 removes its path
	staleFiles []string     // paths for which the new index has no times and sizes of files
}

// headCommits are the commits of HEAD: of the base, of theirs, and of the receiving side before and after the merge.
type headCommits struct{ base, theirs, oursBefore, oursAfter string }

// entriesByPath are entries of an index or of a tree by their paths; nil means that the path does not exist.
type entriesByPath map[string]*IndexEntry

// decide sets the new index of the receiving side:
//
//  1. If HEAD does not move, and theirs has not changed its index, the index stays.
//  2. If HEAD and the index of the receiving side equal the base, and HEAD moves to the HEAD of theirs, the index
//     becomes the index of theirs.
//  3. Otherwise each path that the move of HEAD changes gets the entry in the new HEAD. Each other path keeps its
//     entry, or gets the entry of theirs if only theirs has changed the entry.
func (p *indexPlan) decide(ctx context.Context) error {
	o, t, b := p.ours, p.theirs, p.base
	if p.heads.oursBefore == p.heads.oursAfter && b.sameIndex(t) && p.heads.base == p.heads.theirs || len(o.index) == 0 && len(t.index) == 0 || p.merge.Ours.isBare() {
		return nil
	}
	if err := p.convertIndexes(ctx); err != nil {
		return err
	}

	if o.sameIndex(b) && p.heads.oursBefore == p.heads.base && p.heads.oursAfter == p.heads.theirs && p.hasNoOwnOperation() {
		p.newEntries = indexDelta(o.entries(), t.entries())
		return nil
	}

	moved, err := p.scratch.diffTree(ctx, p.heads.oursBefore, p.heads.oursAfter)
	if err != nil {
		return err
	}

	wanted := make(entriesByPath)
	for at, change := range moved {
		if now := o.entry(at); now == nil || !equalEntries(now, change[1]) {
			wanted[at] = change[1]
		}
	}

	if err := p.addStaged(ctx, wanted); err != nil {
		return err
	}

	sparse := p.takesSparse()
	for _, e := range t.entries() {
		_, decided := wanted[e.Path]
		if now := o.entry(e.Path); sparse && !decided && now != nil && now.Skip != e.Skip {
			wanted[e.Path] = now
		}
	}

	for at, e := range wanted {
		n := IndexEntry{Path: at}

		if e != nil {
			n = *e
			now := o.entry(at)
			if now != nil {
				n.Skip = now.Skip
			}
			if then := t.entry(at); then != nil && (sparse || now == nil) {
				n.Skip = then.Skip
			}
		}

		p.newEntries = append(p.newEntries, n)
	}

	slices.SortStableFunc(p.newEntries, func(a, b IndexEntry) int { return strings.Compare(a.Path, b.Path) })

	return nil
}

// takesSparse reports whether the receiving side gets the sparse checkout of theirs.
func (p *indexPlan) takesSparse() bool {
	return p.base.sameSparse(p.ours) && (p.heads.oursAfter == p.heads.theirs || p.heads.theirs == p.heads.base)
}

// addStaged adds to wanted the entries that theirs has staged or unstaged since the base.
func (p *indexPlan) addStaged(ctx context.Context, wanted entriesByPath) error {
	var staged [3]entriesByPath
	for i, commit := range []string{p.heads.theirs, p.heads.base, p.heads.oursBefore} {
		var err error
		if staged[i], err = p.stagedEntries(ctx, []*state{p.theirs, p.base, p.ours}[i], commit); err != nil {
			return err
		}
	}
	theirs, base, ours := staged[0], staged[1], staged[2]

	notTheirs, err := p.scratch.diffTree(ctx, p.heads.theirs, p.heads.oursAfter)
	if err != nil {
		return err
	}

	for at, t := range theirs {
		b, wasStaged := base[at]
		o, ourStaged := ours[at]
		_, differs := notTheirs[at]
		switch {
		case wasStaged && equalEntries(b, t): // theirs has staged nothing since the base
		case ourStaged && !(wasStaged && equalEntries(o, b)) || isUnmerged(t):
		case !differs && !p.ours.isBlocked(at, wanted): // the new HEAD equals the HEAD of theirs, and no other entry prevents the path
			wanted[at] = t
		}
	}

	if p.ours.operation() != "" { // an operation in progress, such as a rebase, needs its staged paths
		return nil
	}
	for at, b := range base { // look for paths that theirs has unstaged
		_, still := theirs[at]
		_, decided := wanted[at]
		o, ourStaged := ours[at]
		if still || decided || !ourStaged || !equalEntries(o, b) || isUnmerged(o) {
			continue
		}

		committed := p.theirs.entry(at) // theirs has not staged the path, so this is the entry in the HEAD of theirs
		if committed != nil {
			committed = &IndexEntry{Path: at, Mode: committed.Mode, ID: committed.ID}
		}
		// Theirs has not unstaged the path but committed it. The receiving side may not get that commit, so its
		// entry stays.
		if equalEntries(committed, b) {
			continue
		}
		wanted[at] = committed
		if change, differs := notTheirs[at]; differs {
			wanted[at] = change[1]
		}
	}

	return nil
}

func isUnmerged(e *IndexEntry) bool { return e != nil && e.Stage > 0 }

func equalEntries(a, b *IndexEntry) bool {
	return a == nil && b == nil || a != nil && b != nil && a.same(*b)
}

// isBlocked reports whether an index with the changes in wanted has a file above a path, or the unchanged
// index has entries below the path.
func (s *state) isBlocked(at string, wanted entriesByPath) bool {
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if e, ok := wanted[dir]; ok && e != nil || !ok && s.entry(dir) != nil {
			return true
		}
	}

	all := s.entries()
	i, _ := slices.BinarySearchFunc(all, at+"/", IndexEntry.compare)
	return i < len(all) && strings.HasPrefix(all[i].Path, at+"/")
}

func (e IndexEntry) compare(at string) int { return strings.Compare(e.Path, at) }

// entry returns the entry of a path in the index, nil for none.
func (s *state) entry(at string) *IndexEntry {
	i, ok := slices.BinarySearchFunc(s.entries(), at, IndexEntry.compare)
	if !ok {
		return nil
	}
	return &s.parsedEntries[i]
}

// indexDelta returns the entries that turn oldIndex into newIndex. For each path that differs, these are the
// entries in newIndex, or an entry with Mode 0 if newIndex does not have the path.
func indexDelta(oldIndex, newIndex []IndexEntry) (out []IndexEntry) {
	was, is := byPath(oldIndex), byPath(newIndex)
	for _, at := range keysOf(was, is) {
		switch {
		case slices.EqualFunc(was[at], is[at], IndexEntry.same):
		case len(is[at]) == 0:
			out = append(out, IndexEntry{Path: at})
		default:
			out = append(out, is[at]...)
		}
	}

	return out
}

// byPath returns the entries of each path of an index. A path in conflict has up to three.
func byPath(index []IndexEntry) map[string][]IndexEntry {
	all := make(map[string][]IndexEntry, len(index))
	for i, e := range index {
		all[e.Path] = index[i-len(all[e.Path]) : i+1] // the entries of a path follow each other
	}
	return all
}

// convertIndexes has git convert the indexes that this package cannot read. Errors: ErrUnsupported.
func (p *indexPlan) convertIndexes(ctx context.Context) error {
	for _, s := range []*state{p.ours, p.theirs, p.base} {
		if s.parseEntries() == nil {
			continue
		}
		if err := p.joinSplit(ctx, s); err != nil {
			return fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
	}
	return nil
}

// joinSplit has git join a split index with its shared part, and reads the result.
func (p *indexPlan) joinSplit(ctx context.Context, s *state) error {
	files := map[*state]Files{p.ours: p.merge.Ours, p.theirs: p.merge.Theirs, p.base: p.merge.Base}[s]
	names, err := files.List(".")
	if err != nil {
		return err
	}

	for _, n := range names {
		if remainingBytes := int64(maxFileBytes); strings.HasPrefix(n.Name, "sharedindex.") {
			if err := saveTo(files, n.Name, filepath.Join(p.scratch.gitDir, n.Name), &remainingBytes); err != nil && !os.IsExist(err) {
				return err
			}
		}
	}

	at, env, err := p.scratch.writeIndexFile(s.index)
	if err == nil {
		_, err = p.scratch.ask(ctx, env, nil, "update-index", "--no-split-index")
	}
	if err != nil {
		return err
	}

	s.index, err = os.ReadFile(at)
	if s.entriesParsed = false; err != nil {
		return err
	}

	return s.parseEntries()
}

// writeIndexFile writes an index to a file of the scratch repository, in place of an index that an earlier call has
// written. env is the environment of git calls that use the file as the index.
func (s *scratchRepo) writeIndexFile(index []byte) (at string, env []string, err error) {
	at = filepath.Join(s.gitDir, "an-index")
	_ = os.Remove(at)
	if len(index) > 0 { // otherwise no file is written: for git, a missing index is an empty one
		err = os.WriteFile(at, index, 0o600)
	}
	return at, []string{"GIT_INDEX_FILE=" + at}, err
}

// stagedEntries returns the entries of an index that differ from a commit. An entry of a path in conflict has a stage.
func (p *indexPlan) stagedEntries(ctx context.Context, s *state, commit string) (entriesByPath, error) {
	_, env, err := p.scratch.writeIndexFile(s.index)
	if err != nil {
		return nil, err
	}

	out, err := p.scratch.ask(ctx, env, nil, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "--abbrev=64", p.scratch.treeOf(commit))
	if err != nil {
		return nil, err
	}

	all := make(entriesByPath)
	for at, change := range parseRawDiff(out) {
		if change[1] == nil || s.entry(at) != nil { // otherwise git add -N made the entry
			all[at] = change[1]
		}
	}

	for _, e := range s.entries() {
		if e.Stage > 0 {
			all[e.Path] = &IndexEntry{Path: e.Path, Stage: e.Stage}
		}
	}

	return all, nil
}

// parseRawDiff parses the output of git diff --raw -z.
func parseRawDiff(out string) treeDiff {
	all := make(treeDiff)
	parts := strings.Split(out, "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		f := strings.Fields(strings.TrimPrefix(parts[i], ":"))
		if len(f) < 5 {
			break
		}

		entry := func(mode, id string) *IndexEntry {
			m, err := strconv.ParseUint(mode, 8, 32)
			if err != nil || m == 0 {
				return nil
			}
			return &IndexEntry{Path: parts[i+1], Mode: uint32(m), ID: id}
		}

		all[parts[i+1]] = [2]*IndexEntry{entry(f[0], f[2]), entry(f[1], f[3])}
	}

	return all
}

// isBare reports whether a repository has no working tree.
func (r *Repo) isBare() bool {
	return r.Dir == r.Common && r.setting("core.bare") == "true"
}

// newIndex returns the new index of the receiving side: the present one, changed by newEntries. It sets staleFiles.
func (p *indexPlan) newIndex(ctx context.Context) ([]byte, error) {
	var index []byte
	if len(p.ours.index) > 0 {
		index, p.staleFiles = smudgedCopy(p.ours.index, p.ours.entries(), p.ours.idLen, p.ours.indexMtime)
	}
	at, env, err := p.scratch.writeIndexFile(index)
	if err != nil {
		return nil, err
	}

	var info, skip strings.Builder
	done := make(map[string]bool)
	for _, e := range p.newEntries {
		done[e.Path] = true
		fmt.Fprintf(&info, "0 %s\t%s\x00", strings.Repeat("0", 2*p.ours.idLen), e.Path)
	}

	p.staleFiles = slices.DeleteFunc(p.staleFiles, func(at string) bool { return done[at] })
	for _, e := range p.newEntries {
		if e.Mode == 0 {
			continue
		}
		fmt.Fprintf(&info, "%o %s %d\t%s\x00", e.Mode, e.ID, e.Stage, e.Path)
		if e.Skip {
			fmt.Fprintf(&skip, "%s\x00", e.Path)
		} else {
			p.staleFiles = append(p.staleFiles, e.Path)
		}
	}

	if _, err := p.scratch.ask(ctx, env, strings.NewReader(info.String()), "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}

	if skip.Len() > 0 {
		if _, err := p.scratch.ask(ctx, append(env, "GIT_WORK_TREE="+p.scratch.gitDir), strings.NewReader(skip.String()), "update-index", "-z", "--skip-worktree", "--stdin"); err != nil {
			return nil, err
		}
	}

	return os.ReadFile(at)
}
