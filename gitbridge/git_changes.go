package gitbridge

import (
	"fmt"
	"path"

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
	was, is := boundedFiles{treeFiles{src, base, dir}, &left}, boundedFiles{treeFiles{src, now, dir}, &left}
	if !gitdir.Is(was) || !gitdir.Is(is) {
		return nil, nil
	}
	return gitdir.Moved(was, is)
}

// boundedFiles are the files of a git directory of which only left bytes can be read.
type boundedFiles struct {
	treeFiles
	left *int64
}

// Read reads a file, if it is not larger than what is left.
func (f boundedFiles) Read(name string) ([]byte, error) {
	n, err := f.lookup(name)
	if err != nil {
		return nil, err
	}
	if n != nil && n.IsRegular() {
		if err := f.take(name, n.Size()); err != nil {
			return nil, err
		}
	}
	return f.treeFiles.Read(name)
}

// List lists a directory. Each of its names counts as the bytes that it takes in memory.
func (f boundedFiles) List(name string) ([]gitdir.Name, error) {
	const nameSize = 256 // the longest name has 255 bytes
	n, err := f.lookup(name)
	if err != nil {
		return nil, err
	}
	if n != nil && n.IsDir() {
		if err := f.take(name, nameSize*int64(n.Dir.Len())); err != nil {
			return nil, err
		}
	}
	return f.treeFiles.List(name)
}

// take counts bytes that are to be read.
func (f boundedFiles) take(name string, bytes int64) error {
	if bytes > *f.left {
		return fmt.Errorf("%s: there is too much to read", path.Join(f.at, name))
	}
	*f.left -= bytes
	return nil
}
