// Package worktrees makes a fork of a workspace a worktree of a git repository. The repository is in
// the workspace, or in the directory of which the workspace is a copy.
//
// A fork of a workspace has a copy of the repository. The fork becomes a worktree in three steps:
//
//  1. git registers a worktree without files inside the fork.
//  2. The fork's copy of the repository, its .git, is removed.
//  3. A file .git that names git's entry of the worktree takes its place.
//
// The index is copied from the repository, so uncommitted changes stay uncommitted. Git registers the
// worktree with its path in .forks, to which a symbolic link is made. The time of step 2 grows with the
// repository; the other steps take constant time. If the workspace is a copy of a directory, it has no .git,
// and step 2 is left out.
//
// A program in the fork can change the fork's .git, so the file is not trusted. Git is started in the
// main worktree alone, and facts about a worktree are read from git's entry there.
package worktrees

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// A Worktree is a fork that is a worktree of git.
type Worktree struct {
	Name   string `json:"name"`
	Branch string `json:"branch,omitempty"` // "" for a detached HEAD
	Path   string `json:"path"`             // the directory of the files, in .forks
	Link   string `json:"link,omitempty"`   // the symbolic link to Path
}

// A Repository is a git repository in a workspace, or in a directory of which the workspace is a copy.
type Repository struct {
	Top             string // the main worktree
	Root            string // the root of the workspace
	topInWorkspace  string // the path of Top in the workspace
	workspaceIsCopy bool   // the workspace is a copy, without .git
}

const (
	// linkFile is a file in git's directory of a worktree, .git/worktrees/ID. It has the path of the symbolic link to
	// the worktree.
	linkFile = "amberfs-link"
	// registerDir is the directory in the fork in which git first registers the worktree. Add removes it.
	registerDir = ".amberfs-worktree"
)

// Open finds the repository of a directory in a workspace. root is the root of the workspace. The directory must not
// be in a fork of this workspace.
func Open(ctx context.Context, dir, root string) (*Repository, error) {
	top, err := MainWorktree(ctx, dir)
	if err != nil {
		return nil, err
	}

	rel, err := filepath.Rel(root, top)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, errs.Fail(errs.Invalid, "the repository %s is not in the workspace %s", top, root)
	}

	return &Repository{Top: top, Root: root, topInWorkspace: rel}, nil
}

// linksDir is the directory of the links to worktrees, from the main worktree of the repository.
const linksDir = ".claude/worktrees"

// LinksDir returns the directory of the links to the worktrees of the repository at top.
func LinksDir(top string) string { return filepath.Join(top, linksDir) }

// CopyMountpoint returns the mount point of the copy of the directory top. Worktrees are made in this copy. The mount
// point is inside top, because agents refuse a worktree outside the repository.
func CopyMountpoint(top string) string { return filepath.Join(top, linksDir, ".amberfs") }

// RepositoryOfCopy returns the repository of the directory whose copy is mounted at root. It reports false if root is
// not the mount point of a copy, see CopyMountpoint.
func RepositoryOfCopy(root string) (*Repository, bool) {
	top, ok := strings.CutSuffix(root, CopyMountpoint("/"))
	return &Repository{Top: top, Root: root, workspaceIsCopy: true}, ok
}

// MainWorktree returns the main worktree of the repository that a directory is in.
func MainWorktree(ctx context.Context, dir string) (string, error) {
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil && strings.Contains(err.Error(), "not a git repository") {
		return "", errs.Fail(errs.Invalid, "%s is in no git repository", dir).WithHint("go into one, or make one with `git init` and a commit")
	}
	if err != nil {
		return "", err
	}
	if st, err := os.Lstat(filepath.Join(top, ".git")); err != nil || !st.IsDir() {
		return "", errs.Fail(errs.Invalid, "%s is a worktree already", top).WithHint("go into the repository's main worktree")
	}

	return top, nil
}

// OpenPlain returns the repository of a directory, for AddPlain. If the directory is in a worktree, Top is this
// worktree.
func OpenPlain(ctx context.Context, dir string) (*Repository, error) {
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	return &Repository{Top: top}, err
}

// DefaultLink returns the default path of the link to the worktree with a name.
func (r *Repository) DefaultLink(name string) string {
	return filepath.Join(LinksDir(r.Top), name)
}

