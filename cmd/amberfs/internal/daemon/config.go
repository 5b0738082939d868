package daemon

import (
	"io"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
)

// Config says what to mount, where and how. Paths are absolute once Check has
// seen them.
type Config struct {
	Store      string
	Mountpoint string
	Options    mountopt.Options
	// From fills a new store; empty for none.
	From string
	// Version is the program's, for the log and for hello.
	Version string
	// LogTo gets the log besides the file; nil for none.
	LogTo io.Writer
}
