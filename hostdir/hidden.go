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

// Hidden are the paths of a directory that a workspace does not have. They are neither read nor changed, by
// none of their names.
type Hidden struct {
	Paths *hide.Matcher // nil: none
	Empty bool          // the workspace has hidden files and directories, without their contents
}

// FindHidden returns the hidden paths that a directory has, without those below others, and the paths that
// are other names of hidden files.
func FindHidden(ctx context.Context, dir string, h Hidden, exclude []string) (paths, links []string, err error) {
	at, err := h.in(ctx, dir, excluded(exclude))
	if err != nil || len(at.files) == 0 {
		return at.paths, nil, err
	}

	err = walk(ctx, dir, excluded(exclude), func(name string, d fs.DirEntry, st *syscall.Stat_t) {
		if !d.IsDir() && at.files[fileID{st.Dev, st.Ino}] && !h.Paths.Hides(name, false) {
			links = append(links, name)
		}
	}, func(string, fs.DirEntry) bool { return true })
	return at.paths, links, err
}

// hiddenFiles are the hidden paths of one directory.
type hiddenFiles struct {
	Hidden
	paths []string        // without those below others
	above map[string]bool // the directories above them
	files map[fileID]bool // files with several names, of which one is hidden
}

// in finds the hidden paths of a directory. What cannot be read has none.
func (h Hidden) in(ctx context.Context, dir string, exclude map[fileID]bool) (found hiddenFiles, err error) {
	found = hiddenFiles{Hidden: h, above: make(map[string]bool), files: make(map[fileID]bool)}
	if h.Paths == nil {
		return found, nil
	}

	inside := "" // the last hidden directory
	below := func(name string) bool { return inside != "" && strings.HasPrefix(name, inside+"/") }

	err = walk(ctx, dir, exclude, func(name string, d fs.DirEntry, st *syscall.Stat_t) {
		if !below(name) {
			if !h.Paths.Match(name, d.IsDir()) {
				return
			}
			if found.addPath(name); d.IsDir() {
				inside = name
			}
		}

		if !d.IsDir() && st.Nlink > 1 {
			found.files[fileID{st.Dev, st.Ino}] = true
		}
	}, func(name string, d fs.DirEntry) bool { return below(name) || h.Paths.Match(name, d.IsDir()) })

	return found, err
}

// walk calls fn for the directories below a directory, and the files that want returns true for. What cannot
// be read is left out.
func walk(ctx context.Context, dir string, exclude map[fileID]bool, fn func(name string, d fs.DirEntry, st *syscall.Stat_t), want func(name string, d fs.DirEntry) bool) error {
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
		if err != nil || !d.IsDir() && !want(name, d) {
			return nil
		}

		info, err := d.Info()
		if err != nil {
			return nil // it was deleted meanwhile
		}
		st := info.Sys().(*syscall.Stat_t)
		if d.IsDir() && exclude[fileID{st.Dev, st.Ino}] {
			return fs.SkipDir
		}

		fn(name, d, st)

		return nil
	})
}

func (f *hiddenFiles) addPath(name string) {
	f.paths = append(f.paths, name)
	for dir := path.Dir(name); dir != "." && !f.above[dir]; dir = path.Dir(dir) {
		f.above[dir] = true
	}
}

// has reports whether an entry is hidden. No directory above it is.
func (f *hiddenFiles) has(name string, st *unix.Stat_t) bool {
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	return f.Paths.Match(name, isDir) || !isDir && st.Nlink > 1 && f.files[fileID{st.Dev, st.Ino}]
}

// excluded returns the files of paths. They may not exist.
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

// addHidden feeds a hidden file or directory to the sink, as an empty one.
func (d *dirReader) addHidden(at string, st *unix.Stat_t) error {
	e := stream.Entry{Path: at}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFREG:
		e.Data = strings.NewReader("")
	default:
		return nil
	}

	e.Meta = d.Own(stream.Meta{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Atime: timeOf(st.Atim), Mtime: timeOf(st.Mtim)})
	return d.add(e)
}

// A hiding finds the changes of a workspace at hidden paths of the directory.
type hiding struct {
	pl      *planner
	found   hiddenFiles
	dirs    map[string]bool // whether directories are hidden, by path
	changes map[string]tree.Change
}

// withoutHidden returns the changes that are not at hidden paths, and do not remove a directory above one.
func (pl *planner) withoutHidden(changes []tree.Change) ([]tree.Change, error) {
	if pl.o.Hidden.Paths == nil || len(changes) == 0 {
		return changes, nil
	}

	found, err := pl.o.Hidden.in(pl.ctx, pl.host.path, excluded(pl.o.Read.Exclude))
	if err != nil {
		return nil, err
	}

	h := hiding{pl, found, make(map[string]bool), make(map[string]tree.Change)}
	for _, c := range changes {
		h.changes[c.Path.String()] = c
	}

	hidden := make(map[string]bool)
	var shown []tree.Change

	for _, c := range changes {
		p := c.Path.String()
		if hidden[p], err = h.has(c.Path); err != nil {
			return nil, err
		}
		if stays := found.above[p] && !isDir(c.After); !hidden[p] && !stays {
			shown = append(shown, c)
		}
	}

	pl.res.Hidden = topmost(hidden, changes)
	return shown, nil
}

// has reports whether a path, or a directory above it, is hidden.
func (h *hiding) has(p *tree.Path) (bool, error) {
	if p.Dir != nil {
		above, ok := h.dirs[p.Dir.String()]
		if !ok {
			var err error
			if above, err = h.has(p.Dir); err != nil {
				return false, err
			}
			h.dirs[p.Dir.String()] = above
		}
		if above {
			return true, nil
		}
	}

	name := p.String()
	c, changed := h.changes[name]
	if h.found.Paths.Match(name, !changed || isDir(c.Before) || isDir(c.After)) {
		return true, nil
	}

	on, err := h.pl.host.look(p)
	return err == nil && on.exists && h.found.has(name, &on.st), err
}

func isDir(n *tree.Inode) bool { return n != nil && n.IsDir() }
