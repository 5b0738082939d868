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
	"github.com/amberfs/amberfs/internal/scratch"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// hostRepositories are the git directories of one apply.
type hostRepositories struct {
	ctx   context.Context
	git   gitdir.Git
	in    hostdir.RepositorySides
	out   hostdir.Repositories
	repos []*gitApply
	temps []*scratch.Dir
}

// A gitApply is the part of an apply that is one repository.
type gitApply struct {
	change hostdir.GitChange
	plan   *gitdir.Plan
	work   string // the working tree, "" if it is not in the directory
	stays  bool   // in the workspace, with its working tree
}

// Plan is a method of Git. It takes the changes of git directories out of those of files. What brings
// them to the repositories of the directory is planned, by git's meaning.
func (g HostGit) Plan(ctx context.Context, in hostdir.RepositorySides) (hostdir.Repositories, error) {
	r := &hostRepositories{ctx: ctx, git: g.git, in: in}
	if r.git == nil {
		r.git = gitRunner
	}

	r.out.AddObjects, r.out.Commit, r.out.Close = r.addObjects, r.commit, r.close
	if err := r.plan(in.Changes); err != nil {
		r.close()
		return hostdir.Repositories{}, err
	}

	return r.out, nil
}

func (r *hostRepositories) plan(changes []tree.Change) error {
	files, roots, of, err := byRepository(r.in.Source, r.in.Base, r.in.Now, changes)
	if err != nil {
		return err
	}

	for _, at := range roots {
		g, rest, err := r.planRepo(at, of[at])
		if err != nil {
			return fmt.Errorf("the git directory %s: %w", at, err)
		}

		files = append(files, rest...)
		if g == nil {
			continue
		}
		if g.stays && g.work != "" {
			files = slices.DeleteFunc(files, func(c tree.Change) bool { _, in := below(c.Path.String(), g.work); return in })
		}

		if g.plan != nil {
			if files, err = r.planFiles(g, files); err != nil {
				return err
			}
		}

		if len(g.change.Lines) > 0 || g.plan != nil && !g.plan.Empty() {
			r.out.Said = append(r.out.Said, g.change)
			if g.plan != nil {
				r.repos = append(r.repos, g)
			}
		}
	}

	r.out.Changes = files

	return nil
}

// planFiles plans what the plan of a repository means for the files of its working tree.
func (r *hostRepositories) planFiles(g *gitApply, files []tree.Change) (rest []tree.Change, err error) {
	if g.plan.Parted && g.work != "" {
		if files, err = withoutCommitted(r.ctx, r.in.Source, g.plan, g.work, files, false); err != nil {
			return nil, err
		}
	}

	if err := r.planMerges(g); err != nil {
		return nil, err
	}

	return files, r.planReplaced(g)
}

// planRepo plans what becomes of one git directory. rest are the changes that are files: all, if
// only one side has it.
func (r *hostRepositories) planRepo(at string, changes []tree.Change) (g *gitApply, rest []tree.Change, err error) {
	base, was, hadOne, err := repositoryIn(r.in.Source, r.in.Base, at)
	if err != nil {
		return nil, nil, err
	}

	now, is, hasOne, err := repositoryIn(r.in.Source, r.in.Now, at)
	if err != nil {
		return nil, nil, err
	}

	repo, linked := r.repoAt(at, base)
	g = &gitApply{change: hostdir.GitChange{Dir: at}}
	if linked {
		g.change.Target = repo.Dir
	}

	switch {
	case repo == nil && !hadOne && r.inLink(at):
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
		above, err := r.in.Now.At(r.in.Source, path.Dir(at))
		if err == nil && above == nil && path.Dir(at) != "." && !linked {
			return nil, changes, nil // with the directory that it is in
		}
		g.change.Lines = []string{"the git directory is gone in the workspace: this one stays as it is"}
		return g, nil, nil
	}

	choice := r.in.ChoiceOf(at)
	if choice.Leave {
		return nil, nil, nil
	}

	m := &gitdir.Merge{Git: r.git, Base: base, Theirs: now, Ours: repo, Name: cmp.Or(r.in.Name, "workspace"), Another: !hadOne || was.Ino != is.Ino}
	if choice.Merge || r.in.Merge {
		m.Resolve = func(at string) gitdir.Resolution { return r.resolution(path.Join(g.work, at)) }
	}

	m.TheirFile = func(at string) *gitdir.File { return fileAt(r.in.Source, r.in.Now, path.Join(g.work, at)) }
	m.Prefer = func(branch string) bool {
		return m.Resolve == nil && r.in.Rule(at+"/refs/heads/"+branch) == threeway.TakeTheirs
	}
	if !hadOne {
		m.Base = nil
	}

	m.Borrowed = r.borrowed(now)
	if at, ok := worktreeOf(now); ok && !m.Another {
		repo.Work, g.work = filepath.Join(r.in.Dir.Path(), at), at
	}

	if _, err := exec.LookPath("git"); err != nil {
		g.change.Lines = []string{"git is not installed: refs, commits and the index stay in the workspace"}
		return g, filesIn(at, changes, m, linked), nil
	}

	temp, err := scratch.New(scratch.Merge)
	if err != nil {
		return nil, nil, fmt.Errorf("making a temporary directory: %w", err)
	}

	r.temps = append(r.temps, temp)
	g.plan, err = m.Plan(r.ctx, temp.Path)
	if errors.Is(err, gitdir.ErrKind) {
		g.change.Lines = []string{"left in the workspace: " + err.Error()}
		return g, nil, nil // the configuration says of which kind it is
	}
	if err != nil {
		return nil, nil, err
	}

	g.change.Lines, g.change.Commits, g.change.Off = g.plan.Lines, g.plan.Commits, g.plan.Off
	for _, d := range g.plan.Diverged {
		g.change.Diverged = append(g.change.Diverged, &d.Diverged)
	}

	return g, filesIn(at, changes, m, linked), nil
}

