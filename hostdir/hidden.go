package hostdir

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// Hidden are the paths of a directory that a workspace does not show. Their files are neither read nor changed, not
// even through other hard links.
type Hidden struct {
	Paths     *hide.Matcher // nil if no path is hidden
	ShowEmpty bool          // the workspace shows hidden files and directories, but without contents
}

// FindHidden returns the hidden paths of a directory, without paths below other hidden paths. links are paths
// that are not hidden but are hard links to hidden files.
func FindHidden(ctx context.Context, dir string, h Hidden, exclude []string) (paths, links []string, err error) {
	hidden, err := h.find(ctx, dir, idsOf(exclude))
	if err != nil || len(hidden.files) == 0 {
		return hidden.paths, nil, err
	}

	err = walkDir(ctx, dir, idsOf(exclude), func(name string, d fs.DirEntry) {
		if id, many := linkedFile(d); many && hidden.files[id] && !h.Paths.Hides(name, false) {
			links = append(links, name)
		}
	})
	return hidden.paths, links, err
}

// hiddenFiles are the hidden paths of one directory.
type hiddenFiles struct {
	Hidden
	paths []string        // without paths below other hidden paths, sorted by tree.ComparePaths
	files map[fileID]bool // files with several hard links, of which one is hidden
}

// find finds the hidden paths of a directory. A directory that cannot be read counts as one without hidden paths.
func (h Hidden) find(ctx context.Context, dir string, exclude map[fileID]bool) (found hiddenFiles, err error) {
	found = hiddenFiles{Hidden: h, files: make(map[fileID]bool)}
	if h.Paths == nil {
		return found, nil
	}

	hiddenDir := "" // the last hidden directory that was found; all entries below it are hidden

	err = walkDir(ctx, dir, exclude, func(name string, d fs.DirEntry) {
		if !naming.IsUnder(name, hiddenDir) {
			if !h.Paths.Match(name, d.IsDir()) {
				return
			}
			if found.paths = append(found.paths, name); d.IsDir() {
				hiddenDir = name
			}
		}

		if id, many := linkedFile(d); many {
			found.files[id] = true
		}
	})

	return found, err
}

// walkDir calls fn for all files and directories below a directory, without the excluded directories. Directories
// that cannot be read are left out.
func walkDir(ctx context.Context, dir string, exclude map[fileID]bool, fn func(name string, d fs.DirEntry)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return withoutPath(err)
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

// linkedFile returns the id of the file of an entry, and whether the file has several names. It returns false for a
// directory.
func linkedFile(d fs.DirEntry) (id fileID, isLinked bool) {
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

// isAbove reports whether a directory has a hidden path below it.
func (f *hiddenFiles) isAbove(dir string) bool {
	i, _ := slices.BinarySearchFunc(f.paths, dir, tree.ComparePaths)
	return i < len(f.paths) && naming.IsUnder(f.paths[i], dir)
}

// hides reports whether an entry is hidden. It must not be called for an entry below a hidden directory.
func (f *hiddenFiles) hides(name string, st *unix.Stat_t) bool {
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	return f.Paths.Match(name, isDir) || !isDir && st.Nlink > 1 && f.files[fileID{st.Dev, st.Ino}]
}

// idsOf returns the ids of the files at paths. It ignores paths that do not exist.
func idsOf(paths []string) map[fileID]bool {
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
func (d *dirReader) addHidden(entryPath string, st *unix.Stat_t) error {
	e := stream.Entry{Path: entryPath}
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

// withoutHidden returns the changes without changes of hidden paths, and without removals of directories above hidden
// paths.
func (pl *planner) withoutHidden(changes []tree.Change) ([]tree.Change, error) {
	if pl.o.Hidden.Paths == nil || len(changes) == 0 {
		return changes, nil
	}

	found, err := pl.o.Hidden.find(pl.ctx, pl.host.path, idsOf(pl.o.Read.Exclude))
	if err != nil {
		return nil, err
	}

	hidden := make(map[string]bool)
	var shown []tree.Change

	for _, c := range changes {
		p := c.Path.String()
		entry, err := pl.host.entryAt(c.Path)
		if err != nil {
			return nil, err
		}

		hidden[p] = naming.NearestIn(path.Dir(p), hidden) != "" || pl.o.Hidden.Paths.Hides(p, isDir(c.Before) || isDir(c.After)) || entry.exists && found.hides(p, &entry.st)
		if stays := found.isAbove(p) && !isDir(c.After); !hidden[p] && !stays {
			shown = append(shown, c)
		}
	}

	pl.res.Hidden = topmost(hidden, changes)
	return shown, nil
}

func isDir(n *tree.Inode) bool { return n != nil && n.IsDir() }
