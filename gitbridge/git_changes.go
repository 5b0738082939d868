package gitbridge

import (
	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// mostOfGitDirs bounds the bytes that RefChanges reads of both states: anybody can write a git directory.
const mostOfGitDirs = 32 << 20

// RefChanges says in git's words what changed in a git directory from one state to another, see
// [gitdir.Moved]. It says nothing if the directory is no git directory in one of the states. It fails
// if there is more to read than mostOfGitDirs.
func RefChanges(src *tree.Source, base, now *tree.State, dir string) ([]string, error) {
	left := int64(mostOfGitDirs)
	was, is := treeFiles{src, base, dir, &left}, treeFiles{src, now, dir, &left}
	for _, f := range []treeFiles{was, is} {
		if one, err := gitdir.Is(f); err != nil || !one {
			return nil, err
		}
	}
	return gitdir.Moved(was, is)
}
