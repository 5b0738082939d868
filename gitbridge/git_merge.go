package gitbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/scratch"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A gitMerge merges the git directories of a state, theirs, into the git directories of the receiving side, which is
// a directory of the host or another state.
type gitMerge struct {
	ctx                context.Context
	git                gitdir.Git
	src                *tree.Source
	base, ours, theirs *tree.State
	name, side         string // of their side, in branches and in sentences
	byInode            bool   // a git directory with another inode than the base's is another repository
	rule               func(path string) threeway.Rule
	answers            mergeAnswers
	receivingSide

	said      []threeway.Repository
	conflicts []string // not decided
	temps     []*scratch.Dir
	err       error           // of at
	follows   map[string]bool // files that follow HEAD
	stay      map[string]bool // see gitdir.Plan.Stay
	unlinked  map[string]bool // see gitdir.Plan.Unlinked
}

// A receivingSide is the side that a merge changes: a workspace, or a directory of the host.
type receivingSide struct {
	here      func(at string) *tree.Inode // what it has at a path, nil for nothing
	receive   func(at string, base treeFiles) (*receiver, error)
	movedHere func(work string) []string // files in a working tree that are new or gone on this side
	// finish carries the plan of a repository out. It takes the files follow from theirs, and texts are the files
	// that git has merged.
	finish func(r *repoMerge, follow []string, texts map[string]gitdir.Text) error
}

// mergeAnswers are the user's answers to what both sides changed.
type mergeAnswers struct {
	merges  func(at string) bool // whether branches of a git directory that both sides moved are merged
	refuses bool                 // a branch that both sides moved is a conflict until the user decides about it
	resolve func(path string) gitdir.Resolution
	leaves  func(path string) bool // whether nothing changes at a path
}

// A receiver is a git directory of the receiving side. open sets the fields of a merge that belong to it.
type receiver struct {
	dir    string // where it is, if it lies elsewhere
	absent bool
	inLink bool // its path is below a `.git` file, so it would lie in another repository
	leave  bool // the merge does not change it, and does not report it
	copied bool // all its files are replaced by the files of theirs
	open   func(m *gitdir.Merge, work, temp string) error
}

// A repoMerge is the merge of one git directory.
type repoMerge struct {
	threeway.Repository
	plan *gitdir.Plan // nil for none
	work string       // the working tree, "" if it is not in the states
	left string       // a directory whose changes stay there, "" for none
}

// run plans the changes of git directories. It returns the changes that are files.
func (g *gitMerge) run(changes []tree.Change) (files []tree.Change, err error) {
	g.stay, g.unlinked, g.follows = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	dirs := gitDirs{g.src, g.base, g.theirs, make(map[string]bool)}
	of, roots := make(map[string][]tree.Change), []string(nil) // the changes of each git directory

	for _, c := range changes {
		at, err := dirs.innermost(c.Path.String())
		if err != nil {
			return nil, err
		}

		if at == "" {
			files = append(files, c)
			continue
		}
		if of[at] == nil {
			roots = append(roots, at)
		}
		of[at] = append(of[at], c)
	}

	for _, at := range roots {
		r := &repoMerge{Repository: threeway.Repository{Dir: at}}
		rest, err := g.planRepository(r, of[at])
		if err != nil {
			return nil, fmt.Errorf("the git directory %s: %w", at, err)
		}
		if files, err = g.planFiles(r, append(files, rest...)); err != nil {
			return nil, err
		}

		if len(r.Lines) > 0 {
			g.said = append(g.said, r.Repository)
		}
	}

	files, err = g.followRenames(g.withoutGone(files))
	return files, errors.Join(err, g.err)
}

