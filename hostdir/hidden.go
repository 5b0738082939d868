package hostdir

import (
	"context"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// Hidden are the paths of a directory that a workspace does not have. Their files are neither read nor changed,
// also not through other hard links.
type Hidden struct {
	Paths *hide.Matcher // nil: none
	Empty bool          // the workspace has hidden files and directories as empty ones
}

// FindHidden returns the hidden paths of a directory, without paths below other hidden paths. links are paths
// that are not hidden but are hard links to hidden files.
func FindHidden(ctx context.Context, dir string, h Hidden, exclude []string) (paths, links []string, err error) {
	at, err := h.in(ctx, dir, excluded(exclude))
	if err != nil || len(at.files) == 0 {
		return at.paths, nil, err
	}

	err = walk(ctx, dir, excluded(exclude), func(name string, d fs.DirEntry) {
		if id, many := linkedFile(d); many && at.files[id] && !h.Paths.Hides(name, false) {
			links = append(links, name)
		}
	})
	return at.paths, links, err
}

// hiddenFiles are the hidden paths of one directory.
type hiddenFiles struct {
	Hidden
	paths []string        // without paths below other hidden paths
	above map[string]bool // the directories above the paths
	files map[fileID]bool // files with several hard links, of which one is hidden
}

// in finds the hidden paths of a directory. A directory that cannot be read counts as one without hidden paths.
func (h Hidden) in(ctx context.Context, dir string, exclude map[fileID]bool) (found hiddenFiles, err error) {
	found = hiddenFiles{Hidden: h, above: make(map[string]bool), files: make(map[fileID]bool)}
	if h.Paths == nil {
		return found, nil
	}

	inside := "" // the last hidden directory

	err = walk(ctx, dir, exclude, func(name string, d fs.DirEntry) {
		if inside == "" || !strings.HasPrefix(name, inside+"/") {
			if !h.Paths.Match(name, d.IsDir()) {
				return
			}
			if found.addPath(name); d.IsDir() {
				inside = name
			}
		}

		if id, many := linkedFile(d); many {
			found.files[id] = true
		}
	})

	return found, err
}

// walk calls fn for all files and directories below a directory, without the excluded directories. Directories
// that cannot be read are left out.
func walk(ctx context.Context, dir string, exclude map[fileID]bool, fn func(name string, d fs.DirEntry)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return reason(err)
	}
	defer root.Close()

	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if name == "." {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil
		}

		if d.IsDir() {
			info, err := d.Info()
			if err != nil {
				return nil // the directory was deleted after the names were read
			}
			if st := info.Sys().(*syscall.Stat_t); exclude[fileID{st.Dev, st.Ino}] {
				return fs.SkipDir
			}
		}

		fn(name, d)

		return nil
	})
}

// linkedFile returns the file of an entry that is no directory, and whether the file has several names.
func linkedFile(d fs.DirEntry) (id fileID, many bool) {
	if d.IsDir() {
		return id, false
	}
	info, err := d.Info()
	if err != nil {
		return id, false // the file was deleted after the names were read
	}
	st := info.Sys().(*syscall.Stat_t)
	return fileID{st.Dev, st.Ino}, st.Nlink > 1
}

func (f *hiddenFiles) addPath(name string) {
	f.paths = append(f.paths, name)
	for dir := path.Dir(name); dir != "." && !f.above[dir]; dir = path.Dir(dir) {
		f.above[dir] = true
	}
}

// has reports whether an entry is hidden. The directories above the entry are not hidden.
func (f *hiddenFiles) has(name string, st *unix.Stat_t) bool {
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	return f.Paths.Match(name, isDir) || !isDir && st.Nlink > 1 && f.files[fileID{st.Dev, st.Ino}]
}

// excluded returns the files at paths. Paths that do not exist are ignored.
func excluded(paths []string) map[fileID]bool {
	out := make(map[fileID]bool)
	for _, e := range paths {
		var st unix.Stat_t
		if err := unix.Stat(e, &st); err == nil {
			out[fileID{st.Dev, st.Ino}] = true
		}
	}
	return out
}

// addHidden feeds a hidden file or directory to the sink, without its contents.
func (d *dirReader) addHidden(at string, st *unix.Stat_t) error {
	e := stream.Entry{Path: at}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFREG:
		e.Data = strings.NewReader("")
	default:
		return nil
	}

	e.Meta = d.WithOwner(stream.Meta{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Atime: timeOf(st.Atim), Mtime: timeOf(st.Mtim)})
	return d.add(e)
}

// withoutHidden returns the changes except those at hidden paths, and those that remove a directory above a
// hidden path.
func (pl *planner) withoutHidden(changes []tree.Change) ([]tree.Change, error) {
	if pl.o.Hidden.Paths == nil || len(changes) == 0 {
		return changes, nil
	}

	found, err := pl.o.Hidden.in(pl.ctx, pl.host.path, excluded(pl.o.Read.Exclude))
	if err != nil {
		return nil, err
	}

	hidden := make(map[string]bool)
	var shown []tree.Change

	for _, c := range changes {
		p := c.Path.String()
		on, err := pl.host.look(c.Path)
		if err != nil {
			return nil, err
		}

		hidden[p] = inSet(c.Path.Dir, hidden) || pl.o.Hidden.Paths.Hides(p, isDir(c.Before) || isDir(c.After)) || on.exists && found.has(p, &on.st)
		if stays := found.above[p] && !isDir(c.After); !hidden[p] && !stays {
			shown = append(shown, c)
		}
	}

	pl.res.Hidden = topmost(hidden, changes)
	return shown, nil
}

func isDir(n *tree.Inode) bool { return n != nil && n.IsDir() }
