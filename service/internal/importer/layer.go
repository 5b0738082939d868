package importer

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Layer is a gitbridge.Sink for the layers of an image: what is in the tree was in the
// layers below. A directory stays where a directory comes, anything else is replaced, and
// links on the way to a name are followed, but not out of the image.
func (b *Builder) Layer(e gitbridge.Entry) (err error) {
	if e.Opaque {
		e.Path += "/." // the directory may be a link too
	}
	if e.Path, err = b.follow(e.Path); err != nil {
		return err
	}
	if e.Hardlink != "" {
		if e.Hardlink, err = b.follow(e.Hardlink); err != nil {
			return err
		}
	}
	p := path.Join(b.at.Dir, e.Path)
	old, err := b.find(p)
	switch isDir := e.Mode&unix.S_IFMT == unix.S_IFDIR && e.Hardlink == ""; {
	case err != nil:
		return err
	case e.Opaque && old != nil && old.IsDir():
		return b.empty(old.Ino)
	case e.Opaque, e.Whiteout && old == nil:
		return nil
	case old != nil && (e.Whiteout || isDir != old.IsDir()):
		err = b.remove(p, old)
	}
	if err != nil || e.Whiteout {
		return err
	}
	return b.Add(e)
}

// maxLinks is how many symbolic links the kernel follows in a path.
const maxLinks = 40

// follow returns the path of an entry with the links in the directories above it resolved.
// The image is their root.
func (b *Builder) follow(p string) (string, error) {
	if _, ok := b.dirs[path.Join(b.at.Dir, path.Dir(p))]; ok {
		return p, nil
	}
	at, links := ".", 0
	for rest := strings.Split(path.Dir(p), "/"); len(rest) > 0; {
		next := path.Join(at, rest[0])
		if rest = rest[1:]; strings.HasPrefix(next, "../") || next == ".." {
			next = "."
		}
		n, err := b.find(path.Join(b.at.Dir, next))
		if err != nil {
			return "", err
		}
		if n == nil || !n.IsSymlink() {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%w: %q leads through more than %d symbolic links", gitbridge.ErrHostile, p, maxLinks)
		}
		if path.IsAbs(n.Target) {
			at = "."
		}
		rest = append(strings.Split(n.Target, "/"), rest...)
	}
	return path.Join(at, path.Base(p)), nil
}

// find returns what is at a path, in which no link is followed; nil if there is nothing.
func (b *Builder) find(p string) (*tree.Inode, error) {
	n, err := b.state.At(b.src, p)
	if n != nil && n.IsRegular() {
		err = b.stored(0) // what it has may be on its way
	}
	return n, err
}

func (b *Builder) remove(p string, n *tree.Inode) error {
	parent, err := b.dir(path.Dir(p))
	if err == nil && n.IsDir() {
		err = b.empty(n.Ino)
	}
	if err != nil {
		return err
	}
	return b.unlink(n.Ino, parent, path.Base(p))
}

func (b *Builder) empty(dir uint64) error {
	const atOnce = 1000
	clear(b.dirs)
	for {
		if err := b.room(0); err != nil {
			return err
		}
		n, err := b.state.Get(b.src, dir)
		var some []tree.Dirent
		if err == nil {
			err = n.Dir.List(b.src, 0, func(e tree.Dirent, _ uint64) bool {
				some = append(some, e)
				return len(some) < atOnce
			})
		}
		if err != nil || len(some) == 0 {
			return err
		}
		for _, e := range some {
			if e.Type == unix.S_IFDIR {
				err = b.empty(e.Ino)
			}
			if err == nil {
				err = b.unlink(e.Ino, dir, e.Name)
			}
			if err != nil {
				return err
			}
		}
	}
}
