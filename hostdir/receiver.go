package hostdir

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Receiver is the directory that changes are applied to.
type Receiver struct{ pl *planner }

// Path returns the path of the directory, without symbolic links.
func (r Receiver) Path() string { return r.pl.host.path }

// Resolved returns the absolute path of a directory in it. It follows no symbolic links.
func (r Receiver) Resolved(p *tree.Path) (string, error) {
	fd, err := r.pl.host.walk(p)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink(procPath(fd))
}

// Has reports whether an entry is at a path.
func (r Receiver) Has(p *tree.Path) bool {
	at, err := r.pl.host.look(p)
	return err == nil && at.exists
}

// IsFile reports whether an entry other than a directory is at a path.
func (r Receiver) IsFile(p *tree.Path) bool {
	at, err := r.pl.host.look(p)
	return err == nil && at.exists && !at.isDir()
}

// IsBase reports whether the directory has the file of the base at a path, or both have none.
func (r Receiver) IsBase(name string) bool {
	p, err := tree.ParsePath(name)
	if err != nil {
		return false
	}

	at, err := r.pl.host.look(p)
	was, berr := r.pl.o.Base.At(r.pl.o.Source, name)
	if err != nil || berr != nil {
		return false
	}
	if was == nil || !at.exists {
		return was == nil && !at.exists
	}

	return at.st.Mode == was.Mode && at.st.Size == was.Size() && at.st.Mtim.Nano() == was.Mtime
}
