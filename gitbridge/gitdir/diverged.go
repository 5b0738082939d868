package gitdir

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Diverged is a branch that both sides moved: each has commits that the other has not.
type Diverged struct {
	Branch string `json:"branch"`
	Head   bool   `json:"head"`   // it is checked out
	Parked string `json:"parked"` // the branch that their commits get, or ours if theirs are preferred
	// Ahead and Behind are how many commits only their side has, and only the receiving side. Theirs
	// and Ours are the subjects of some.
	Ahead  int      `json:"ahead"`
	Behind int      `json:"behind"`
	Theirs []string `json:"theirs"`
	Ours   []string `json:"ours"`
	// Conflicts are the paths that a merge leaves in conflict, relative to the working tree or, in an
	// apply, to the directory. NoMerge is why there can be no merge.
	Conflicts []string `json:"conflicts,omitempty"`
	NoMerge   string   `json:"no_merge,omitempty"`

	ours, theirs string          // commits
	changes      map[string]bool // the paths that a merge changes
}

// Changes reports whether a merge changes a path.
func (d *Diverged) Changes(at string) bool { return d.changes[at] }

// describe finds what the ways to go on mean for each branch that both sides moved.
func (p *Plan) describe(ctx context.Context) error {
	for _, d := range p.refs.diverged {
		d.Ahead, d.Theirs = p.git.between(ctx, d.theirs, d.ours)
		d.Behind, d.Ours = p.git.between(ctx, d.ours, d.theirs)
		if d.Head = "ref: "+branches+d.Branch == p.ours.head; !d.Head || p.m.Ours.Work == "" {
			d.NoMerge = "it is not checked out"
			continue
		}
		if err := p.tryMerge(ctx, d); err != nil {
			return err
		}
	}
	p.Diverged = p.refs.diverged
	return nil
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

// moved returns the files that HEAD has otherwise when it becomes theirs, as it had them before. Those
// that a sparse checkout leaves out are none of them.
func (p *Plan) moved(ctx context.Context) (paths, error) {
	h := p.index.heads
	if h.was == h.to || h.to != h.theirs && !p.refs.preferred {
		return nil, nil
	}
	changed, err := p.git.diffTree(ctx, h.was, h.to)
	if err != nil {
		return nil, err
	}

	before := make(paths)
	for at, change := range changed {
		before[at] = change[0]
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

// tryMerge finds what a merge changes, and what is in its way: as for git merge, nothing may be
// staged, and no file that it changes may have changes that are not committed.
func (p *Plan) tryMerge(ctx context.Context, d *Diverged) error {
	if p.refs.head != "" {
		d.NoMerge = "another branch is checked out"
		return nil
	}
	if len(p.ours.unfinished) > 0 {
		d.NoMerge = strings.Join(p.ours.progress(), ", ") + " is in progress"
		return nil
	}
	tree, conflicts, err := p.git.merge(ctx, d.ours, d.theirs)
	if err != nil {
		d.NoMerge = err.Error()
		return ctx.Err()
	}
	changed, err := p.git.diffTree(ctx, d.ours, tree)
	if err != nil {
		return err
	}
	d.Conflicts, d.changes = conflicts, make(map[string]bool)
	for at := range changed {
		d.changes[at] = true
	}
	dirty, err := p.receiver.status(ctx)
	if err != nil {
		d.NoMerge = err.Error()
		return ctx.Err()
	}
	for _, at := range slices.Sorted(maps.Keys(dirty)) {
		if staged := dirty[at]; staged {
			d.NoMerge = at + " is staged"
		} else if d.changes[at] {
			d.NoMerge = at + " has changes that are not committed"
		}
	}
	return nil
}

// status returns the files of the working tree with changes that are not committed, and which of them
// are staged.
func (r receiver) status(ctx context.Context) (map[string]bool, error) {
	out, err := r.atWork(ctx, "status", "--porcelain", "-z", "--no-renames", "-uall", "--ignore-submodules=dirty")
	dirty := make(map[string]bool)
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if len(entry) > 3 {
			dirty[entry[3:]] = entry[0] != ' ' && entry[0] != '?'
		}
	}
	return dirty, err
}

// merge returns the tree of a merge of two commits, and the paths in conflict.
func (s *scratchRepo) merge(ctx context.Context, ours, theirs string) (tree string, conflicts []string, err error) {
	out, err := s.ask(ctx, nil, "", "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
	const inConflict = 1
	if err != nil && exitCode(err) != inConflict {
		return "", nil, err
	}
	names := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	return names[0], names[1:], nil
}

// A Resolution is what becomes of a path that a merge leaves in conflict.
type Resolution int

const (
	Unresolved Resolution = iota // there is no merge
	TakeOurs
	TakeTheirs
	WithMarkers // the merge is left to be completed
)

// Merge merges the branch with the commits of theirs into HEAD, as git merge does. left are paths
// that have conflict markers now.
func (p *Plan) Merge(ctx context.Context, resolve func(path string) Resolution) (left []string, err error) {
	i := slices.IndexFunc(p.Diverged, func(d *Diverged) bool { return d.Head && d.NoMerge == "" })
	if i < 0 {
		return nil, nil
	}
	d := p.Diverged[i]
	if _, err := p.receiver.atWork(ctx, "merge", "--no-edit", "--quiet", d.Parked); err != nil {
		if left, err = p.resolve(ctx, resolve, err); err != nil {
			_, _ = p.receiver.atWork(ctx, "merge", "--abort") // it may not have begun
			return nil, err
		}
	}
	if len(left) == 0 && p.ours.refs[branches+d.Parked] == "" {
		_, err = p.receiver.git(ctx, nil, nil, "update-ref", "-d", branches+d.Parked, d.theirs)
	}
	return left, err
}

// resolve decides the paths that a merge left in conflict, and commits it if none has markers. It
// returns failed if one is not decided.
func (p *Plan) resolve(ctx context.Context, resolve func(path string) Resolution, failed error) (left []string, err error) {
	out, err := p.receiver.atWork(ctx, "ls-files", "-u", "-z")
	if err != nil || len(out) == 0 {
		return nil, failed // it has not begun
	}
	stages := make(map[string]string)
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if head, at, ok := strings.Cut(entry, "\t"); ok {
			stages[at] += head[len(head)-1:]
		}
	}
	for _, at := range slices.Sorted(maps.Keys(stages)) {
		r := resolve(at)
		switch {
		case r == Unresolved:
			return nil, fmt.Errorf("%s is in conflict", at)
		case r == WithMarkers:
			left = append(left, at)
			continue
		}
		stage, option := "2", "--ours"
		if r == TakeTheirs {
			stage, option = "3", "--theirs"
		}
		calls := [][]string{{"rm", "--quiet", "--force", "--", at}}
		if strings.Contains(stages[at], stage) {
			calls = [][]string{{"checkout", "--quiet", option, "--", at}, {"add", "--force", "--", at}}
		}
		for _, args := range calls {
			if _, err := p.receiver.atWork(ctx, append([]string{"--literal-pathspecs"}, args...)...); err != nil {
				return nil, err
			}
		}
	}
	if len(left) == 0 {
		_, err = p.receiver.atWork(ctx, "commit", "--no-edit", "--quiet")
	}
	return left, err
}
