package gitbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// An applyGit is the plan of an apply for the git directories in a directory of the host.
type applyGit struct {
	gitMerge
	sides hostdir.RepositorySides
	repos []*repoMerge
	link  *gitdir.Link // in the entry .git of the directory, nil for none
}

// Plan implements hostdir.Git. It separates the changes in git directories from the changes of files, and plans the
// merges of the git directories with package gitdir.
func (g HostGit) Plan(ctx context.Context, in hostdir.RepositorySides) (hostdir.Repositories, error) {
	r := &applyGit{sides: in, gitMerge: gitMerge{
		ctx: ctx, git: g.git, src: in.Source, base: in.Base, ours: in.Ours, theirs: in.Now, theirName: cmp.Or(in.WorkspaceName, "workspace"), theirPhrase: "the workspace", rule: in.Rule,
		answers: mergeAnswers{
			mergesBranches: func(at string) bool { return in.Merge || in.ChoiceOf(at).Merge },
			keepsPath:      func(at string) bool { return in.ChoiceOf(at).Leave || in.Hidden.Paths.Hides(at, false) },
		},
	}}
	if r.git == nil {
		r.git = runGit
	}
	r.link = linkOutside(in.Dir.Path(), in.Dir.Path())

	r.answers.resolveConflict, r.entryAt, r.findReceiver, r.addedOrRemoved, r.carryOut = r.resolution, r.ourEntry, r.receiverAt, r.addedOrRemovedIn, func(g *repoMerge) error { r.repos = append(r.repos, g); return nil }
	r.out.Close = r.close

	if err := r.planAll(in.Changes); err != nil {
		r.close()
		return hostdir.Repositories{}, err
	}

	return hostdir.Repositories{GitOutcome: r.out, AddObjects: r.addObjects, Commit: r.commit}, nil
}

// ourEntry returns the entry that the directory has at a path, nil for none. It records an error in r.err.
func (r *applyGit) ourEntry(at string) *tree.Inode {
	n, err := r.sides.Dir.EntryAt(at)
	r.err = errors.Join(r.err, err)
	return n
}

// resolution returns the user's decision about a path that git's merge leaves in conflict.
func (r *applyGit) resolution(name string) gitdir.Resolution {
	switch c := r.sides.ChoiceOf(name); {
	case c.Markers:
		return gitdir.WithMarkers
	case c.Leave:
		return gitdir.TakeOurs
	}
	return resolutions[r.sides.Rule(name)]
}

// receiverAt finds the repository that the directory has at a path, or that a `.git` file there names.
func (r *applyGit) receiverAt(at string, base treeFiles, _ bool) (*receiver, error) {
	to := &receiver{isKept: r.sides.ChoiceOf(at).Leave}
	repo, link := r.repoAt(at, base)
	if repo == nil {
		to.absent, to.isBelowNonDirGit, to.untrusted = true, r.isBelowNonDirGit(at), link
		return to, nil
	}
	if link != nil {
		to.outsideDir = repo.Dir
	}

	to.open = func(m *gitdir.Merge, work, _ string) error {
		m.Ours, m.TheirAlternates, m.Undo = repo, r.theirAlternates(m.Theirs, at), r.sides.Undo
		if work != "" {
			repo.Worktree = filepath.Join(r.sides.Dir.Path(), work)
		}
		return nil
	}
	return to, nil
}

// addedOrRemovedIn returns the paths of the files that the directory added or removed in a working tree.
func (r *applyGit) addedOrRemovedIn(work string) (names []string) {
	at := path.Join(work, ".git")
	base := treeFiles{r.src, r.base, at, nil}
	if repo, _ := r.repoAt(at, base); repo != nil {
		repo.Worktree = filepath.Join(r.sides.Dir.Path(), work)
		changed, err := repo.ChangedFiles(r.ctx, r.git, base, func(name string) bool { return r.inodeAt(r.base, path.Join(work, name)) != nil })
		if err != nil {
			return nil // without these paths, a renamed file that the workspace changed is in conflict
		}
		for _, name := range changed {
			if at := path.Join(work, name); (r.inodeAt(r.base, at) == nil) != (r.entryAt(at) == nil) {
				names = append(names, at)
			}
		}
	}

	return names
}

