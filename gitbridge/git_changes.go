package gitbridge

import (
	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// mostOfGitDirs limits the bytes that RefChanges reads of both states together: the author of a git
// directory chooses its size.
const mostOfGitDirs = 32 << 20

// RefChanges describes in git's words how the git directory dir changed from base to now, see
// [gitdir.Moved]. It returns no lines if dir is not a git directory in one of the states. It fails if
// it would read more than mostOfGitDirs bytes.
func RefChanges(src *tree.Source, base, now *tree.State, dir string) ([]string, error) {
	left := int64(mostOfGitDirs)
	was, is := treeFiles{src, base, dir, &left}, treeFiles{src, now, dir, &left}
	for _, f := range []treeFiles{was, is} {
		if one, err := gitdir.IsGitDir(f); err != nil || !one {
			return nil, err
		}
	}
	return gitdir.DescribeChanges(was, is)
}
