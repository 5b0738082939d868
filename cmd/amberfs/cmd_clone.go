package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

func cloneCommand(a *app) *cobra.Command {
	var req api.Clone
	cmd := &cobra.Command{
		Use:   "clone REPOSITORY [DIR]",
		Short: "Do what git clone does, faster",
		Long: `Clones REPOSITORY, a URL or a path, into the new directory DIR of the workspace,
without writing the worktree file by file. The result is what git clone makes:
a complete .git, and a worktree and index that git status finds clean.

Git runs in the daemon's environment: what it needs to log in somewhere (an SSH
agent, a credential helper) is what there was when the workspace was mounted.`,
		Args: args(1, 2, "a REPOSITORY and perhaps a DIR"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			dir := cloneDir(argv[0])
			if len(argv) == 2 {
				dir = argv[1]
			}
			if dir == "" {
				return fail.New(fail.Usage, "%s has no name for a directory", argv[0]).WithHint("give one as the second argument")
			}
			return a.clone(cmd, req, argv[0], dir)
		},
	}
	cmd.Flags().StringVarP(&req.Branch, "branch", "b", "", "check out `BRANCH` instead of the remote's HEAD")
	cmd.Flags().IntVar(&req.Depth, "depth", 0, "of the history only the last `N` commits")
	return cmd
}

func (a *app) clone(cmd *cobra.Command, req api.Clone, url, dir string) error {
	p, err := a.place()
	if err != nil {
		return err
	}
	if req.Path, err = relPath(p, dir); err != nil {
		return err
	}
	req.URL, req.Umask = url, uint32(umask())
	if isLocal(url) {
		if req.URL, err = a.abs(url); err != nil {
			return err
		}
	}
	var index bytes.Buffer
	var done api.Cloned
	if err := a.ask(cmd.Context(), p, request{op: "clone", args: req, output: &index, progress: true}, &done); err != nil {
		return err
	}
	if index.Len() > 0 {
		if !filepath.IsAbs(dir) {
			wd, err := a.cwd()
			if err != nil {
				return err
			}
			dir = filepath.Join(wd, dir)
		}
		name := filepath.Join(dir, ".git", "index")
		if err := os.WriteFile(name, index.Bytes(), os.FileMode(0o666&^req.Umask)); err != nil {
			return fail.New(fail.KindOf(err), "the clone is there, but without its index: %w", err).
				WithHint("make it with `git -C %s reset`", quote(dir))
		}
	}
	return a.print(done, func() {
		a.printf("cloned %s, %s to %s\n", plural(int(done.Files), "file", "files"), bytesText(done.Bytes), quote(done.Path))
	})
}

// cloneDir is the directory that git clone would choose.
func cloneDir(url string) string {
	s := strings.TrimRight(url, "/")
	s = strings.TrimSuffix(s, "/.git")
	s = strings.TrimRight(s, "/")
	if i := strings.LastIndexAny(s, "/:"); i >= 0 {
		s = s[i+1:]
	}
	s = strings.TrimSuffix(s, ".git")
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
