package gitbridge

import "github.com/amberfs/amberfs/internal/budget"

// A Merger brings git directories together. Its method Repositories is a threeway.Repositories.
type Merger struct {
	// Memory is charged with the memory of git. May be nil.
	Memory *budget.Budget
	// Admit, if set, is asked before a file is stored, and may refuse that.
	Admit func(bytes int64) error
}

// gitMemory is what git takes to bring two git directories together, in bytes.
const gitMemory = 8 << 20
