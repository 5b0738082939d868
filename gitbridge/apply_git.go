package gitbridge

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/scratch"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A GitChange is what an apply does to one repository, in git's words.
type GitChange struct {
	Dir     string   `json:"dir"`              // the git directory, relative
	Target  string   `json:"target,omitempty"` // where it is, if that is outside of the directory
	Lines   []string `json:"lines,omitempty"`
	Commits []string `json:"commits,omitempty"` // subjects of the commits that come, some of each branch
	Off     []string `json:"off,omitempty"`     // subjects of commits that no branch has afterwards
	// Diverged are the branches that both sides moved.
	Diverged []*gitdir.Diverged `json:"diverged,omitempty"`
}

// A gitApply is the part of an apply that is one repository.
type gitApply struct {
	change GitChange
	plan   *gitdir.Plan
	work   string // the working tree, "" if it is not in the directory
	stays  bool   // in the workspace, with its working tree
}

// planGit takes the changes of git directories out of those of files. What brings them to the
// repositories of the directory is planned, by git's meaning.
func (a *applying) planGit(changes []tree.Change) ([]tree.Change, error) {
	dirs := gitDirs{a.o.Source, a.o.Base, a.o.Now, make(map[string]bool)}
	var files []tree.Change
	var roots []string
	of := make(map[string][]tree.Change)
	for _, c := range changes {
		at, err := dirs.of(c.Path.String())
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
		g, rest, err := a.planRepo(at, of[at])
		if err != nil {
			return nil, fmt.Errorf("the git directory %s: %w", at, err)
		}
		files = append(files, rest...)
		if g == nil {
			continue
		}
		if g.stays && g.work != "" {
			files = slices.DeleteFunc(files, func(c tree.Change) bool { _, in := below(c.Path.String(), g.work); return in })
		}
		if g.plan != nil && g.plan.Parted && g.work != "" {
			if files, err = withoutCommitted(a.ctx, a.o.Source, g.plan, g.work, files, false); err != nil {
				return nil, err
			}
		}
		if err := a.planMerges(g); err != nil {
			return nil, err
		}
		if files, err = a.withReplaced(g, files); err != nil {
			return nil, err
		}
		if len(g.change.Lines) > 0 || g.plan != nil && !g.plan.Empty() {
			a.repos = append(a.repos, g)
			a.res.Git = append(a.res.Git, g.change)
		}
	}
	return threeway.SortChanges(files), nil
}

