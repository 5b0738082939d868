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
	p := path.Join(b.top, e.Path)
	old, ok, err := b.find(p)
	switch isDir := e.Mode&unix.S_IFMT == unix.S_IFDIR && e.Hardlink == ""; {
	case err != nil:
		return err
	case e.Opaque && ok && old.Type == unix.S_IFDIR:
		return b.empty(old.Ino)
	case e.Opaque, e.Whiteout && !ok:
		return nil
	case ok && (e.Whiteout || isDir != (old.Type == unix.S_IFDIR)):
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
	if _, ok := b.dirs[path.Join(b.top, path.Dir(p))]; ok {
		return p, nil
	}
	at, links := ".", 0
	for rest := strings.Split(path.Dir(p), "/"); len(rest) > 0; {
		next := path.Join(at, rest[0])
		if rest = rest[1:]; strings.HasPrefix(next, "../") || next == ".." {
			next = "."
		}
		e, ok, err := b.find(path.Join(b.top, next))
		if err != nil {
			return "", err
		}
		if !ok || e.Type != unix.S_IFLNK {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%w: %q leads through more than %d symbolic links", gitbridge.ErrHostile, p, maxLinks)
		}
		n, err := b.state.Get(b.src, e.Ino)
		if err != nil {
			return "", err
		}
		if path.IsAbs(n.Target) {
			at = "."
		}
		rest = append(strings.Split(n.Target, "/"), rest...)
	}
	return path.Join(at, path.Base(p)), nil
}

// find returns the entry of a path, in which no link is followed.
func (b *Builder) find(p string) (e tree.Dirent, ok bool, err error) {
	if p == "." {
		return tree.Dirent{Ino: tree.RootIno, Type: unix.S_IFDIR}, true, nil
	}
	if ino, ok := b.dirs[p]; ok {
		return tree.Dirent{Ino: ino, Type: unix.S_IFDIR}, true, nil
	}
	up, ok, err := b.find(path.Dir(p))
	if err != nil || !ok || up.Type != unix.S_IFDIR {
		return e, false, err
	}
	return b.lookup(up.Ino, path.Base(p))
}

func (b *Builder) remove(p string, e tree.Dirent) error {
	parent, err := b.dir(path.Dir(p))
	if err == nil && e.Type == unix.S_IFDIR {
		err = b.empty(e.Ino)
	}
	if err != nil {
		return err
	}
	return b.unlink(e, parent, path.Base(p))
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
				err = b.unlink(e, dir, e.Name)
			}
			if err != nil {
				return err
			}
		}
	}
}
