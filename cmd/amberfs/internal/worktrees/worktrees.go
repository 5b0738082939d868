// Package worktrees makes forks of a workspace worktrees of the git repository in it, or of the
// one in the directory that the workspace is a copy of.
//
// A fork has a copy of the repository. It becomes a worktree in three steps: git registers a
// worktree without files in the fork, the fork's copy of the repository is removed, and a file
// .git that names git's entry takes its place. The index is the repository's, so what was not
// committed stays so. Git knows the worktree by its path in .forks; a link leads there. Nothing
// but the removal, of .git alone, takes longer for a larger repository, and a copy of a directory
// has no .git.
//
// A fork belongs to whoever works in it, and so does its .git. Git is therefore started in the
// main worktree alone, and what is known of a worktree is read from git's entry there.
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
	"github.com/amberfs/amberfs/snapshot/naming"
)

// A Worktree is a fork that git knows.
type Worktree struct {
	Name   string `json:"name"`
	Branch string `json:"branch,omitempty"` // "" for a detached HEAD
	Path   string `json:"path"`             // of the files, in .forks
	Link   string `json:"link,omitempty"`
}

// A Repository is one whose directory .git is in a workspace, or in a directory of which the
// workspace is a copy.
type Repository struct {
	Top    string // its main worktree
	Root   string // of the workspace
	rel    string // of Top in the workspace
	copied bool   // the workspace is a copy, without .git
}

const (
	// linkFile is in git's directory of a worktree, and has the path of the link to it.
	linkFile = "amberfs-link"
	// registered is where git registers the worktree, in the fork. It is removed.
	registered = ".amberfs-worktree"
)

// Open finds the repository of a directory in the workspace that begins at root. The directory is
// not in a fork of it.
func Open(ctx context.Context, dir, root string) (*Repository, error) {
	top, err := Top(ctx, dir)
	if err != nil {
		return nil, err
	}

	rel, err := filepath.Rel(root, top)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, errs.Fail(errs.Invalid, "the repository %s is not in the workspace %s", top, root)
	}

	return &Repository{Top: top, Root: root, rel: rel}, nil
}

// place is where the worktrees of a repository are looked for, below its main worktree.
const place = ".claude/worktrees"

// Place is the directory for the worktrees of a directory.
func Place(top string) string { return filepath.Join(top, place) }

// Point is where the copy of a directory is mounted for its worktrees. It is in the directory,
// because agents refuse a worktree that is outside of the repository.
func Point(top string) string { return filepath.Join(top, place, ".amberfs") }

// Copied is the repository of a directory whose copy is mounted at root; false if it is none.
func Copied(root string) (*Repository, bool) {
	top, ok := strings.CutSuffix(root, Point("/"))
	return &Repository{Top: top, Root: root, copied: true}, ok
}

// Top is the main worktree of the repository that a directory is in.
func Top(ctx context.Context, dir string) (string, error) {
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

// Plain is the repository of a directory for worktrees of git's own, which may be in one already.
func Plain(ctx context.Context, dir string) (*Repository, error) {
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	return &Repository{Top: top}, err
}

// Link is where the worktree of a name is looked for, if no other path is given.
func (r *Repository) Link(name string) string {
	return filepath.Join(Place(r.Top), name)
}

// Files is where a fork has the repository's files.
func (r *Repository) Files(fork string) string {
	return filepath.Join(r.Root, naming.ForksDir, fork, r.rel)
}

// Branch is the first branch of a worktree's name that does not exist.
func (r *Repository) Branch(ctx context.Context, name string) string {
	branch := "worktree-" + name
	for n := 2; ; n++ {
		if _, err := git(ctx, r.Top, "show-ref", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
			return branch
		}
		branch = fmt.Sprintf("worktree-%s-%d", name, n)
	}
}

// Head is the commit at the HEAD of the main worktree.
func (r *Repository) Head(ctx context.Context) (string, error) {
	return git(ctx, r.Top, "rev-parse", "--verify", "HEAD")
}

// Add makes a fork a worktree with a new branch at head, the commit of Head before the fork was
// made, and a link to it. If it fails, the caller deletes the fork.
func (r *Repository) Add(ctx context.Context, name, branch, head, link string) (w Worktree, err error) {
	w = Worktree{Name: name, Branch: branch, Path: r.Files(name), Link: link}
	now, err := r.Head(ctx)
	if err == nil && now != head {
		err = errs.Fail(errs.Busy, "the HEAD of %s moved while %s was made", r.Top, name).WithHint("try again")
	}
	if err != nil {
		return w, err
	}

	at := filepath.Join(w.Path, registered, name)
	add := []string{"worktree", "add", "--quiet", "--no-checkout", "-b", branch}
	if r.copied { // it is not pruned when the copy is not mounted
		add = append(add, "--lock", "--reason", "amberfs worktree remove "+name)
	}
	if _, err := git(ctx, r.Top, append(add, at, head)...); err != nil {
		return w, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.forget(context.WithoutCancel(ctx), at), r.forget(context.WithoutCancel(ctx), w.Path))
		}
	}()

	e, err := r.entry(at)
	if err != nil {
		return w, err
	}
	defer e.Close()

	repository := r.Top
	if !r.copied {
		repository = w.Path // of the same moment as the files
	}
	if err := e.copyIndex(filepath.Join(repository, ".git")); err != nil {
		return w, err
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(w.Path, ".git")), os.RemoveAll(filepath.Join(w.Path, registered))); err != nil {
		return w, err
	}
	if err := errors.Join(e.move(w.Path), r.link(ctx, link, w.Path)); err != nil {
		return w, err
	}

	return w, e.write(linkFile, link)
}

