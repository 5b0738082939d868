package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/hooks"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/worktrees"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// worktreeHookCommand is the hidden command that the plugin's hooks start.
const worktreeHookCommand = "worktree-hook"

func worktreeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worktree add|list|remove",
		Short: "Forks that git lists as worktrees",
		Example: `  amberfs worktree add login
  amberfs worktree list
  amberfs worktree remove login`,
		Args: argumentCountCheck(1, 1, "add, list or remove"),
		RunE: func(_ *cobra.Command, argv []string) error {
			return errs.Fail(errs.Invalid, "no such command: worktree %s", argv[0]).WithHint("see `amberfs help worktree`")
		},
	}
	for _, c := range []*cobra.Command{worktreeAddCommand(a), worktreeListCommand(a), worktreeRemoveCommand(a)} {
		c.DisableFlagsInUseLine = true
		cmd.AddCommand(c)
	}

	return cmd
}

func worktreeAddCommand(a *app) *cobra.Command {
	var branch string
	cmd := &cobra.Command{
		Use:   "add NAME [PATH] [-b BRANCH]",
		Short: "Create a fork with a branch",
		Long: `Creates the fork NAME with a new branch, and prints its path. PATH, otherwise
.claude/worktrees/NAME, becomes a link to it. It lacks what lines of .amberhide hide. An
ordinary directory has a copy for them, mounted at .claude/worktrees/.amberfs.`,
		Example: `  cd "$(amberfs worktree add login)"`,
		Args:    argumentCountCheck(1, 2, "a NAME and perhaps a PATH"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			w, err := addWorktree(cmd.Context(), a, argv[0], strings.Join(argv[1:], ""), branch)
			if err != nil {
				return err
			}
			return a.print(w, func() { a.printf("%s\n", w.Path) })
		},
	}

	cmd.Flags().StringVarP(&branch, "branch", "b", "", "another `BRANCH` than worktree-NAME")
	return cmd
}

func worktreeListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List them: name, branch and path",
		Example: `  amberfs worktree list`,
		Args:    argumentCountCheck(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return listWorktrees(cmd.Context(), a) },
	}
}

// listWorktrees prints the worktrees of the repository of the working directory.
func listWorktrees(ctx context.Context, a *app) error {
	r, _, err := repositoryHere(ctx, a, false)
	if err != nil {
		return err
	}

	all, err := r.List(ctx)
	if err != nil {
		return err
	}

	var rows [][]string
	for _, w := range all {
		rows = append(rows, []string{w.Name, cmp.Or(w.Branch, "-"), w.Path})
	}

	return a.print(all, func() { a.printRows(rows) })
}

func worktreeRemoveCommand(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Delete the fork; its last state becomes a snapshot",
		Example: `  amberfs worktree remove login`,
		Args:    argumentCountCheck(1, 1, "a NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			done, err := removeWorktree(cmd.Context(), a, argv[0], "", force)
			if err != nil {
				return err
			}
			return a.print(done, func() {
				a.printf("worktree %s removed: its last state is the snapshot %s\n", done.Name, done.Snapshot)
			})
		},
	}

	cmd.Flags().BoolVar(&force, "force", false, "also with programs in it")
	return cmd
}

// checkNotFork returns an error for a location in a fork of the mounted workspace. Git must not be started there: a
// program in the fork may have written the fork's .git, which can name programs that git executes. In a sandbox that
// shows only a fork, checkNotFork returns nil, because there the fork is the mounted workspace.
func checkNotFork(p locate.Location) error {
	root, ok := p.Root()
	if !ok {
		return errs.Fail(errs.Failed, "the root of the workspace is not mounted here")
	}
	if root == p.Mount.Mountpoint {
		return nil
	}

	return errs.Fail(errs.Invalid, "this directory is in the fork %s", p.Workspace[len(p.Workspace)-1]).
		WithHint("go into the repository's main worktree")
}

// repositoryHere returns the repository of the current directory, and the location of the workspace in which the
// repository's worktrees are made. For a directory outside of a mount, this workspace is a copy of the directory. If
// makesCopy is set, repositoryHere makes or refreshes the copy.
func repositoryHere(ctx context.Context, a *app, makesCopy bool) (*worktrees.Repository, locate.Location, error) {
	wd, err := a.commandDir()
	if err != nil {
		return nil, locate.Location{}, err
	}
	if real, err := filepath.EvalSymlinks(wd); err == nil {
		wd = real // a symbolic link may lead into a fork
	}

	p, err := a.locationOf(wd)
	if err == nil {
		err = checkNotFork(p)
	}

	if errs.ScriptKind(err) == errs.NotExist {
		if wd, err = mountCopyForWorktrees(ctx, a, wd, makesCopy); err == nil {
			p, err = a.locationOf(wd)
		}
	}
	if err != nil {
		return nil, p, err
	}

	root, _ := p.Root()
	if r, ok := worktrees.RepositoryOfCopy(root); ok {
		return r, p, nil
	}

	r, err := worktrees.Open(ctx, wd, root)
	return r, p, err
}

