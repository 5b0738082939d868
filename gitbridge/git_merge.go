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
	"github.com/amberfs/amberfs/hostdir"
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
	name, side         string // of their side: its name in the names of branches, and in sentences
	byInode            bool   // a git directory whose inode number differs from that in the base is another repository
	rule               func(path string) threeway.Rule
	answers            mergeAnswers
	receivingSide

	said      []threeway.Repository
	conflicts []string // paths in conflict that no rule decides
	temps     []*scratch.Dir
	err       error           // errors of inodeAt and here
	follows   map[string]bool // files that follow HEAD
	stay      map[string]bool // ids of linked working trees that only one side has removed, see gitdir.Plan.Stay
	unlinked  map[string]bool // ids of linked working trees that git removed on their side, see gitdir.Plan.Unlinked
}

// A receivingSide is the side that a merge changes: a workspace, or a directory of the host.
type receivingSide struct {
	here      func(at string) *tree.Inode                        // the entry of this side at a path, nil for none
	receive   func(at string, base treeFiles) (*receiver, error) // the git directory of this side at a path
	movedHere func(work string) []string                         // paths of the files that this side added or removed in a working tree
	// finish carries out the plan of a repository. follow are the paths of the files that it takes from theirs, and
	// texts are the files that git has merged.
	finish func(r *repoMerge, follow []string, texts map[string]gitdir.MergedFile) error
}

// mergeAnswers are the user's decisions about changes of both sides.
type mergeAnswers struct {
	merges  func(at string) bool // whether branches of a git directory that both sides moved are merged
	refuses bool                 // a branch that both sides moved is a conflict until the user decides about it
	resolve func(path string) gitdir.Resolution
	leaves  func(path string) bool // whether the receiving side keeps a path as it is
}

// A receiver is a git directory of the receiving side. open sets the fields of a gitdir.Merge that describe ours.
type receiver struct {
	dir    string // its path if it lies outside of the receiving directory, otherwise ""
	absent bool   // the receiving side has no git directory at the path, or an untrusted one
	inLink bool   // its path is below a `.git` file, so it would lie in another repository
	leave  bool   // the merge does not change it, and does not report it
	copied bool   // all its files are replaced by the files of theirs
	open   func(m *gitdir.Merge, work, temp string) error

	untrusted *gitdir.Link // the git directory to which a `.git` file at the path leads, if that is not trusted
}

// A repoMerge is the merge of one git directory.
type repoMerge struct {
	threeway.Repository
	plan *gitdir.Plan // nil for none
	work string       // the working tree, "" if it is not in the states
	left string       // a directory whose changes are not merged, "" for none
}

// run plans the changes in git directories. It returns the changes that the merge of files takes.
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
	hadOne, err := gitdir.IsGitDir(base)
	if err != nil {
		return nil, err
	}
	hasOne, err := gitdir.IsGitDir(theirs)
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
		return changes, nil // theirs has added the git directory, or both sides have removed it
	case to.untrusted != nil:
		r.Lines = []string{fmt.Sprintf("what git did stays in %s: .git names the repository %s, %s (%s; then apply again)", g.side, to.untrusted.Dir, hostdir.ErrNotBack, remedyFor(to.untrusted))}
		return nil, nil
	case to.absent:
		r.Lines = []string{"there is no git directory here: what git did stays in " + g.side}
		return nil, nil
	case to.copied:
		return changes, nil
	case !hasOne:
		above, err := g.theirs.At(g.src, path.Dir(at))
		if err == nil && above == nil && path.Dir(at) != "." && to.dir == "" {
			return changes, nil // theirs has removed the directory around the git directory, too
		}
		r.Lines = []string{"the git directory is gone in " + g.side + ": this one stays as it is"}
		return nil, nil
	case to.leave:
		return nil, nil
	}

	m := &gitdir.Merge{Git: g.git, Base: base, Theirs: theirs, Name: g.name, IsOtherRepo: !hadOne || g.byInode && !sameInode(g.inodeAt(g.base, at), g.inodeAt(g.theirs, at))}
	if !hadOne {
		m.Base = nil
	} else if same, err := m.Same(); err != nil || same {
		return filesIn(at, changes, m, to), err
	}

	err = g.planMerge(r, m, theirs, to)
	if errors.Is(err, gitdir.ErrUnsupported) {
		r.Lines = []string{"what git did stays in " + g.side + ": " + err.Error()}
		return nil, nil // no file is merged: the configuration of theirs declares the kind of its git directory
	}

	return filesIn(at, changes, m, to), err
}