// FilesIn returns the directory in a fork that has the files of the repository.
func (r *Repository) FilesIn(fork string) string {
	return filepath.Join(r.Root, naming.ForksDir, fork, r.topInWorkspace)
}

// WorkspacePatterns converts lines of a file such as .amberhide in the repository to patterns of the workspace.
func (r *Repository) WorkspacePatterns(lines []string) (patterns []string) {
	for _, line := range lines {
		patterns = append(patterns, hide.ToRoot(r.topInWorkspace, line))
	}
	return patterns
}

// NewBranchName returns a name for the new branch of a worktree: worktree-NAME, or the first of worktree-NAME-2
// and so on that does not exist.
func (r *Repository) NewBranchName(ctx context.Context, name string) string {
	branch := "worktree-" + name
	for n := 2; ; n++ {
		if _, err := git(ctx, r.Top, "show-ref", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
			return branch
		}
		branch = fmt.Sprintf("worktree-%s-%d", name, n)
	}
}

// HeadCommit returns the commit at the HEAD of the main worktree.
func (r *Repository) HeadCommit(ctx context.Context) (string, error) {
	return git(ctx, r.Top, "rev-parse", "--verify", "HEAD")
}

// Add makes a worktree of the fork with a name. It makes a new branch for the worktree at the commit head, and a
// symbolic link to the worktree at the path link. The caller has read head with HeadCommit before it made the fork.
// If Add fails, the caller deletes the fork.
func (r *Repository) Add(ctx context.Context, name, branch, head, link string) (w Worktree, err error) {
	w = Worktree{Name: name, Branch: branch, Path: r.FilesIn(name), Link: link}
	currentHead, err := r.HeadCommit(ctx)
	if err != nil {
		return w, err
	}
	if currentHead != head {
		return w, errs.Fail(errs.Busy, "the HEAD of %s moved while %s was made", r.Top, name).WithHint("try again")
	}

	registeredPath := filepath.Join(w.Path, registerDir, name)
	add := []string{"worktree", "add", "--quiet", "--no-checkout", "-b", branch}
	if r.workspaceIsCopy { // locked, so that git does not prune the worktree while the copy is not mounted
		add = append(add, "--lock", "--reason", "amberfs worktree remove "+name)
	}
	if _, err := git(ctx, r.Top, append(add, registeredPath, head)...); err != nil {
		return w, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.removeEntry(context.WithoutCancel(ctx), registeredPath), r.removeEntry(context.WithoutCancel(ctx), w.Path))
		}
	}()

	e, err := r.openEntry(registeredPath)
	if err != nil {
		return w, err
	}
	defer e.Close()

	repository := r.Top
	if !r.workspaceIsCopy {
		repository = w.Path // the fork's own index, which agrees with the fork's files
	}
	if err := e.copyIndex(filepath.Join(repository, ".git")); err != nil {
		return w, err
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(w.Path, ".git")), os.RemoveAll(filepath.Join(w.Path, registerDir))); err != nil {
		return w, err
	}
	if err := errors.Join(e.moveTo(w.Path), r.makeLink(ctx, link, w.Path)); err != nil {
		return w, err
	}

	return w, e.write(linkFile, link)
}

// AddPlain makes an ordinary worktree of git, without a fork, and returns its path. The new branch begins
// at the HEAD of the worktree base or, if base is nil, of the main worktree.
func (r *Repository) AddPlain(ctx context.Context, name string, base *Worktree) (string, error) {
	head := "HEAD"
	if base != nil {
		e, err := r.openEntry(base.Path)
		if err != nil {
			return "", err
		}
		defer e.Close()

		head = "worktrees/" + e.id + "/HEAD"
	}

	path := r.DefaultLink(name)
	_, err := git(ctx, r.Top, "worktree", "add", "--quiet", "-b", "worktree-"+name, path, head)
	return path, err
}

// RemovePlain removes a worktree that AddPlain made. Git refuses if the worktree has uncommitted changes.
func RemovePlain(ctx context.Context, path string) error {
	top, ok := strings.CutSuffix(filepath.Dir(path), "/"+linksDir)
	if !ok {
		return errs.Fail(errs.NotExist, "%s is not below %s", path, linksDir).WithHint("remove it with `git worktree remove`")
	}
	_, err := git(ctx, top, "worktree", "remove", path)
	return err
}

