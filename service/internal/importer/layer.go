package importer

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// AddLayerEntry adds an entry of a layer of an image to the tree of the layers below. A whiteout deletes a file, and
// an opaque directory is emptied. A directory replaces a file, and a file replaces a directory. A directory
// that exists already keeps its entries. Symbolic links on the path of an entry are followed, with the image
// as their root.
func (b *Builder) AddLayerEntry(e stream.Entry) (err error) {
	if e.Opaque {
		e.Path += "/." // also follow a symbolic link at the path of the directory itself
	}
	if e.Path, err = b.followLinks(e.Path); err != nil {
		return err
	}

	if e.Hardlink != "" {
		if e.Hardlink, err = b.followLinks(e.Hardlink); err != nil {
			return err
		}
	}

	p := path.Join(b.dest.Dir, e.Path)
	old, err := b.find(p)
	switch isDir := e.Mode&unix.S_IFMT == unix.S_IFDIR && e.Hardlink == ""; {
	case err != nil:
		return err
	case e.Opaque && old != nil && old.IsDir():
		return b.emptyDir(old.Ino)
	case e.Opaque, e.Whiteout && old == nil:
		return nil
	case old != nil && (e.Whiteout || isDir != old.IsDir()):
		err = b.removePath(p, old)
	}
	if err != nil || e.Whiteout {
		return err
	}

	return b.Add(e)
}

// maxLinks is the largest number of symbolic links in a path, as in the kernel.
const maxLinks = 40

// followLinks resolves the symbolic links in the directories of an entry's path, and returns the resulting path.
// Absolute targets of links are relative to the root of the image, and ".." does not lead out of it.
func (b *Builder) followLinks(p string) (string, error) {
	if _, ok := b.dirs[path.Join(b.dest.Dir, path.Dir(p))]; ok {
		return p, nil
	}

	dir, links := ".", 0

	for rest := strings.Split(path.Dir(p), "/"); len(rest) > 0; {
		next := path.Join(dir, rest[0])
		if rest = rest[1:]; strings.HasPrefix(next, "../") || next == ".." {
			next = "."
		}

		n, err := b.find(path.Join(b.dest.Dir, next))
		if err != nil {
			return "", err
		}

		if n == nil || !n.IsSymlink() {
			dir = next
			continue
		}

		if links++; links > maxLinks {
			return "", fmt.Errorf("%w: %q leads through more than %d symbolic links", stream.ErrHostile, p, maxLinks)
		}
		if path.IsAbs(n.Target) {
			dir = "."
		}

		rest = append(strings.Split(n.Target, "/"), rest...)
	}

	return path.Join(dir, path.Base(p)), nil
}

// find returns the inode at a path, nil if there is none. It follows no symbolic links.
func (b *Builder) find(p string) (*tree.Inode, error) {
	n, err := b.state.InodeAt(b.src, p)
	if n != nil && n.IsRegular() {
		err = b.finishPending(0) // the contents of n may still be pending
	}
	return n, err
}

// removePath removes the name p of the inode n and, if n is a directory, all entries below it.
func (b *Builder) removePath(p string, n *tree.Inode) error {
	parent, err := b.makeDirs(path.Dir(p))
	if err != nil {
		return err
	}
	return b.removeEntry(parent, tree.Dirent{Name: path.Base(p), Ino: n.Ino, Type: n.Type()})
}

func (b *Builder) removeEntry(parent uint64, e tree.Dirent) error {
	if e.Type == unix.S_IFDIR {
		if err := b.emptyDir(e.Ino); err != nil {
			return err
		}
	}
	return b.unlink(e.Ino, parent, e.Name)
}

// emptyDir removes all entries below a directory.
func (b *Builder) emptyDir(dir uint64) error {
	const partSize = 1000
	clear(b.dirs)

	for {
		if err := b.makeRoom(0); err != nil {
			return err
		}

		n, err := b.state.Get(b.src, dir)
		if err != nil {
			return err
		}

		var part []tree.Dirent
		err = n.Dir.List(b.src, 0, func(e tree.Dirent, _ uint64) bool {
			part = append(part, e)
			return len(part) < partSize
		})
		if err != nil || len(part) == 0 {
			return err
		}

		for _, e := range part {
			if err := b.removeEntry(dir, e); err != nil {
				return err
			}
		}
	}
}