// theirAlternates returns the git directories of the workspace that are alternates of the git directory at a path. The
// keys are the paths of their object directories in the directory of the host.
func (r *applyGit) theirAlternates(theirs gitdir.Files, at string) map[string]gitdir.Files {
	text, _ := theirs.Read(alternatesPath) // no text if there is no such file
	out, here := make(map[string]gitdir.Files), r.sides.Dir.Path()
	for line := range strings.Lines(string(text)) {
		dir := strings.TrimSpace(line)
		if filepath.IsAbs(dir) {
			dir = strings.TrimPrefix(filepath.Clean(dir), here+"/")
		} else {
			dir = path.Join(at, "objects", dir)
		}

		if path.Base(dir) == "objects" && filepath.IsLocal(dir) {
			out[filepath.Join(here, dir)] = treeFiles{r.src, r.theirs, path.Dir(dir), nil}
		}
	}

	return out
}

// isBelowNonDirGit reports whether a `.git` above a path is a file or a symbolic link in the directory.
func (r *applyGit) isBelowNonDirGit(at string) bool {
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if path.Base(dir) != ".git" {
			continue
		}
		if n := r.entryAt(dir); n != nil && !n.IsDir() {
			return true
		}
	}
	return false
}

// repoAt returns the repository that the directory has at a path, nil for none. link is set if a `.git` file at the
// path names a repository outside of the directory, and the base has a copy of that repository. An untrusted
// repository is not returned, even if the base has a copy of it. The copy proves nothing: the author of the imported
// files may have written it, with the refs and the alternates of a repository of the user.
func (r *applyGit) repoAt(at string, base treeFiles) (repo *gitdir.Repo, link *gitdir.Link) {
	p, err := tree.ParsePath(at)
	if err != nil {
		return nil, nil
	}
	if name, err := r.sides.Dir.ResolvePath(p); err == nil {
		repo = &gitdir.Repo{Dir: name, Common: name}
		if is, err := gitdir.IsGitDir(repo); err != nil || !is {
			return nil, nil
		}
		return repo, nil
	}

	above, err := r.sides.Dir.ResolvePath(p.Dir)
	if err != nil || p.Name != ".git" {
		return nil, nil
	}

	l := linkOutside(above, r.sides.Dir.Path())
	text, err := base.Read(alternatesPath)
	if l == nil || err != nil || string(text) != alternatesOf(l) {
		return nil, nil
	}
	if !l.Trusted {
		return nil, l
	}

	return &gitdir.Repo{Dir: l.Dir, Common: l.Common}, l
}

// addObjects adds to the repositories the objects that the planned refs need.
func (r *applyGit) addObjects() error {
	for _, g := range r.repos {
		if err := g.plan.AddObjects(r.ctx); err != nil {
			return fmt.Errorf("the git directory %s: %w", g.Dir, err)
		}
	}
	return nil
}

// commit carries out the plans of the repositories. It returns the repositories in which a merge with conflict
// markers is left in progress.
func (r *applyGit) commit() (skipped []stream.Omission, err error) {
	for _, g := range r.repos {
		if err := g.plan.CarryOut(r.ctx); err != nil {
			return skipped, fmt.Errorf("the git directory %s: %w", g.Dir, err)
		}

		g.plan.RefreshIndex(r.ctx)
		if left := g.plan.MarkedPaths; len(left) > 0 {
			skipped = append(skipped, stream.Omission{Path: g.Dir, Reason: "the merge is not committed: " + strings.Join(left, ", ") + " has conflict markers"})
		}
	}

	dir := r.sides.Dir.Path()
	if now := linkOutside(dir, dir); r.link != nil && r.link.Trusted && now != nil && now.Dir == r.link.Dir && !now.Trusted {
		now.RefreshIndex(r.ctx, r.git, dir) // all files of the index have new times
	}

	return skipped, nil
}