// borrowed returns the git directories of the workspace whose objects another one of it reads, by the
// directories with objects that are here in their place.
func (r *hostRepositories) borrowed(f treeFiles) map[string]gitdir.Files {
	text, err := f.Read(alternatesPath)
	if err != nil {
		return nil
	}

	out := make(map[string]gitdir.Files)

	for line := range strings.Lines(string(text)) {
		at := strings.TrimSpace(line)
		if filepath.IsAbs(at) {
			at = strings.TrimPrefix(filepath.Clean(at), r.in.Dir.Path()+"/")
		} else {
			at = path.Join(f.at, "objects", at)
		}

		if path.Base(at) == "objects" && filepath.IsLocal(at) {
			out[filepath.Join(r.in.Dir.Path(), at)] = treeFiles{f.src, f.st, path.Dir(at)}
		}
	}

	return out
}

// inLink reports whether a path lies below a `.git` that is a file, or a link, in the directory.
func (r *hostRepositories) inLink(at string) bool {
	p, err := tree.ParsePath(at)
	if err != nil {
		return false
	}

	for p = p.Dir; p != nil; p = p.Dir {
		if p.Name == ".git" && r.in.Dir.IsFile(p) {
			return true
		}
	}

	return false
}

// repoAt returns the repository that the directory has at a path, nil for none. linked: it lies
// elsewhere, and the base was made of it.
func (r *hostRepositories) repoAt(at string, base treeFiles) (repo *gitdir.Repo, linked bool) {
	p, err := tree.ParsePath(at)
	if err != nil {
		return nil, false
	}

	if name, err := r.in.Dir.Resolved(p); err == nil {
		repo := &gitdir.Repo{Dir: name, Common: name}
		if gitdir.Is(repo) {
			return repo, false
		}
		return nil, false
	}
	if p.Name != ".git" {
		return nil, false
	}

	above, err := r.in.Dir.Resolved(p.Dir)
	if err != nil {
		return nil, false
	}

	l := linkOutside(above, r.in.Dir.Path())
	text, err := base.Read(alternatesPath)
	if l == nil || !l.Trusted || err != nil || string(text) != alternatesOf(l) {
		return nil, false
	}

	return &gitdir.Repo{Dir: l.Dir, Common: l.Common}, true
}

// addObjects gives the repositories the objects that their refs will need.
func (r *hostRepositories) addObjects() error {
	for _, g := range r.repos {
		if err := g.plan.AddObjects(r.ctx); err != nil {
			return fmt.Errorf("the git directory %s: %w", g.change.Dir, err)
		}
	}
	return nil
}

// commit carries out what was planned for the repositories.
func (r *hostRepositories) commit() (skipped []stream.Omission, err error) {
	for _, g := range r.repos {
		if err := g.plan.Commit(r.ctx); err != nil {
			return skipped, fmt.Errorf("the git directory %s: %w", g.change.Dir, err)
		}

		g.plan.Refresh(r.ctx)
		if left := g.plan.Marked(); len(left) > 0 {
			skipped = append(skipped, stream.Omission{Path: g.change.Dir, Reason: "the merge is not committed: " + strings.Join(left, ", ") + " has conflict markers"})
		}
	}
	return skipped, nil
}

// close removes what the plans have made.
func (r *hostRepositories) close() {
	for _, temp := range r.temps {
		_ = temp.Remove() // else another process does
	}
}
