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
	m     *Merge
	git   *scratchRepo
	heads heads
	delta []IndexEntry // the entries to set; Mode 0 removes a path
	stale []string     // paths for which the new index has no times and sizes of files
}

// heads are the commits of HEAD: of the base, of theirs, and of the receiving side before (was) and after the merge
// (to).
type heads struct{ base, theirs, was, to string }

// paths are entries of an index or of a tree by their paths; nil means that the path does not exist.
type paths map[string]*IndexEntry

// decide sets the new index of the receiving side:
//
//  1. If HEAD does not move, and theirs has not changed its index, the index stays.
//  2. If HEAD and the index of the receiving side equal the base, and HEAD moves to the HEAD of theirs, the index
//     becomes the index of theirs.
//  3. Otherwise each path that the move of HEAD changes gets the entry in the new HEAD. Each other path keeps its
//     entry, or gets the entry of theirs if only theirs has changed the entry.
func (p *indexPlan) decide(ctx context.Context) error {
	o, t, b := p.ours, p.theirs, p.base
	if p.heads.was == p.heads.to && b.sameIndex(t) && p.heads.base == p.heads.theirs || len(o.index) == 0 && len(t.index) == 0 || p.m.Ours.bare() {
		return nil
	}
	if err := p.readSplit(ctx); err != nil {
		return err
	}

	if o.sameIndex(b) && p.heads.was == p.heads.base && p.heads.to == p.heads.theirs && p.hasNoOther() {
		p.delta = differ(o.entries(), t.entries())
		return nil
	}

	moved, err := p.git.diffTree(ctx, p.heads.was, p.heads.to)
	if err != nil {
		return err
	}

	wanted := make(paths)
	for at, change := range moved {
		wanted[at] = change[1]
		if e := o.entry(at); e != nil && change[1] != nil && e.same(*change[1]) {
			delete(wanted, at)
		}
	}

	if err := p.stagedBy(ctx, wanted); err != nil {
		return err
	}

	sparse := p.takesSparse()
	for _, e := range t.entries() {
		if now := o.entry(e.Path); sparse && now != nil && now.Skip != e.Skip {
			if _, decided := wanted[e.Path]; !decided {
				wanted[e.Path] = now
			}
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

		p.delta = append(p.delta, n)
	}

	slices.SortFunc(p.delta, func(a, b IndexEntry) int { return strings.Compare(a.Path, b.Path) })

	return nil
}

// takesSparse reports whether the receiving side gets the sparse checkout of theirs.
func (p *indexPlan) takesSparse() bool {
	return p.base.sameSparse(p.ours) && (p.heads.to == p.heads.theirs || p.heads.theirs == p.heads.base)
}

// stagedBy adds to wanted the entries that theirs has staged or unstaged since the base.
func (p *indexPlan) stagedBy(ctx context.Context, wanted paths) error {
	theirs, err := p.staged(ctx, p.theirs, p.heads.theirs)
	if err != nil {
		return err
	}

	base, err := p.staged(ctx, p.base, p.heads.base)
	if err != nil {
		return err
	}

	ours, err := p.staged(ctx, p.ours, p.heads.was)
	if err != nil {
		return err
	}

	apart, err := p.git.diffTree(ctx, p.heads.theirs, p.heads.to)
	if err != nil {
		return err
	}

	fits := func(at string) bool { // at a path, the new HEAD equals the HEAD of theirs, and no other file is in the way
		_, differs := apart[at]
		return !differs && !p.ours.blocked(at, wanted)
	}

	for at, t := range theirs {
		b, wasStaged := base[at]
		o, ourStaged := ours[at]
		switch {
		case wasStaged && equalEntries(b, t): // theirs has staged nothing since the base
		case ourStaged && !(wasStaged && equalEntries(o, b)) || unmerged(t):
		case fits(at):
			wanted[at] = t
		}
	}

	if p.ours.progress() != "" { // an operation in progress, such as a rebase, needs its staged paths
		return nil
	}
	for at, b := range base { // look for paths that theirs has unstaged
		_, still := theirs[at]
		o, ourStaged := ours[at]
		if still || !ourStaged || !equalEntries(o, b) || unmerged(o) {
			continue
		}
		if _, decided := wanted[at]; decided {
			continue
		}

		committed, err := p.git.entryOf(ctx, p.heads.theirs, at)
		if err != nil {
			return err
		}
		if equalEntries(committed, b) { // theirs has committed the entry, and HEAD may not get the commit
			continue
		}
		if wanted[at], err = p.git.entryOf(ctx, p.heads.to, at); err != nil {
			return err
		}
	}

	return nil
}

func unmerged(e *IndexEntry) bool { return e != nil && e.Stage > 0 }

func equalEntries(a, b *IndexEntry) bool {
	return a == nil && b == nil || a != nil && b != nil && a.same(*b)
}

// blocked reports whether the index, changed by wanted, has a file above a path, or the index has entries below it.
func (s *state) blocked(at string, wanted paths) bool {
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
	return &s.list[i]
}

// differ returns the entries that turn the index from into the index to. For each path that differs, these are all
// entries of to, or an entry with Mode 0 if to does not have the path.
func differ(from, to []IndexEntry) (out []IndexEntry) {
	for len(from)+len(to) > 0 {
		at := ""
		if len(to) == 0 || len(from) > 0 && from[0].Path < to[0].Path {
			at = from[0].Path
		} else {
			at = to[0].Path
		}

		was, is := stages(&from, at), stages(&to, at)
		switch {
		case slices.EqualFunc(was, is, IndexEntry.same):
		case len(is) == 0:
			out = append(out, IndexEntry{Path: at})
		default:
			out = append(out, is...)
		}
	}

	return out
}

// stages removes the entries of a path from the beginning of entries, and returns them. A path in conflict has up to
// three entries.
func stages(entries *[]IndexEntry, at string) []IndexEntry {
	n := 0
	for n < len(*entries) && (*entries)[n].Path == at {
		n++
	}
	all := (*entries)[:n]
	*entries = (*entries)[n:]
	return all
}

// readSplit has git convert the indexes that this package cannot read. Errors: ErrKind.
func (p *indexPlan) readSplit(ctx context.Context) error {
	for _, s := range []*state{p.ours, p.theirs, p.base} {
		if s.parse() == nil {
			continue
		}
		if err := p.unsplit(ctx, s); err != nil {
			return fmt.Errorf("%w: %w", ErrKind, err)
		}
	}
	return nil
}

// unsplit has git join a split index with its shared part, and reads the result.
func (p *indexPlan) unsplit(ctx context.Context, s *state) error {
	files := map[*state]Files{p.ours: p.m.Ours, p.theirs: p.m.Theirs, p.base: p.m.Base}[s]
	names, err := files.List(".")
	if err != nil {
		return err
	}

	for _, n := range names {
		if strings.HasPrefix(n.Name, "sharedindex.") {
			if err := saveTo(files, n.Name, filepath.Join(p.git.dir, n.Name), &limitedWriter{rest: largeFile}); err != nil && !os.IsExist(err) {
				return err
			}
		}
	}

	at, err := p.indexFile(s)
	if err == nil {
		_, err = p.git.ask(ctx, []string{"GIT_INDEX_FILE=" + at}, nil, "update-index", "--no-split-index")
	}
	if err != nil {
		return err
	}

	s.index, err = os.ReadFile(at)
	if s.parsed = false; err != nil {
		return err
	}

	return s.parse()
}

// indexFile writes an index to a file of the scratch repository, and returns the path of the file.
func (p *indexPlan) indexFile(s *state) (string, error) {
	name := map[*state]string{p.ours: "ours", p.theirs: "theirs", p.base: "base"}[s]
	at := filepath.Join(p.git.dir, name+"-index")
	if len(s.index) == 0 {
		return at, nil // git takes a missing index for an empty one
	}
	return at, os.WriteFile(at, s.index, 0o600)
}

// staged returns the entries of an index that differ from a commit. An entry of a path in conflict has a stage.
func (p *indexPlan) staged(ctx context.Context, s *state, commit string) (paths, error) {
	at, err := p.indexFile(s)
	if err != nil {
		return nil, err
	}

	out, err := p.git.ask(ctx, []string{"GIT_INDEX_FILE=" + at}, nil, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "--abbrev=64", p.git.tree(commit))
	if err != nil {
		return nil, err
	}

	all := make(paths)
	for at, change := range parseRaw(out) {
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

// parseRaw parses the output of git diff --raw -z. It returns for each path the entries before and after, nil for
// none.
func parseRaw(out string) map[string][2]*IndexEntry {
	all := make(map[string][2]*IndexEntry)
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

// bare reports whether a repository has no working tree.
func (r *Repo) bare() bool {
	return r.Dir == r.Common && r.setting("core.bare") == "true"
}

// newIndex returns the new index of the receiving side, which is the present one changed by delta. It sets stale.
func (p *indexPlan) newIndex(ctx context.Context) ([]byte, error) {
	at := filepath.Join(p.git.dir, "new-index")
	_ = os.Remove(at) // an earlier call may have left the file

	if len(p.ours.index) > 0 {
		var index []byte
		index, p.stale = smudged(p.ours.index, p.ours.idLen, p.ours.indexMtime)
		if err := os.WriteFile(at, index, 0o600); err != nil {
			return nil, err
		}
	}

	env := []string{"GIT_INDEX_FILE=" + at}
	var info, skip strings.Builder
	zero := strings.Repeat("0", 2*p.ours.idLen)
	done := make(map[string]bool)
	for _, e := range p.delta {
		if !done[e.Path] {
			done[e.Path] = true
			fmt.Fprintf(&info, "0 %s\t%s\x00", zero, e.Path)
		}
	}

	p.stale = slices.DeleteFunc(p.stale, func(at string) bool { return done[at] })
	for _, e := range p.delta {
		if e.Mode == 0 {
			continue
		}
		fmt.Fprintf(&info, "%o %s %d\t%s\x00", e.Mode, e.ID, e.Stage, e.Path)
		if e.Skip {
			fmt.Fprintf(&skip, "%s\x00", e.Path)
		} else {
			p.stale = append(p.stale, e.Path)
		}
	}

	if _, err := p.git.ask(ctx, env, strings.NewReader(info.String()), "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}

	if skip.Len() > 0 {
		if _, err := p.git.ask(ctx, append(env, "GIT_WORK_TREE="+p.git.dir), strings.NewReader(skip.String()), "update-index", "-z", "--skip-worktree", "--stdin"); err != nil {
			return nil, err
		}
	}

	return os.ReadFile(at)
}
