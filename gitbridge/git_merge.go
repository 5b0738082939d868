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
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A gitMerge merges the git directories of a state, theirs, into the git directories of the receiving side, which is
// a directory of the host or another state.
type gitMerge struct {
	ctx                    context.Context
	git                    gitdir.Git
	src                    *tree.Source
	base, ours, theirs     *tree.State
	theirName, theirPhrase string // the name of their side in the names of branches, and in sentences
	fromDirectory          bool   // theirs is a directory; if not, a git directory with another inode number than in the base is another repository
	rule                   func(path string) threeway.Rule
	answers                mergeAnswers
	receivingSide

	out              threeway.GitOutcome
	leftOut          []threeway.Repository // git directories, and working trees, of which nothing is merged
	tempDirs         []*scratch.Dir
	err              error    // the errors that inodeAt and entryAt recorded
	keptWorktrees    []string // ids of linked working trees that only one side has removed, see gitdir.Plan.KeptWorktrees
	removedWorktrees []string // ids of linked working trees that git removed on their side, see gitdir.Plan.RemovedWorktrees
}

// A receivingSide is the side that a merge changes: a workspace, or a directory of the host.
type receivingSide struct {
	entryAt        func(path string) *tree.Inode                                     // the entry of this side at a path, nil for none
	findReceiver   func(path string, base treeFiles, inBase bool) (*receiver, error) // the git directory of this side at a path. inBase: base is one
	addedOrRemoved func(worktree string) []string                                    // paths of the files that this side added or removed in a working tree
	carryOut       func(r *repoMerge) error                                          // carries out the plan of a repository
}

// mergeAnswers are the user's decisions about changes of both sides.
type mergeAnswers struct {
	mergesBranches    func(path string) bool // whether branches of a git directory that both sides moved are merged
	asksAboutBranches bool                   // a branch that both sides moved is a conflict until the user decides about it
	resolveConflict   func(path string) gitdir.Resolution
	keepsPath         func(path string) bool // whether the receiving side keeps a path as it is
}

// A receiver is a git directory of the receiving side. open sets the fields of a gitdir.Merge that describe ours.
type receiver struct {
	outsideDir       string // its path if it lies outside of the receiving directory, otherwise ""
	absent           bool   // the receiving side has no git directory at the path, or an untrusted one
	isBelowNonDirGit bool   // its path is below a `.git` file, so it would lie in another repository
	isKept           bool   // the merge does not change it, and does not report it
	isReplaced       bool   // all its files are replaced by the files of theirs
	open             func(m *gitdir.Merge, worktree, temp string) error

	untrusted *gitdir.Link // the git directory to which a `.git` file at the path leads; nil if it is trusted
}

// A repoMerge is the merge of one git directory.
type repoMerge struct {
	threeway.Repository
	plan       *gitdir.Plan // nil for none
	worktree   string       // the path of the working tree, "" if it is not in the states
	skippedDir string       // the path of a directory whose changes are not merged, "" for none
	isLeftOut  bool         // nothing that git did is merged
}

func (r *repoMerge) leaveOut(why string) { r.Lines, r.isLeftOut = []string{why}, true }

// planAll plans the changes in git directories, and sets g.out.
func (g *gitMerge) planAll(changes []tree.Change) error {
	dirs := gitDirs{g.src, g.base, g.theirs, make(map[string]bool)}
	changesOf, roots, files := make(map[string][]tree.Change), []string(nil), []tree.Change(nil) // changesOf are the changes of each git directory

	for _, c := range changes {
		name := c.Path.String()
		if (c.Before == nil || !c.Before.IsDir()) && (c.After == nil || !c.After.IsDir()) {
			name = name[:max(0, strings.LastIndexByte(name, '/'))] // a file is no git directory
		}
		at, err := dirs.innermost(name)
		if err != nil {
			return err
		}

		if at == "" {
			files = append(files, c)
			continue
		}
		if changesOf[at] == nil {
			roots = append(roots, at)
		}
		changesOf[at] = append(changesOf[at], c)
	}

	for _, at := range roots {
		r := &repoMerge{Repository: threeway.Repository{Dir: at}}
		rest, err := g.planRepository(r, changesOf[at])
		if err != nil {
			return fmt.Errorf("the git directory %s: %w", at, err)
		}
		if files, err = g.planFiles(r, append(files, rest...)); err != nil {
			return err
		}

		if len(r.Lines) > 0 {
			g.out.Repositories = append(g.out.Repositories, r.Repository)
		}
		if r.isLeftOut {
			g.leftOut = append(g.leftOut, r.Repository)
		}
	}
	files, err := g.followRenames(g.withoutRemoved(files))
	if g.fromDirectory && len(g.leftOut) > 0 && err == nil {
		// A refresh makes the state of the directory the next base. In it, refs and files that did not come would look as if
		// the workspace had removed them, and an apply would remove them in the directory. So the client sends the directory
		// again without these paths, and the base keeps what it has there.
		err = errs.Fail(errs.Conflict, "%s: %s; nothing was changed", g.leftOut[0].Dir, g.leftOut[0].Lines[0]).WithResult(map[string]any{"git": g.leftOut})
	}

	planned := make(map[string]bool)
	for _, at := range g.out.TakenPaths {
		planned[at] = true
	}
	for _, e := range g.out.Edits {
		planned[e.Path] = true
	}

	g.out.Changes = slices.DeleteFunc(files, func(c tree.Change) bool { return planned[c.Path.String()] })
	// Removals come first, because a removed file may be at the path of a new directory.
	slices.SortStableFunc(g.out.Edits, func(a, b threeway.Edit) int {
		return cmp.Compare(map[bool]int{true: 1}[a.Open != nil], map[bool]int{true: 1}[b.Open != nil])
	})

	return errors.Join(err, g.err)
}