// makeLink makes the symbolic link to a worktree. The link is relative if it and the worktree are in the workspace.
// A link in the repository is added to .git/info/exclude, unless git ignores it already.
func (r *Repository) makeLink(ctx context.Context, link, target string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o777); err != nil {
		return err
	}

	if rel, err := filepath.Rel(r.Root, link); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		if target, err = filepath.Rel(filepath.Dir(link), target); err != nil {
			return err
		}
	}

	if err := os.Symlink(target, link); err != nil {
		return err
	}

	ignored := link
	if filepath.Dir(link) == r.DefaultLink("") {
		ignored = filepath.Dir(link) // the directory of all links
	}

	rel, err := filepath.Rel(r.Top, ignored)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil // the link is outside of the repository
	}
	if _, err := git(ctx, r.Top, "check-ignore", "--quiet", rel); err == nil {
		return nil
	}

	exclude := filepath.Join(r.Top, ".git", "info", "exclude")
	if err := os.MkdirAll(filepath.Dir(exclude), 0o777); err != nil {
		return err
	}

	f, err := os.OpenFile(exclude, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}

	_, err = f.WriteString("/" + rel + "\n")
	return errors.Join(err, f.Close())
}

// List returns the worktrees that are forks of the workspace.
func (r *Repository) List(ctx context.Context) ([]Worktree, error) {
	text, err := git(ctx, r.Top, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}

	all := []Worktree{}
	forks := filepath.Join(r.Root, naming.ForksDir) + "/"

	for record := range strings.SplitSeq(text, "\x00\x00") {
		var w Worktree
		for field := range strings.SplitSeq(record, "\x00") {
			switch key, value, _ := strings.Cut(field, " "); key {
			case "worktree":
				w.Path = value
			case "branch":
				w.Branch = strings.TrimPrefix(value, "refs/heads/")
			}
		}

		inside, ok := strings.CutPrefix(w.Path, forks)
		if w.Name, _, _ = strings.Cut(inside, "/"); !ok || w.Path != r.FilesIn(w.Name) {
			continue
		}

		if e, err := r.openEntry(w.Path); err == nil {
			w.Link, _ = e.read(linkFile) // an error means that the worktree has no link
			e.Close()
		}

		all = append(all, w)
	}

	return all, nil
}

// Find returns a worktree by its name.
func (r *Repository) Find(ctx context.Context, name string) (Worktree, error) {
	all, err := r.List(ctx)
	if err != nil {
		return Worktree{}, err
	}

	for _, w := range all {
		if w.Name == name {
			return w, nil
		}
	}

	return Worktree{}, errs.Fail(errs.NotExist, "no such worktree: %q", name).WithHint("`amberfs worktree list` lists them")
}

// RemoveEntry removes git's entry of a worktree whose fork was deleted, and the link if it still leads to the
// worktree. The branch stays.
func (r *Repository) RemoveEntry(ctx context.Context, w Worktree) error {
	err := r.removeEntry(ctx, w.Path)
	if to, lerr := os.Readlink(w.Link); lerr == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(w.Link), to)
		}
		if to == w.Path {
			err = errors.Join(err, os.Remove(w.Link))
		}
	}

	return err
}

// removeEntry removes git's entry of the worktree at a path, and the directory at this path if it exists.
func (r *Repository) removeEntry(ctx context.Context, path string) error {
	text, err := git(ctx, r.Top, "worktree", "list", "--porcelain", "-z")
	if err != nil || !strings.Contains("\x00"+text, "\x00worktree "+path+"\x00") {
		return err
	}
	_, err = git(ctx, r.Top, "worktree", "remove", "--force", "--force", path)
	return err
}

// git runs git in a directory and returns its output. dir must be a main worktree, or a directory from which git
// looks for one, because the configuration of other worktrees is not trusted.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := gitbridge.Git(ctx, dir, args...)
	if failed, ok := errors.AsType[*gitbridge.GitError](err); ok && failed.Stderr != "" {
		return "", errs.Fail(errs.Failed, "git: %s", failed.Stderr)
	}
	return out, err
}
