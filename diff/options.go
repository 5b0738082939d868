package diff

import (
	"context"

	"github.com/amberfs/amberfs/internal/budget"
)

// Options are the options of a comparison and its output. The zero value is the default of `git diff`.
type Options struct {
	// Paths limits the comparison to these files and subtrees, relative to the
	// root. If it is empty, everything is compared. Renames are found among these files only.
	Paths []string
	// Binary is set if binary files are written as `GIT binary patch` instead of one line.
	Binary bool
	// gitDirs is set if paths below a ".git" are listed, too, which git apply would refuse.
	gitDirs bool
	// Memory is the pool for the memory of text comparisons, which other requests share; nil for no
	// bounds. Texts that need more than all of it are shown as replaced.
	Memory *budget.Budget
	// List is charged with the memory of the list of changed files.
	List *budget.Charge
	// steps has the steps that comparisons may still take; nil for maxDiffSteps.
	steps *stepBudget
	// SkipLines and MaxLines select hunks in TextOf, by the number of lines in all hunks. TextOf leaves out a hunk
	// that ends within the first SkipLines lines. It also leaves out a hunk that follows more than SkipLines+MaxLines
	// lines, unless MaxLines is 0.
	SkipLines, MaxLines int
	// Width is the number of columns for Stat, at most 1,000; 0 means 80.
	Width int
}

func (o Options) withStepBudget(ctx context.Context) Options {
	if o.steps == nil {
		o.steps = &stepBudget{ctx, maxDiffSteps}
	}
	return o
}

const (
	contextLines       = 3        // unchanged lines around a change
	maxTextSize        = 64 << 20 // bytes; a larger file counts as binary, and is not read
	maxPatchedFileSize = 4 << 30  // bytes of a file in a binary patch
	defaultWidth       = 80
	minWidth           = 20
	maxWidth           = 1000
)
