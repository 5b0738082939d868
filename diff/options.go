package diff

import "github.com/amberfs/amberfs/internal/budget"

// Options say what is compared and how it is shown. The zero value is the
// default of `git diff`.
type Options struct {
	// Paths limits the comparison to these files and subtrees, relative to the
	// root. None means everything. Renames are found among them only.
	Paths []string
	// Binary writes binary files as `GIT binary patch` instead of one line.
	Binary bool
	// Context is the number of unchanged lines around a change: 0 means 3,
	// negative means none.
	Context int
	// NoRenames shows a rename as a deletion and an addition.
	NoRenames bool
	// GitDirs makes Write and Stat keep paths below a ".git", which git apply
	// would refuse. NameStatus and Files always list them.
	GitDirs bool
	// MaxText is the size in bytes from which a file counts as binary.
	// 0 means 64 MiB.
	MaxText int64
	// Memory bounds what comparing texts takes, together with others that share it.
	// Texts that it could never hold are shown as replaced.
	Memory *budget.Budget
	// List is charged with what the list of changed files takes.
	List *budget.Charge
	// Width is the number of columns for Stat; 0 means 80.
	Width int
}

const (
	defaultContext = 3
	defaultMaxText = 64 << 20
	defaultWidth   = 80
)

func (o Options) context() int {
	switch {
	case o.Context < 0:
		return 0
	case o.Context == 0:
		return defaultContext
	}
	return o.Context
}

func (o Options) maxText() int64 {
	if o.MaxText <= 0 {
		return defaultMaxText
	}
	return o.MaxText
}

func (o Options) width() int {
	if o.Width <= 0 {
		return defaultWidth
	}
	return o.Width
}
