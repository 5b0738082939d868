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
	// Later brings the contents of From in while the mount is in use. A store whose
	// daemon is killed before that is done is lost.
	Later bool
	// Shared is a daemon of `run` in a mount namespace of its own. It ends with its last
	// user.
	Shared bool
	// Remote is the URL@SNAPSHOT that a new store begins with; empty for none. A
	// store that is there is mounted as it is.
	Remote string
	// OrEmpty lets it begin empty if there is no such snapshot yet.
	OrEmpty bool
	// Version is the program's, for the log and for hello.
	Version string
	// LogTo gets the log besides the file; nil for none.
	LogTo io.Writer
}
