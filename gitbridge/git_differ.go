package gitbridge

import (
	"context"
	"errors"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Unchanged reports whether two states are equal. It ignores times of directories, and files that git rewrote with
// the same meaning, as git status and git gc do. With logs, a new line in the log of HEAD is a difference, too. With
// paths, it compares only these and the paths below them.
func Unchanged(ctx context.Context, src *tree.Source, base, now *tree.State, logs bool, paths ...string) (bool, error) {
	git := NewGitDiffer(src, base, now)
	git.compareLogs = logs
	err := tree.Diff(ctx, src, base, now, tree.DiffOptions{Paths: paths}, func(c tree.Change) error {
		if c.Before != nil && c.After != nil && c.After.IsDir() && c.Differences&^tree.MtimeDiffers == 0 {
			return nil
		}
		differs, err := git.Differs(c)
		if err == nil && differs {
			err = errDiffers
		}

		return err
	})
	if errors.Is(err, errDiffers) {
		return false, nil
	}

	return err == nil, err
}

// A GitDiffer tells which changes in git directories have a meaning for git. Others have none: git rewrites
// some files without changing their meaning.
type GitDiffer struct {
	dirs        gitDirs
	compareLogs bool            // whether a new line in the log of HEAD is a difference
	sameDirs    map[string]bool // by path of a git directory: whether both states of it have the same meaning
}

// NewGitDiffer returns a GitDiffer for the changes from base to now.
func NewGitDiffer(src *tree.Source, base, now *tree.State) *GitDiffer {
	return &GitDiffer{dirs: gitDirs{src, base, now, make(map[string]bool)}, sameDirs: make(map[string]bool)}
}

// Differs reports whether a change has a meaning for git. The change of an ordinary file always has a meaning.
// The change of one of git's own files has a meaning only if gitdir.SameState reports that the two states of
// the git directory differ.
func (g *GitDiffer) Differs(c tree.Change) (bool, error) {
	at, err := g.dirs.innermost(c.Path.String())
	if err != nil {
		return false, err
	}

	rel, below := strings.CutPrefix(c.Path.String(), at+"/")
	if at == "" || !below || gitdir.IsOrdinaryFile(rel) {
		return true, nil
	}

	if _, known := g.sameDirs[at]; !known {
		before, after := treeFiles{g.dirs.src, g.dirs.base, at, nil}, treeFiles{g.dirs.src, g.dirs.now, at, nil}
		if g.sameDirs[at], err = gitdir.SameState(before, after); err != nil {
			return false, err
		}

		g.sameDirs[at] = g.sameDirs[at] && (!g.compareLogs || gitdir.SameLog(before, after))
	}

	return !g.sameDirs[at], nil
}

var errDiffers = errors.New("it differs")