// planRepository plans the merge of one git directory. It returns the changes that are left to the merge of
// files: all of them, if only one side has the git directory.
func (g *gitMerge) planRepository(r *repoMerge, changes []tree.Change) (files []tree.Change, err error) {
	at := r.Dir
	base, theirs := treeFiles{g.src, g.base, at, nil}, treeFiles{g.src, g.theirs, at, nil}
	inBase, err := gitdir.IsGitDir(base)
	inTheirs, terr := gitdir.IsGitDir(theirs)
	if err = errors.Join(err, terr); err != nil {
		return nil, err
	}
	to, err := g.findReceiver(at, base, inBase)
	if err != nil {
		return nil, err
	}

	r.Target = to.outsideDir
	switch {
	case to.isBelowNonDirGit && !inBase:
		r.skippedDir, _ = worktreeOf(theirs)
		r.Lines = []string{"a new repository in that of another place stays in " + g.theirPhrase + ", with " + cmp.Or(r.skippedDir, "its files") + ": `git submodule update --init` makes it here"}
		return nil, nil
	case to.absent && (!inBase || !inTheirs):
		return changes, nil // theirs has added the git directory, or both sides have removed it
	case to.untrusted != nil:
		r.Lines = []string{fmt.Sprintf("what git did stays in %s: .git names the repository %s, %s (%s; then apply again)", g.theirPhrase, to.untrusted.Dir, hostdir.ErrNoBackLink, remedyFor(to.untrusted))}
		return nil, nil
	case to.absent:
		r.leaveOut("there is no git directory here: what git did stays in " + g.theirPhrase)
		return nil, nil
	case to.isReplaced:
		return changes, nil
	case !inTheirs:
		above, err := g.theirs.InodeAt(g.src, path.Dir(at))
		if err != nil {
			return nil, err
		}
		if (above == nil || !above.IsDir()) && to.outsideDir == "" {
			return changes, nil // theirs has removed or replaced the whole directory that contained the git directory
		}
		r.leaveOut("the git directory is gone in " + g.theirPhrase + ": this one stays as it is")
		return nil, nil
	case to.isKept:
		return nil, nil
	}

	m := &gitdir.Merge{Git: g.git, Base: base, Theirs: theirs, Name: g.theirName, IsOtherRepo: !inBase || !g.fromDirectory && !sameInode(g.inodeAt(g.base, at), g.inodeAt(g.theirs, at))}
	if !inBase {
		m.Base = nil
	} else if same, err := m.Same(); err != nil || same {
		return filesIn(at, changes, m, to), err
	}

	err = g.planMerge(r, m, theirs, to)
	if errors.Is(err, gitdir.ErrUnsupported) {
		r.leaveOut("what git did stays in " + g.theirPhrase + ": " + err.Error())
		// No file of the git directory is merged either: the configuration of theirs may declare a kind of git
		// directory that ours is not.
		return nil, nil
	}

	return filesIn(at, changes, m, to), err
}

