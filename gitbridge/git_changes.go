package gitbridge

import (
	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// maxRefBytes limits the bytes that RefChanges reads of both states together: the author of a git
// directory chooses its size.
const maxRefBytes = 32 << 20

// RefChanges describes in git's words how the git directory dir changed from base to now, see
// [gitdir.DescribeChanges]. It returns no lines if dir is not a git directory in one of the states. It fails if
// it would read more than maxRefBytes bytes.
func RefChanges(src *tree.Source, base, now *tree.State, dir string) ([]string, error) {
	budget := int64(maxRefBytes)
	before, after := treeFiles{src, base, dir, &budget}, treeFiles{src, now, dir, &budget}
	for _, f := range []treeFiles{before, after} {
		if one, err := gitdir.IsGitDir(f); err != nil || !one {
			return nil, err
		}
	}
	return gitdir.DescribeChanges(before, after)
}