// planRepo plans what becomes of one git directory. rest are the changes that are files: all, if
// only one side has it.
func (a *applying) planRepo(at string, changes []tree.Change) (g *gitApply, rest []tree.Change, err error) {
	base, now := treeFiles{a.o.Source, a.o.Base, at}, treeFiles{a.o.Source, a.o.Now, at}
	was, err := base.lookup(".")
	if err != nil {
		return nil, nil, err
	}
	is, err := now.lookup(".")
	if err != nil {
		return nil, nil, err
	}
	hadOne, err := isGitDir(a.o.Source, a.o.Base, was)
	if err != nil {
		return nil, nil, err
	}
	hasOne, err := isGitDir(a.o.Source, a.o.Now, is)
	if err != nil {
		return nil, nil, err
	}
	repo, linked := a.repoAt(at, base)
	g = &gitApply{change: GitChange{Dir: at}}
	if linked {
		g.change.Target = repo.Dir
	}
	switch {
	case repo == nil && !hadOne && a.inLink(at):
		g.work, _ = worktreeOf(now)
		g.stays = true
		g.change.Lines = []string{"a new repository in that of another place stays in the workspace, with " + cmp.Or(g.work, "its files") + ": `git submodule update --init` makes it here"}
		return g, nil, nil
	case repo == nil && !hadOne, repo == nil && !hasOne:
		return nil, changes, nil // it is new in the workspace, or gone on both sides
	case repo == nil:
		g.change.Lines = []string{"the directory has no git directory there: what git did stays in the workspace"}
		return g, nil, nil
	case !hasOne:
		above, err := a.o.Now.At(a.o.Source, path.Dir(at))
		if err == nil && above == nil && path.Dir(at) != "." && !linked {
			return nil, changes, nil // with the directory that it is in
		}
		g.change.Lines = []string{"the git directory is gone in the workspace: this one stays as it is"}
		return g, nil, nil
	}
	choice := Choice{}
	if a.o.Choose != nil {
		choice = a.o.Choose(at)
	}
	if choice.Leave {
		return nil, nil, nil
	}
	m := &gitdir.Merge{Git: a.o.git, Base: base, Theirs: now, Ours: repo, Name: cmp.Or(a.o.Name, "workspace"), Another: !hadOne || was.Ino != is.Ino}
	if choice.Merge || a.o.Merge {
		m.Resolve = func(at string) gitdir.Resolution { return a.resolution(path.Join(g.work, at)) }
	}
	m.TheirFile = func(at string) *gitdir.File { return fileAt(a.o.Source, a.o.Now, path.Join(g.work, at)) }
	m.Prefer = func(branch string) bool {
		return m.Resolve == nil && a.ruleOf(at+"/refs/heads/"+branch) == threeway.TakeTheirs
	}
	if !hadOne {
		m.Base = nil
	}
	m.Borrowed = a.borrowed(now)
	if at, ok := worktreeOf(now); ok && !m.Another {
		repo.Work, g.work = filepath.Join(a.host.path, at), at
	}
	if _, err := exec.LookPath("git"); err != nil {
		g.change.Lines = []string{"git is not installed: refs, commits and the index stay in the workspace"}
		return g, a.filesOf(at, changes, m, linked), nil
	}
	temp, err := scratch.New(scratch.Merge)
	if err != nil {
		return nil, nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	a.temps = append(a.temps, temp)
	g.plan, err = m.Plan(a.ctx, temp.Path)
	if errors.Is(err, gitdir.ErrKind) {
		g.change.Lines = []string{"left in the workspace: " + err.Error()}
		return g, nil, nil // the configuration says of which kind it is
	}
	if err != nil {
		return nil, nil, err
	}
	g.change.Lines, g.change.Commits, g.change.Off, g.change.Diverged = g.plan.Lines, g.plan.Commits, g.plan.Off, g.plan.Diverged
	return g, a.filesOf(at, changes, m, linked), nil
}

// borrowed returns the git directories of the workspace whose objects another one of it reads, by the
// directories with objects that are here in their place.
func (a *applying) borrowed(f treeFiles) map[string]gitdir.Files {
	text, err := f.Read(alternatesPath)
	if err != nil {
		return nil
	}
	out := make(map[string]gitdir.Files)
	for line := range strings.Lines(string(text)) {
		at := strings.TrimSpace(line)
		if filepath.IsAbs(at) {
			at = strings.TrimPrefix(filepath.Clean(at), a.host.path+"/")
		} else {
			at = path.Join(f.at, "objects", at)
		}
		if path.Base(at) == "objects" && filepath.IsLocal(at) {
			out[filepath.Join(a.host.path, at)] = treeFiles{f.src, f.st, path.Dir(at)}
		}
	}
	return out
}

// filesOf are those changes of a git directory that are files. Of one that lies elsewhere there are
// none, and none of another repository.
func (a *applying) filesOf(at string, changes []tree.Change, m *gitdir.Merge, linked bool) (files []tree.Change) {
	if linked || m.Another {
		return nil
	}
	for _, c := range changes {
		if rel, below := strings.CutPrefix(c.Path.String(), at+"/"); below && gitdir.IsFile(rel) {
			files = append(files, c)
		}
	}
	return files
}

// inLink reports whether a path lies below a `.git` that is a file, or a link, in the directory.
func (a *applying) inLink(at string) bool {
	p, err := tree.ParsePath(at)
	if err != nil {
		return false
	}
	for p = p.Dir; p != nil; p = p.Dir {
		if seen, err := a.host.look(p); err == nil && p.Name == ".git" && seen.exists && !seen.isDir() {
			return true
		}
	}
	return false
}

// repoAt returns the repository that the directory has at a path, nil for none. linked: it lies
// elsewhere, and the base was made of it.
func (a *applying) repoAt(at string, base treeFiles) (repo *gitdir.Repo, linked bool) {
	p, err := tree.ParsePath(at)
	if err != nil {
		return nil, false
	}
	if fd, err := a.host.walk(p); err == nil {
		name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		_ = unix.Close(fd) // of a path alone
		repo := &gitdir.Repo{Dir: name, Common: name}
		if err == nil && gitdir.Is(repo) {
			return repo, false
		}
		return nil, false
	}
	if p.Name != ".git" {
		return nil, false
	}
	above, err := a.host.walk(p.Dir)
	if err != nil {
		return nil, false
	}
	defer unix.Close(above)
	l := gitLinkIn(above, a.host.path)
	text, err := base.Read(alternatesPath)
	if l == nil || !l.Trusted || err != nil || string(text) != alternatesOf(l) {
		return nil, false
	}
	return &gitdir.Repo{Dir: l.Dir, Common: l.Common}, true
}

// commitGit carries out what was planned for the repositories.
func (a *applying) commitGit() error {
	for _, g := range a.repos {
		if g.plan == nil {
			continue
		}
		if err := g.plan.Commit(a.ctx); err != nil {
			return fmt.Errorf("the git directory %s: %w", g.change.Dir, err)
		}
		g.plan.Refresh(a.ctx)
		if left := g.plan.Marked(); len(left) > 0 {
			a.res.Skipped = append(a.res.Skipped, Omission{g.change.Dir, "the merge is not committed: " + strings.Join(left, ", ") + " has conflict markers"})
		}
	}
	return nil
}

// endGit removes what the plans have made.
func (a *applying) endGit() {
	for _, temp := range a.temps {
		_ = temp.Remove() // else another process does
	}
}