// planMerge plans a merge with package gitdir, and sets the fields of r.
func (g *gitMerge) planMerge(r *repoMerge, m *gitdir.Merge, theirs treeFiles, to *receiver) error {
	if _, err := exec.LookPath("git"); err != nil {
		r.leaveOut("git is not installed: refs, commits and the index stay in " + g.theirPhrase)
		return nil
	}

	if work, ok := worktreeOf(theirs); ok && !m.IsOtherRepo {
		r.worktree = work
	}

	merges := g.answers.mergesBranches(r.Dir)
	m.PreferTheirs = func(branch string) bool { return !merges && g.rule(branchPath(r.Dir, branch)) == threeway.TakeTheirs }
	m.TheirFile = func(at string) *gitdir.File { return fileOf(g.src, g.inodeAt(g.theirs, path.Join(r.worktree, at))) }
	if merges {
		m.Resolve = func(at string) gitdir.Resolution { return g.answers.resolveConflict(path.Join(r.worktree, at)) }
	}

	temp, err := scratch.New(scratch.Merge)
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}

	g.tempDirs = append(g.tempDirs, temp)
	if err := to.open(m, r.worktree, temp.Path); err != nil {
		return err
	}

	plan, err := m.Plan(g.ctx, filepath.Join(temp.Path, "plan"))
	if err != nil {
		return err
	}
	if g.fromDirectory && plan.LacksObjects() {
		return fmt.Errorf("%w: objects of its refs are missing", gitdir.ErrUnsupported)
	}

	r.plan, r.Lines, r.Commits, r.DroppedCommits = plan, plan.Lines, plan.NewCommits, plan.DroppedCommits
	for _, d := range plan.DivergedBranches {
		for i, at := range d.Conflicts {
			d.Conflicts[i] = path.Join(r.worktree, at)
		}
		r.Diverged = append(r.Diverged, &d.Diverged)
		if branch := branchPath(r.Dir, d.Branch); g.answers.asksAboutBranches && !(merges && d.Head) && g.rule(branch) == threeway.RefuseConflicts {
			g.out.Conflicts = append(g.out.Conflicts, branch)
		}
	}

	for _, at := range plan.UnresolvedPaths {
		g.out.Conflicts = append(g.out.Conflicts, path.Join(r.worktree, at))
	}

	return nil
}

// branchPath returns the path by which rules and choices name a branch.
func branchPath(dir, branch string) string { return dir + "/refs/heads/" + branch }

// planFiles plans the files of the working tree of a repository after the merge of the repository. It returns
// the changes that are left to the merge of files.
func (g *gitMerge) planFiles(r *repoMerge, changes []tree.Change) ([]tree.Change, error) {
	changes = slices.DeleteFunc(changes, func(c tree.Change) bool {
		return r.skippedDir != "" && naming.IsUnder(c.Path.String(), r.skippedDir)
	})
	if r.plan == nil {
		return changes, nil
	}
	if branch, why := r.plan.NotMerged(); why != "" {
		if r.worktree != "." { // the message also names the submodule, because branches of different repositories can have equal names
			branch += " of " + cmp.Or(r.worktree, r.Dir)
		}
		return nil, errs.Fail(errs.Conflict, "%s is not merged: %s; nothing was changed", branch, why)
	}

	g.removedWorktrees, g.keptWorktrees = append(g.removedWorktrees, r.plan.RemovedWorktrees...), append(g.keptWorktrees, r.plan.KeptWorktrees...)
	if r.plan.CheckoutDiffers && r.worktree != "" {
		var err error
		if changes, err = withoutCommitted(g.ctx, g.src, r.plan, r.worktree, changes); err != nil {
			return nil, err
		}
	}

	follow, err := r.plan.FollowingFiles(g.ctx, func(rel string, changed bool) bool { return g.filesDecide(path.Join(r.worktree, rel), changed) })
	if err != nil {
		return nil, err
	}
	merged, err := r.plan.MergedFiles(g.ctx)
	if err != nil {
		return nil, err
	}

	g.takeFiles(r.worktree, follow, merged)
	if r.plan.Empty() {
		return changes, nil
	}
	return changes, g.carryOut(r)
}

// filesDecide reports whether the merge of files decides about the file at a path. If not, the file can follow HEAD,
// see gitdir.Plan.FollowingFiles. The merge of files decides in each of these cases:
//
//   - The file of ours equals the file of the base, or the file of theirs.
//   - The file of theirs equals the file of the base, and has changes that are not committed (changed is set).
//   - Ours has another kind of entry at the path, such as a directory.
//   - Theirs has another kind of entry at the path, and the base does not.
func (g *gitMerge) filesDecide(at string, changed bool) bool {
	base, ours, theirs := g.inodeAt(g.base, at), g.entryAt(at), g.inodeAt(g.theirs, at)
	other := func(n *tree.Inode) bool { return n != nil && !n.IsRegular() && !n.IsSymlink() }
	return other(ours) || other(theirs) && !other(base) || sameFile(g.src, base, ours) || sameFile(g.src, ours, theirs) || changed && sameFile(g.src, base, theirs)
}