// planRepository plans the merge of one git directory. It returns the changes that the merge of files takes: all of
// them, if only one side has the directory.
func (g *gitMerge) planRepository(r *repoMerge, changes []tree.Change) (files []tree.Change, err error) {
	at := r.Dir
	base, theirs := treeFiles{g.src, g.base, at, nil}, treeFiles{g.src, g.theirs, at, nil}
	hadOne, err := gitdir.Is(base)
	if err != nil {
		return nil, err
	}
	hasOne, err := gitdir.Is(theirs)
	if err != nil {
		return nil, err
	}

	to, err := g.receive(at, base)
	if err != nil {
		return nil, err
	}

	r.Target = to.dir
	switch {
	case to.inLink && !hadOne:
		r.left, _ = worktreeOf(theirs)
		r.Lines = []string{"a new repository in that of another place stays in " + g.side + ", with " + cmp.Or(r.left, "its files") + ": `git submodule update --init` makes it here"}
		return nil, nil
	case to.absent && (!hadOne || !hasOne):
		return changes, nil // it is new there, or gone on both sides
	case to.absent:
		r.Lines = []string{"there is no git directory here: what git did stays in " + g.side}
		return nil, nil
	case to.copied:
		return changes, nil
	case !hasOne:
		above, err := g.theirs.At(g.src, path.Dir(at))
		if err == nil && above == nil && path.Dir(at) != "." && to.dir == "" {
			return changes, nil // with the directory that it is in
		}
		r.Lines = []string{"the git directory is gone in " + g.side + ": this one stays as it is"}
		return nil, nil
	case to.leave:
		return nil, nil
	}

	m := &gitdir.Merge{Git: g.git, Base: base, Theirs: theirs, Name: g.name, Another: !hadOne || g.byInode && !sameInode(g.inodeAt(g.base, at), g.inodeAt(g.theirs, at))}
	if !hadOne {
		m.Base = nil
	} else if same, err := m.Same(); err != nil || same {
		return filesIn(at, changes, m, to), err
	}

	err = g.planMerge(r, m, theirs, to)
	if errors.Is(err, gitdir.ErrKind) {
		r.Lines = []string{"what git did stays in " + g.side + ": " + err.Error()}
		return nil, nil // the configuration says of which kind it is
	}

	return filesIn(at, changes, m, to), err
}

// planMerge has git plan a merge.
func (g *gitMerge) planMerge(r *repoMerge, m *gitdir.Merge, theirs treeFiles, to *receiver) error {
	if _, err := exec.LookPath("git"); err != nil {
		r.Lines = []string{"git is not installed: refs, commits and the index stay in " + g.side}
		return nil
	}

	if work, ok := worktreeOf(theirs); ok && !m.Another {
		r.work = work
	}

	merges := g.answers.merges(r.Dir)
	m.Prefer = func(branch string) bool { return !merges && g.rule(branchPath(r.Dir, branch)) == threeway.TakeTheirs }
	m.TheirFile = func(at string) *gitdir.File { return fileOf(g.src, g.inodeAt(g.theirs, path.Join(r.work, at))) }
	if merges {
		m.Resolve = func(at string) gitdir.Resolution { return g.answers.resolve(path.Join(r.work, at)) }
	}

	temp, err := scratch.New(scratch.Merge)
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}

	g.temps = append(g.temps, temp)
	if err := to.open(m, r.work, temp.Path); err != nil {
		return err
	}

	plan, err := m.Plan(g.ctx, filepath.Join(temp.Path, "plan"))
	if err != nil {
		return err
	}

	r.plan, r.Lines, r.Commits, r.Off = plan, plan.Lines, plan.Commits, plan.Off
	for _, d := range plan.Diverged {
		for i, at := range d.Conflicts {
			d.Conflicts[i] = path.Join(r.work, at)
		}
		r.Diverged = append(r.Diverged, &d.Diverged)
		if branch := branchPath(r.Dir, d.Branch); g.answers.refuses && !(merges && d.Head) && g.rule(branch) == threeway.RefuseConflicts {
			g.conflicts = append(g.conflicts, branch)
		}
	}

	for _, at := range plan.Unresolved {
		g.conflicts = append(g.conflicts, path.Join(r.work, at))
	}

	return nil
}

// branchPath is the path by which a choice names a branch.
func branchPath(dir, branch string) string { return dir + "/refs/heads/" + branch }

// planFiles plans the files of the working tree of a repository after the merge of the repository. It returns the
// changes that the merge of files takes.
func (g *gitMerge) planFiles(r *repoMerge, changes []tree.Change) ([]tree.Change, error) {
	changes = slices.DeleteFunc(changes, func(c tree.Change) bool {
		return r.left != "" && threeway.Under(c.Path.String(), map[string]bool{r.left: true}) != ""
	})
	if r.plan == nil {
		return changes, nil
	}
	if branch, why := r.plan.NotMerged(); why != "" {
		if r.work != "." { // a submodule has branches of the same names
			branch += " of " + cmp.Or(r.work, r.Dir)
		}
		return nil, errs.Fail(errs.Conflict, "%s is not merged: %s; nothing was changed", branch, why)
	}

	for _, id := range r.plan.Unlinked {
		g.unlinked[id] = true
	}
	for _, id := range r.plan.Stay {
		g.stay[id] = true
	}

	if r.plan.Parted && r.work != "" {
		var err error
		if changes, err = withoutCommitted(g.ctx, g.src, r.plan, r.work, changes); err != nil {
			return nil, err
		}
	}

	follow, err := r.plan.Follow(g.ctx, func(rel string, changed bool) bool { return g.isMerged(path.Join(r.work, rel), changed) })
	if err != nil {
		return nil, err
	}
	texts, err := r.plan.Texts(g.ctx)
	if err != nil {
		return nil, err
	}

	for i, rel := range follow {
		follow[i] = path.Join(r.work, rel)
		g.follows[follow[i]] = true
	}
	made := make(map[string]gitdir.Text)
	for rel, text := range texts {
		made[path.Join(r.work, rel)] = text
	}

	return changes, g.finish(r, follow, made)
}