// addWorktree makes a fork, and a worktree of git in it. It makes a symbolic link to the worktree at the path link.
func addWorktree(ctx context.Context, a *app, name, link, branch string) (w worktrees.Worktree, err error) {
	r, p, err := repositoryHere(ctx, a, true)
	if err != nil {
		return w, err
	}

	if link == "" {
		link = r.DefaultLink(name)
	} else if wd, err := a.commandDir(); err != nil {
		return w, err
	} else if !filepath.IsAbs(link) {
		link = filepath.Join(wd, link)
	}

	if _, err := os.Lstat(link); err == nil {
		return w, errs.Fail(errs.Exist, "%s exists", link).WithHint("name another PATH")
	}

	head, err := r.HeadCommit(ctx)
	if err != nil {
		return w, err
	}
	hidden, err := worktreePatterns(ctx, a, r)
	if err != nil {
		return w, err
	}
	if err := a.call(ctx, p, snapshot.ForkOptions{Name: name, Hide: r.WorkspacePatterns(hidden)}, nil); err != nil {
		return w, err
	}
	if branch == "" {
		branch = r.NewBranchName(ctx, name)
	}
	if w, err = r.Add(ctx, name, branch, head, link); err != nil {
		err = errors.Join(err, a.call(context.WithoutCancel(ctx), p, service.DeleteFork{Name: name, Discard: true, Forget: true}, nil))
	}

	return w, err
}

// removeWorktree removes the worktree with a name. It fails if path is not "" and the worktree has another path.
func removeWorktree(ctx context.Context, a *app, name, path string, force bool) (deleted service.DeletedFork, err error) {
	r, p, err := repositoryHere(ctx, a, false)
	if err != nil {
		return deleted, err
	}

	w, err := r.Find(ctx, name)
	if err != nil {
		return deleted, err
	}
	if path != "" && w.Path != path {
		return deleted, errs.Fail(errs.NotExist, "%s is in the worktree %s, and none itself", path, name)
	}
	if err := a.call(ctx, p, service.DeleteFork{Name: name, Force: force}, &deleted); err != nil && errs.ScriptKind(err) != errs.NotExist {
		return deleted, err
	}

	deleted.Name = name
	return deleted, r.RemoveEntry(ctx, w)
}

// handleWorktreeHook is Claude Code's hook for worktrees. With "create" it makes a worktree and prints its path, with
// "remove" it removes one. If amberfs cannot make a worktree, git makes an ordinary one, as Claude Code does without
// the hook.
func handleWorktreeHook(ctx context.Context, a *app, argv []string) error {
	in, err := hooks.ReadInput(io.LimitReader(a.stdin, maxHookInputBytes))
	if err != nil {
		return err
	}
	if argv[0] == "remove" {
		return removeWorktreeAt(ctx, a, in.WorktreePath)
	}

	a.dir = in.Cwd
	name := hooks.ForkName(in.WorktreeName)
	w, err := addWorktree(ctx, a, name, "", "")
	if errs.ScriptKind(err) == errs.Exist {
		var r *worktrees.Repository
		if r, _, err = repositoryHere(ctx, a, false); err == nil {
			w, err = r.Find(ctx, name)
		}
	}

	if err == nil {
		a.printf("%s\n", w.Path)
		return nil
	}

	r, from, perr := plainRepository(ctx, a)
	if perr != nil {
		return perr
	}

	a.note("%v: git makes the worktree", err)
	path, err := r.AddPlain(ctx, name, from)
	if err != nil {
		return err
	}

	a.printf("%s\n", path)
	return nil
}

// plainRepository returns the repository in which git makes a new worktree for the current directory. If the current
// directory is in a fork that is a worktree, plainRepository also returns this worktree, at whose commit the new
// worktree begins. Otherwise the second result is nil.
func plainRepository(ctx context.Context, a *app) (*worktrees.Repository, *worktrees.Worktree, error) {
	wd, err := a.commandDir()
	if err != nil {
		return nil, nil, err
	}
	if wd, err = filepath.EvalSymlinks(wd); err != nil {
		return nil, nil, err
	}

	p, err := a.locationOf(wd)
	if err == nil {
		err = checkNotFork(p)
	}

	if err == nil || errs.ScriptKind(err) == errs.NotExist { // wd is in a workspace that is no fork, or outside of a mount
		r, err := worktrees.OpenPlain(ctx, wd)
		return r, nil, err
	}

	if last := len(p.Workspace) - 1; last >= 0 {
		above := p
		above.Workspace = p.Workspace[:last]
		root, _ := above.Root()
		if r, w := worktrees.FindInFork(root, p.Workspace[last], p.Path); r != nil {
			return r, w, nil
		}
	}

	return nil, nil, err
}

// removeWorktreeAt removes a worktree by its path. A worktree that git made is removed by git, which refuses to lose
// changes.
func removeWorktreeAt(ctx context.Context, a *app, path string) error {
	const forks = "/" + naming.ForksDir + "/"
	i := strings.LastIndex(path, forks)
	if i < 0 {
		return worktrees.RemovePlain(ctx, path)
	}

	name, rel, _ := strings.Cut(path[i+len(forks):], "/")
	a.dir = filepath.Join(path[:i], rel)
	done, err := removeWorktree(ctx, a, name, filepath.Clean(path), true)
	if err != nil {
		return err
	}

	a.note("the last state of the worktree %s is the snapshot %s", name, done.Snapshot)
	return nil
}