// inodeAt returns the entry of a state at a path, nil for none. It records an error in g.err.
func (g *gitMerge) inodeAt(st *tree.State, at string) *tree.Inode {
	n, err := treeFiles{g.src, st, at, nil}.lookup(".")
	g.err = errors.Join(g.err, err)
	return n
}

// sameInode reports whether two inodes have the same number.
func sameInode(a, b *tree.Inode) bool { return a != nil && b != nil && a.Ino == b.Ino }

// withoutRemoved leaves out the changes in working trees that one side has removed and the other side keeps.
func (g *gitMerge) withoutRemoved(changes []tree.Change) []tree.Change {
	removed := make(map[string]bool) // results of reportOneSidedRemoval, by directory
	return slices.DeleteFunc(changes, func(c tree.Change) bool {
		for dir := c.Path; dir != nil; dir = dir.Dir {
			at := dir.String()
			is, known := removed[at]
			if !known {
				is = g.reportOneSidedRemoval(at)
				removed[at] = is
			}
			if is {
				return true
			}
		}
		return false
	})
}

// reportOneSidedRemoval reports whether a directory of the base is a working tree that one side has removed and
// the other side keeps. If so, it adds a line to g.out. It also returns false if the receiving side has removed
// a repository that is not a linked working tree. Then the files that theirs changed in the repository are in
// conflict.
func (g *gitMerge) reportOneSidedRemoval(dir string) bool {
	file := path.Join(dir, ".git")
	if g.inodeAt(g.base, file) == nil {
		return false
	}

	text, _ := treeFiles{g.src, g.base, dir, nil}.Read(".git") // no text if .git is a directory
	link := strings.TrimSpace(string(text))
	id, line := path.Base(link), ""

	switch hasHere, hasThere := g.entryAt(file) != nil, g.inodeAt(g.theirs, file) != nil; {
	case hasThere && !hasHere && path.Base(path.Dir(link)) == "worktrees":
		line = "the working tree is gone here: what changed in it stays in " + g.theirPhrase
		g.leftOut = append(g.leftOut, threeway.Repository{Dir: dir, Lines: []string{line}})
		if at := g.gitDirOfWorktree(dir, link); at != "" {
			// Otherwise the next base would have the new commits of the working tree without the files.
			g.leftOut = append(g.leftOut, threeway.Repository{Dir: at})
		}
	case hasHere && !hasThere && (slices.Contains(g.keptWorktrees, id) || !slices.Contains(g.removedWorktrees, id) && g.inodeAt(g.theirs, dir) == nil && g.changedHere(dir, link)):
		line = "the working tree is gone in " + g.theirPhrase + ": this one stays, as it changed"
	default:
		return false
	}
	g.out.Repositories = append(g.out.Repositories, threeway.Repository{Dir: file, Lines: []string{line}})

	return true
}

// gitDirOfWorktree returns the path of the git directory of a linked working tree of the base, "" if it is not a part of
// the merged states. dir is the path of the working tree, and link is the text of dir/.git.
func (g *gitMerge) gitDirOfWorktree(dir, link string) string {
	_, head, _ := threeway.SplitGitPath(link + "/HEAD")
	for at := dir; at != "."; {
		at = path.Dir(at)
		if file := path.Join(at, ".git", head); g.inodeAt(g.base, file) != nil {
			return path.Dir(file)
		}
	}
	return ""
}

// changedHere reports whether the receiving side has changed a linked working tree of the base, or the HEAD of the
// working tree. The arguments are those of gitDirOfWorktree.
func (g *gitMerge) changedHere(dir, link string) bool {
	if at := g.gitDirOfWorktree(dir, link); at != "" {
		if head := path.Join(at, "HEAD"); !sameFile(g.src, g.inodeAt(g.base, head), g.entryAt(head)) {
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
func filesIn(at string, changes []tree.Change, m *gitdir.Merge, to *receiver) []tree.Change {
	if to.outsideDir != "" || m.IsOtherRepo {
		return nil
	}

	return slices.DeleteFunc(changes, func(c tree.Change) bool {
		rel, below := strings.CutPrefix(c.Path.String(), at+"/")
		return !below || !gitdir.IsOrdinaryFile(rel) || c.Before != nil && gitdir.IsLFS(rel)
	})
}

// close removes the temporary directories of the plans.
func (g *gitMerge) close() {
	for _, temp := range g.tempDirs {
		_ = temp.Remove() // after an error, another process removes the directory later
	}
}
