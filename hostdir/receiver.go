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

// ResolvePath returns the absolute path of a subdirectory. It follows no symbolic links.
func (r Receiver) ResolvePath(p *tree.Path) (string, error) {
	fd, err := r.pl.host.newDirFD(p)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink(procPath(fd))
}

// EntryAt returns the directory's entry at a path, nil if there is none.
func (r Receiver) EntryAt(name string) (*tree.Inode, error) {
	if err := r.pl.readPath(name, r.pl.tree.read); err != nil {
		return nil, err
	}
	return r.pl.tree.dirVersion(name)
}