// isMerged reports whether the merge of files brings a file that follows HEAD: one side has it as in the base, or
// as the other side. changed means that theirs has changes there that are not committed.
func (g *gitMerge) isMerged(at string, changed bool) bool {
	base, ours, theirs := g.inodeAt(g.base, at), g.here(at), g.inodeAt(g.theirs, at)
	other := func(n *tree.Inode) bool { return n != nil && !n.IsRegular() && !n.IsSymlink() }
	return other(ours) || other(theirs) || sameFile(g.src, base, ours) || sameFile(g.src, ours, theirs) || changed && sameFile(g.src, base, theirs)
}

// inodeAt returns the entry of a state at a path, nil for none. It records an error in g.err.
func (g *gitMerge) inodeAt(st *tree.State, at string) *tree.Inode {
	n, err := treeFiles{g.src, st, at, nil}.lookup(".")
	g.err = errors.Join(g.err, err)
	return n
}

// sameInode reports whether two inodes have one number.
func sameInode(a, b *tree.Inode) bool { return a != nil && b != nil && a.Ino == b.Ino }

// withoutGone leaves out the changes of working trees that one side has removed, and that stay on the other.
func (g *gitMerge) withoutGone(changes []tree.Change) []tree.Change {
	gone := make(map[string]bool) // by directory
	return slices.DeleteFunc(changes, func(c tree.Change) bool {
		for dir := c.Path; dir != nil; dir = dir.Dir {
			at := dir.String()
			is, known := gone[at]
			if !known {
				is = g.isGone(at)
				gone[at] = is
			}
			if is {
				return true
			}
		}
		return false
	})
}

// isGone reports whether a directory of the base is a working tree that one side has removed, and that stays
// on the other side. It says so. A repository that the receiving side has removed is no such one: its files are
// in conflict if they changed there.
func (g *gitMerge) isGone(dir string) bool {
	file := path.Join(dir, ".git")
	if g.inodeAt(g.base, file) == nil {
		return false
	}

	text, _ := treeFiles{g.src, g.base, dir, nil}.Read(".git") // a git directory has no text
	link := strings.TrimSpace(string(text))
	id, line := path.Base(link), ""

	switch here, there := g.here(file) != nil, g.inodeAt(g.theirs, file) != nil; {
	case there && !here && path.Base(path.Dir(link)) == "worktrees":
		line = "the working tree is gone here: what changed in it stays in " + g.side
	case here && !there && (g.stay[id] || !g.unlinked[id] && g.inodeAt(g.theirs, dir) == nil && g.changedHere(dir, link)):
		line = "the working tree is gone in " + g.side + ": this one stays, as it changed"
	default:
		return false
	}
	g.said = append(g.said, threeway.Repository{Dir: file, Lines: []string{line}})

	return true
}

// changedHere reports whether the receiving side has changed a directory of the base, or the HEAD of the git directory
// in the states that its `.git` names.
func (g *gitMerge) changedHere(dir, link string) bool {
	_, head, _ := threeway.InGit(link + "/HEAD")
	for at := dir; at != "."; {
		at = path.Dir(at)
		file := path.Join(at, ".git", head)
		if was := g.inodeAt(g.base, file); was != nil && was.IsRegular() && !sameFile(g.src, was, g.here(file)) {
			return true
		}
	}

	same, err := Unchanged(g.ctx, g.src, g.base, g.ours, true, dir)
	g.err = errors.Join(g.err, err)
	return !same
}

// filesIn returns the changes of ordinary files in a git directory, such as its configuration. It returns none if the
// receiver lies outside of the directory, or if theirs is another repository. Objects of Git LFS are only added.
func filesIn(at string, changes []tree.Change, m *gitdir.Merge, to *receiver) (files []tree.Change) {
	if to.dir != "" || m.Another {
		return nil
	}

	for _, c := range changes {
		rel, below := strings.CutPrefix(c.Path.String(), at+"/")
		if below && gitdir.IsFile(rel) && (c.Before == nil || !gitdir.IsLFS(rel)) {
			files = append(files, c)
		}
	}

	return files
}

// close removes what the plans have made.
func (g *gitMerge) close() {
	for _, temp := range g.temps {
		_ = temp.Remove() // else another process does
	}
}
