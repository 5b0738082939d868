package hostdir

import (
	"cmp"
	"context"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// Git reads and changes git repositories. This package has no code for git itself.
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
	Ours    *tree.State   // the directory, read at the paths of Changes and below the directories that Now does not have
	Dir     Receiver
}

// Rule returns the rule for a path in conflict.
func (o *ApplyOptions) Rule(name string) threeway.Rule {
	return cmp.Or(o.ChoiceOf(name).ConflictRule, o.ConflictRule)
}

// ChoiceOf returns the choice for a path.
func (o *ApplyOptions) ChoiceOf(name string) Choice {
	if o.Choose == nil {
		return Choice{}
	}
	return o.Choose(name)
}

// Repositories is the plan for the git directories of a directory.
type Repositories struct {
	threeway.GitOutcome
	AddObjects func() error                      // adds objects, and changes no ref
	Commit     func() ([]stream.Omission, error) // changes refs; called after the files were written
}

func (r Repositories) close() {
	if r.Close != nil {
		r.Close()
	}
}
