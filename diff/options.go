package diff

import (
	"context"

	"github.com/amberfs/amberfs/internal/budget"
)

// Options say what is compared and how it is shown. The zero value is the
// default of `git diff`.
type Options struct {
	// Paths limits the comparison to these files and subtrees, relative to the
	// root. None means everything. Renames are found among them only.
	Paths []string
	// Binary writes binary files as `GIT binary patch` instead of one line.
	Binary bool
	// gitDirs keeps paths below a ".git", which git apply would refuse.
	gitDirs bool
	// Memory bounds what comparing texts takes, together with others that share it.
	// Texts that it could never hold are shown as replaced.
	Memory *budget.Budget
	// List is charged with what the list of changed files takes.
	List *budget.Charge
	// effort is what comparing texts may still take; nil for diffCost.
	effort *effort
	// TextOf leaves out hunks that end within the first Skip lines of all, and those that
	// begin more than Lines later, unless that is 0.
	Skip, Lines int
	// Width is the number of columns for Stat, at most 1,000; 0 means 80.
	Width int
}

func (o Options) withEffort(ctx context.Context) Options {
	if o.effort == nil {
		o.effort = &effort{ctx, diffCost}
	}
	return o
}

const (
	contextLines = 3        // unchanged lines around a change
	maxText      = 64 << 20 // bytes; a larger file counts as binary, and is not read
	maxPatch     = 4 << 30  // bytes of a file in a binary patch
	defaultWidth = 80
	minWidth     = 20
	maxWidth     = 1000
)