// planMerge plans a merge with package gitdir, and sets the fields of r.
func (g *gitMerge) planMerge(r *repoMerge, m *gitdir.Merge, theirs treeFiles, to *receiver) error {
	if _, err := exec.LookPath("git"); err != nil {
		r.Lines = []string{"git is not installed: refs, commits and the index stay in " + g.side}
		return nil
	}

	if work, ok := worktreeOf(theirs); ok && !m.IsOtherRepo {
		r.work = work
	}

	merges := g.answers.merges(r.Dir)
	m.PreferTheirs = func(branch string) bool { return !merges && g.rule(branchPath(r.Dir, branch)) == threeway.TakeTheirs }
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

	r.plan, r.Lines, r.Commits, r.Off = plan, plan.Lines, plan.NewCommits, plan.DroppedCommits
	for _, d := range plan.DivergedBranches {
		for i, at := range d.Conflicts {
			d.Conflicts[i] = path.Join(r.work, at)
		}
		r.Diverged = append(r.Diverged, &d.Diverged)
		if branch := branchPath(r.Dir, d.Branch); g.answers.refuses && !(merges && d.Head) && g.rule(branch) == threeway.RefuseConflicts {
			g.conflicts = append(g.conflicts, branch)
		}
	}

	for _, at := range plan.UnresolvedPaths {
		g.conflicts = append(g.conflicts, path.Join(r.work, at))
	}

	return nil
}

// branchPath returns the path by which rules and choices name a branch.
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
		if r.work != "." { // a submodule can have branches of the same names
			branch += " of " + cmp.Or(r.work, r.Dir)
		}
		return nil, errs.Fail(errs.Conflict, "%s is not merged: %s; nothing was changed", branch, why)
	}

	for _, id := range r.plan.RemovedWorktrees {
		g.unlinked[id] = true
	}
	for _, id := range r.plan.KeptWorktrees {
		g.stay[id] = true
	}

	if r.plan.CheckoutDiffers && r.work != "" {
		var err error
		if changes, err = withoutCommitted(g.ctx, g.src, r.plan, r.work, changes); err != nil {
			return nil, err
		}
	}

	follow, err := r.plan.FollowingFiles(g.ctx, func(rel string, changed bool) bool { return g.isMerged(path.Join(r.work, rel), changed) })
	if err != nil {
		return nil, err
	}
	texts, err := r.plan.MergedFiles(g.ctx)
	if err != nil {
		return nil, err
	}

	for i, rel := range follow {
		follow[i] = path.Join(r.work, rel)
		g.follows[follow[i]] = true
	}
	made := make(map[string]gitdir.MergedFile)
	for rel, text := range texts {
		made[path.Join(r.work, rel)] = text
	}

	return changes, g.finish(r, follow, made)
}

// isMerged reports whether the merge of files decides about a file that could follow HEAD, see gitdir.Plan.Follow:
//
//   - ours has the file as in the base, or as in theirs;
//   - theirs has the file as in the base, with changes that are not committed (changed);
//   - or one side has another kind of entry at the path, such as a directory.
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

// sameInode reports whether two inodes have the same number.
func sameInode(a, b *tree.Inode) bool { return a != nil && b != nil && a.Ino == b.Ino }

// withoutGone leaves out the changes in working trees that one side has removed and the other side keeps.
func (g *gitMerge) withoutGone(changes []tree.Change) []tree.Change {
	gone := make(map[string]bool) // results of isGone, by directory
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

// isGone reports whether a directory of the base is a working tree that one side has removed and the other side
// keeps. If so, it adds a line to g.said. It returns false if the receiving side has removed a repository that is not
// a linked working tree: files that theirs changed in it are in conflict.
func (g *gitMerge) isGone(dir string) bool {
	file := path.Join(dir, ".git")
	if g.inodeAt(g.base, file) == nil {
		return false
	}

	text, _ := treeFiles{g.src, g.base, dir, nil}.Read(".git") // no text if .git is a directory
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

// changedHere reports whether the receiving side has changed the working tree dir of the base, or the HEAD of its git
// directory if that lies in the states. link is the text of dir/.git.
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
// receiver lies outside of the receiving directory, or if theirs is another repository. Of the changes of Git LFS
// objects, it returns only additions.
func filesIn(at string, changes []tree.Change, m *gitdir.Merge, to *receiver) (files []tree.Change) {
	if to.dir != "" || m.IsOtherRepo {
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

// close removes the temporary directories of the plans.
func (g *gitMerge) close() {
	for _, temp := range g.temps {
		_ = temp.Remove() // after an error, another process removes the directory later
	}
}
