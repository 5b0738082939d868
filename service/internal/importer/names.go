package importer

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// lookup returns the entry with a name in the directory with the inode number dir. The bool is false if there is no
// such entry.
func (b *Builder) lookup(dir uint64, name string) (tree.Dirent, bool, error) {
	n, err := b.state.Get(b.src, dir)
	if err != nil {
		return tree.Dirent{}, false, err
	}
	return n.Dir.Lookup(b.src, name)
}

// makeDirs returns the inode number of a directory. It creates the directory and the directories above it if
// they do not exist.
func (b *Builder) makeDirs(p string) (uint64, error) {
	if p == "." {
		return tree.RootIno, nil
	}
	if ino, ok := b.dirs[p]; ok {
		return ino, nil
	}

	parent, err := b.makeDirs(path.Dir(p))
	if err != nil {
		return 0, err
	}

	e, ok, err := b.lookup(parent, path.Base(p))
	if err != nil {
		return 0, err
	}
	if ok && e.Type != unix.S_IFDIR {
		return 0, fmt.Errorf("%w: %q is not a directory, but is used as one", stream.ErrHostile, p)
	}

	if !ok {
		if e.Ino, err = b.makeDir(parent, p); err != nil {
			return 0, err
		}
	}

	b.dirs[p] = e.Ino
	b.unsealedBytes += inodeBytes + len(p)

	return e.Ino, nil
}

// makeDir creates a directory. parent is the inode number of the directory above it.
func (b *Builder) makeDir(parent uint64, p string) (uint64, error) {
	depth := 1 + strings.Count(p, "/")
	if depth >= tree.MaxDepth {
		return 0, tree.ErrTooDeep
	}

	b.state.Depth = max(b.state.Depth, depth)
	n := b.newNode(b.dest.DirMeta)
	n.Nlink = 2
	if err := b.link(parent, path.Base(p), n); err != nil {
		return 0, err
	}

	return n.Ino, b.state.Put(b.src, b.epoch, n)
}

// addDir sets the attributes of a directory, and creates it if it does not exist.
func (b *Builder) addDir(p string, m stream.Meta) error {
	ino, err := b.makeDirs(p)
	if err != nil {
		return err
	}

	n, err := b.state.Own(b.src, b.epoch, ino)
	if err != nil {
		return err
	}

	setMeta(n, m)

	return nil
}

// setName gives the file n, which is not a directory, a name. A file that has the name already loses it.
func (b *Builder) setName(p string, n *tree.Inode) error {
	parent, err := b.makeDirs(path.Dir(p))
	if err != nil {
		return err
	}

	name := path.Base(p)
	old, ok, err := b.lookup(parent, name)
	if err != nil {
		return err
	}
	if ok && old.Type == unix.S_IFDIR {
		return fmt.Errorf("%w: %q is a directory and something else", stream.ErrHostile, name)
	}

	if ok {
		if err := b.unlink(old.Ino, parent, name); err != nil {
			return err
		}
	}

	return b.link(parent, name, n)
}

// link adds a directory entry for n to the directory parent, under a name that is not in use.
func (b *Builder) link(parent uint64, name string, n *tree.Inode) error {
	dir, err := b.state.Own(b.src, b.epoch, parent)
	if err != nil {
		return err
	}
	if n.IsDir() {
		dir.Nlink++
	}

	n.Links = append(n.Links, tree.Link{Parent: parent, Name: name})
	return dir.Dir.Insert(b.src, b.epoch, tree.Dirent{Name: name, Ino: n.Ino, Type: n.Type()})
}

// unlink removes one name of an inode, and also the inode if this was its last name. A directory must be
// empty.
func (b *Builder) unlink(ino, parent uint64, name string) error {
	if err := b.finishPending(0); err != nil {
		return err
	}

	n, err := b.state.Own(b.src, b.epoch, ino)
	if err != nil {
		return err
	}

	dir, err := b.state.Own(b.src, b.epoch, parent)
	if err != nil {
		return err
	}
	if err := dir.Dir.Remove(b.src, b.epoch, name); err != nil {
		return err
	}

	n.Links = slices.DeleteFunc(slices.Clone(n.Links), func(l tree.Link) bool { return l.Parent == parent && l.Name == name })
	if n.IsDir() {
		dir.Nlink--
	} else if n.Nlink--; n.Nlink > 0 {
		return nil
	}

	b.state.Bytes -= contentSize(n)
	return b.state.Delete(b.src, b.epoch, n.Ino)
}
