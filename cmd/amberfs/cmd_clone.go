package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
)

func cloneCommand(a *app) *cobra.Command {
	var o cloneOptions
	cmd := &cobra.Command{
		Use:   "clone [OPTIONS] REPOSITORY [DIR]",
		Short: "Do what git clone does, faster",
		Long: `Clones REPOSITORY, a URL or a path, into the new directory DIR of the workspace,
without writing the worktree file by file. The result is what git clone makes:
a complete .git, and a worktree and index that git status finds clean without
reading a file. Git runs here, with your settings and credentials.`,
		Args: args(1, 2, "a REPOSITORY and perhaps a DIR"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			dir := cloneDir(argv[0])
			if len(argv) == 2 {
				dir = argv[1]
			}
			if dir == "" {
				return fail.New(fail.Usage, "%s has no name for a directory", argv[0]).WithHint("give one as the second argument")
			}
			o.url = argv[0]
			o.limited = cmd.Flags().Changed("depth")
			return a.clone(cmd.Context(), o, dir)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.branch, "branch", "b", "", "check out `BRANCH`, or a tag, instead of the remote's HEAD")
	f.IntVar(&o.depth, "depth", 0, "of the history only the last `N` commits")
	f.StringVarP(&o.origin, "origin", "o", "", "call the remote `NAME` instead of origin")
	f.BoolVar(&o.single, "single-branch", false, "of the branches only the one that is checked out")
	f.BoolVar(&o.noTags, "no-tags", false, "no tags")
	f.StringArrayVarP(&o.config, "config", "c", nil, "set `KEY=VALUE` in the new repository")
	f.BoolVar(&o.submodules, "recurse-submodules", false, "clone the submodules too")
	return cmd
}

// cloneOptions are those of git clone that make sense here.
type cloneOptions struct {
	url, branch, origin        string
	depth                      int
	limited                    bool // by depth
	single, noTags, submodules bool
	config                     []string
}

// git are the options as git clone has them.
func (o cloneOptions) git() []string {
	var out []string
	if o.branch != "" {
		out = append(out, "--branch="+o.branch)
	}
	if o.limited {
		out = append(out, "--depth="+strconv.Itoa(o.depth))
	}
	if o.origin != "" {
		out = append(out, "--origin="+o.origin)
	}
	if o.single {
		out = append(out, "--single-branch")
	}
	if o.noTags {
		out = append(out, "--no-tags")
	}
	for _, kv := range o.config {
		out = append(out, "--config="+kv)
	}
	return out
}

func (a *app) clone(ctx context.Context, o cloneOptions, dir string) error {
	p, err := a.place()
	if err != nil {
		return err
	}
	req := api.Import{From: api.FromClone, Umask: uint32(umask())}
	to, err := destination(p, []string{dir})
	if err != nil {
		return err
	}
	req.Path = snapshot.BytePath(to)
	if isLocal(o.url) {
		if o.url, err = a.abs(o.url); err != nil {
			return err
		}
	}
	c := gitbridge.CloneOptions{URL: o.url, Args: o.git(), TempDir: p.Store}
	if !a.json && isTerminal(a.stderr) {
		c.Log = a.stderr
	}
	bar := a.newProgress()
	var skipped []api.Skipped
	c.ImportOptions = a.importOptions(bar, req.Umask, &skipped)
	c.Skip = nil
	var clone *gitbridge.Cloned
	imported, err := a.bringIn(ctx, p, req, func(ctx context.Context, sink gitbridge.Sink) (err error) {
		clone, err = gitbridge.Clone(ctx, c, sink)
		return err
	})
	bar.done()
	if err != nil {
		return err
	}
	if dir, err = a.inside(dir); err != nil {
		return err
	}
	if clone.Index != nil {
		if err := a.stampIndex(ctx, p, to, dir, clone); err != nil {
			a.note("the first git status will read every file: %v", err)
		}
	}
	if o.submodules {
		if err := a.updateSubmodules(ctx, dir); err != nil {
			return err
		}
	}
	done := api.Cloned{Commit: clone.Commit, Imported: imported}
	return a.print(done, func() {
		a.printf("cloned %s, %s to %s\n", plural(int(done.Files), "file", "files"), bytesText(done.Bytes), quote(done.Path))
	})
}

// stampIndex replaces the index of a clone by one that knows its files. It is
// written through the mount, as git does, so that the kernel knows of it.
func (a *app) stampIndex(ctx context.Context, p locate.Place, path, dir string, c *gitbridge.Cloned) error {
	var index bytes.Buffer
	err := a.ask(ctx, p, request{
		op: "stampindex", args: api.StampIndex{Path: snapshot.BytePath(path), SHA256: c.SHA256}, input: bytes.NewReader(c.Index), output: &index,
	}, nil)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, ".git", "index")
	f, err := os.OpenFile(name+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(index.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(name+".lock", name)
	}
	if err != nil {
		os.Remove(name + ".lock")
	}
	return err
}

// updateSubmodules lets git fetch what the clone's commit names.
func (a *app) updateSubmodules(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "-C", dir, "submodule", "update", "--init", "--recursive")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stderr, a.stderr
	if err := cmd.Run(); err != nil {
		return fail.New(fail.Failed, "the clone is there, but not all of its submodules: %w", err).
			WithHint("go on with `git -C %s submodule update --init --recursive`", quote(dir))
	}
	return nil
}

// inside makes a path in the workspace absolute.
func (a *app) inside(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	wd, err := a.cwd()
	return filepath.Join(wd, path), err
}

// cloneDir is the directory that git clone would choose.
func cloneDir(url string) string {
	s := strings.TrimRight(url, "/")
	s = strings.TrimSuffix(s, "/.git")
	s = strings.TrimRight(s, "/")
	if i := strings.LastIndexAny(s, "/:"); i >= 0 {
		s = s[i+1:]
	}
	s = strings.TrimSuffix(strings.TrimSuffix(s, ".git"), ".bundle")
	return path.Clean("/" + s)[1:]
}

// isLocal says whether a repository's name is a path, by git's rules: no
// scheme, and no colon before the first slash.
func isLocal(url string) bool {
	if strings.Contains(url, "://") {
		return false
	}
	colon, slash := strings.IndexByte(url, ':'), strings.IndexByte(url, '/')
	return colon < 0 || slash >= 0 && slash < colon
}
