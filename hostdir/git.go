package hostdir

import (
	"cmp"
	"context"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// Git is what a directory asks of git. This package knows nothing of git itself.
type Git interface {
	// Linked returns the directory that the entry `.git` of a directory names; nil if that is in
	// root, or no git directory.
	Linked(dir, root string) *Linked
	// Ignored reports which paths a file of patterns names, as .gitignore does. Paths of directories
	// end with "/". Without the file it names none.
	Ignored(ctx context.Context, file string, paths []string) ([]bool, error)
	// Plan plans what becomes of the git directories of a directory.
	Plan(ctx context.Context, in RepositorySides) (Repositories, error)
}

// RepositorySides are what the repositories of a directory are planned from.
type RepositorySides struct {
	*ApplyOptions
	Changes []tree.Change // from Base to Now
	Dir     Receiver
}

// Rule is the rule for a path in conflict.
func (o *ApplyOptions) Rule(name string) threeway.Rule {
	return cmp.Or(o.ChoiceOf(name).Conflicts, o.Conflicts)
}

func (o *ApplyOptions) ChoiceOf(name string) Choice {
	if o.Choose == nil {
		return Choice{}
	}
	return o.Choose(name)
}

// Repositories are what an apply does to the git directories of a directory.
type Repositories struct {
	Changes   []tree.Change // those that are ordinary files
	Take      []string      // files that get what the workspace has, whatever the base has
	Merged    map[string]MergedFile
	Said      []threeway.Repository
	Conflicts []string // paths, not decided

	AddObjects func() error                      // changes no ref
	Commit     func() ([]stream.Omission, error) // after the files
	Close      func()
}

func (r Repositories) close() {
	if r.Close != nil {
		r.Close()
	}
}

// A MergedFile is what a merge of git makes of the versions of a file.
type MergedFile struct {
	Data []byte // nil: it is removed
	Exec bool
}