// AddPlain makes an ordinary worktree of git, without a fork, and returns its path. It begins at
// the HEAD of from, or of the main worktree.
func (r *Repository) AddPlain(ctx context.Context, name string, from *Worktree) (string, error) {
	head := "HEAD"
	if from != nil {
		e, err := r.entry(from.Path)
		if err != nil {
			return "", err
		}
		defer e.Close()

		head = "worktrees/" + e.id + "/HEAD"
	}

	path := r.Link(name)
	_, err := git(ctx, r.Top, "worktree", "add", "--quiet", "-b", "worktree-"+name, path, head)
	return path, err
}

// RemovePlain removes a worktree that AddPlain made, if nothing is lost.
func RemovePlain(ctx context.Context, path string) error {
	top, ok := strings.CutSuffix(filepath.Dir(path), "/"+place)
	if !ok {
		return errs.Fail(errs.NotExist, "%s is not below %s", path, place).WithHint("remove it with `git worktree remove`")
	}
	_, err := git(ctx, top, "worktree", "remove", path)
	return err
}

// link makes the link to a worktree, relative where both are in the workspace. The repository
// ignores it.
func (r *Repository) link(ctx context.Context, link, to string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o777); err != nil {
		return err
	}

	if rel, err := filepath.Rel(r.Root, link); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		if to, err = filepath.Rel(filepath.Dir(link), to); err != nil {
			return err
		}
	}

	if err := os.Symlink(to, link); err != nil {
		return err
	}

	ignored := link
	if filepath.Dir(link) == r.Link("") {
		ignored = filepath.Dir(link) // of all worktrees
	}

	rel, err := filepath.Rel(r.Top, ignored)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil // it is outside of the repository
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
		if w.Name, _, _ = strings.Cut(inside, "/"); !ok || w.Path != r.Files(w.Name) {
			continue
		}

		if e, err := r.entry(w.Path); err == nil {
			w.Link, _ = e.read(linkFile) // else there is none
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

// Forget removes what git knows of a worktree whose fork is gone, and the link, if it still
// leads there. The branch stays.
func (r *Repository) Forget(ctx context.Context, w Worktree) error {
	err := r.forget(ctx, w.Path)
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

// forget removes git's entry of a worktree, with its directory if there is one.
func (r *Repository) forget(ctx context.Context, path string) error {
	text, err := git(ctx, r.Top, "worktree", "list", "--porcelain", "-z")
	if err != nil || !strings.Contains("\x00"+text, "\x00worktree "+path+"\x00") {
		return err
	}
	_, err = git(ctx, r.Top, "worktree", "remove", "--force", "--force", path)
	return err
}

// git starts git in a main worktree, or where one is looked for, and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := gitbridge.Git(ctx, dir, args...)
	var failed *gitbridge.GitError
	if errors.As(err, &failed) && failed.Stderr != "" {
		return "", errs.Fail(errs.Failed, "git: %s", failed.Stderr)
	}
	return out, err
}
