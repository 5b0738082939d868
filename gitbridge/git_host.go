package gitbridge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// HostGit implements hostdir.Git, for the git directories in a directory of the host.
type HostGit struct {
	git gitdir.Git // if nil, runGit is called
}

// The `.git` file of a linked worktree, of a submodule or of a repository with a separate git directory
// names a git directory outside of the imported directory. Then the workspace gets a copy of the git
// directory. The copy has the branches, the logs, git's own files of this working tree (HEAD, the index)
// and a plain configuration. It uses the original objects as alternates. An apply merges the changes of
// the copy into the original git directories.

const alternatesPath = "objects/info/alternates"

// alternatesOf returns the text for the file alternatesPath of the copy. The text is the path of the directory
// with the link's objects.
func alternatesOf(l *gitdir.Link) string { return filepath.Join(l.Common, "objects") + "\n" }

// linkOutside returns the link in the entry `.git` of a directory. It returns nil if the link names
// root, a path below root, or no git directory.
func linkOutside(dir, root string) *gitdir.Link {
	l := gitdir.LinkAt(dir)
	if l == nil || naming.IsUnder(l.Dir, root) {
		return nil
	}
	return l
}

// remedyFor tells the user how to make an untrusted git directory trusted.
func remedyFor(l *gitdir.Link) string {
	return fmt.Sprintf("`git --git-dir=%s config core.worktree DIR` does that for a repository of yours", l.Dir)
}

// Linked implements hostdir.Git.
func (HostGit) Linked(dir, root string) *hostdir.LinkedDir {
	l := linkOutside(dir, root)
	if l == nil {
		return nil
	}

	out := &hostdir.LinkedDir{GitDir: l.Dir, CommonDir: l.Common, IsCopied: gitdir.IsCopied, MixedDirs: []string{"info", "logs", "logs/refs", "refs"}}
	if !l.Trusted {
		out.Err = fmt.Errorf("the repository %s, %w (%s)", l.Dir, hostdir.ErrNoBackLink, remedyFor(l))
		return out
	}

	common, err := readRegular(filepath.Join(l.Common, "config"))
	if err != nil {
		out.Err = fmt.Errorf("the repository %s, whose settings cannot be read: %w", l.Dir, err)
		return out
	}

	own, _ := readRegular(filepath.Join(l.Dir, "config.worktree")) // the file is optional; git sparse-checkout writes it
	out.MadeEntries = []hostdir.LinkedEntry{{Name: "."}, {Name: "objects"}, {Name: "objects/info"}, {Name: "objects/pack"},
		{Name: alternatesPath, Text: []byte(alternatesOf(l))}, {Name: "config", Text: []byte(gitdir.PlainConfig(string(common), string(own)))}}
	return out
}

// Ignored implements hostdir.Git. It runs git in an empty repository.
func (HostGit) Ignored(ctx context.Context, file string, paths []string) ([]bool, error) {
	patterns, err := readRegular(file)
	if err != nil {
		return nil, errs.Ignore(err, os.ErrNotExist)
	}

	return ignoredBy(ctx, map[string][]byte{IgnoreFile: patterns}, paths)
}
