package hostdir

import (
	"cmp"
	"context"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// Git is the interface to git. The package itself has no code for git.
type Git interface {
	// Linked returns the git directory to which the file `.git` of dir leads. It returns nil if that path is
	// below root, or is not a git directory.
	Linked(dir, root string) *LinkedDir
	// Ignored reports which paths match the patterns in a file, as in .gitignore. Paths of directories
	// end with "/". If the file does not exist, no path matches.
	Ignored(ctx context.Context, file string, paths []string) ([]bool, error)
	// Plan plans the changes of the git directories of a directory.
	Plan(ctx context.Context, in RepositorySides) (Repositories, error)
}

// RepositorySides are the arguments of Git.Plan.
type RepositorySides struct {
	*ApplyOptions
	Changes []tree.Change // from Base to Now
	Ours    *tree.State   // the directory's entries, at the paths of Changes and below the directories that Now does not have
	Dir     Receiver
}

// Rule returns the rule for a path in conflict.
func (o *ApplyOptions) Rule(name string) threeway.Rule {
	return cmp.Or(o.ChoiceOf(name).Conflicts, o.Conflicts)
}

func (o *ApplyOptions) ChoiceOf(name string) Choice {
	if o.Choose == nil {
		return Choice{}
	}
	return o.Choose(name)
}

// Repositories is the plan for the git directories of a directory.
type Repositories struct {
	Changes   []tree.Change // changes that are applied like changes of ordinary files
	Take      []string      // files that get the workspace's version, even if the base has another version
	Merged    map[string]MergedFile
	Said      []threeway.Repository
	Conflicts []string // paths in conflict that no rule decides

	AddObjects func() error                      // adds objects, and changes no ref
	Commit     func() ([]stream.Omission, error) // changes refs; called after the files were written
	Close      func()
}

func (r Repositories) close() {
	if r.Close != nil {
		r.Close()
	}
}

// A MergedFile is a file that a git merge has changed.
type MergedFile struct {
	Exec bool
	Data []byte // nil if the merge removes the file
}
