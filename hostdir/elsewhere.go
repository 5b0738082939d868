package hostdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// A LinkedDir is a git directory outside of the directory that is read. A file `.git` contains its path, and the
// LinkedDir is read in place of this file.
type LinkedDir struct {
	// Own and Common are read as one directory; they may be equal. Copied reports which entries of each are read.
	Own, Common string
	Copied      func(name string, own bool) bool
	Mixed       []string      // directories that have entries from both Own and Common
	Made        []LinkedEntry // entries that are read first, and replace entries with equal names
	Err         error         // why the directory is left out; nil if it is read
}

// A LinkedEntry is a file with a text, or a directory if Text is nil.
type LinkedEntry struct {
	Name string
	Text []byte
}

// ErrNotBack is the reason to leave out a LinkedDir that does not contain the path of the `.git` file that leads
// to it.
var ErrNotBack = errors.New("which does not name it back")

// linkedIn returns the LinkedDir to which the file `.git` of an open directory leads, nil if there is none.
func (d *dirReader) linkedIn(dir int) *LinkedDir {
	at, err := os.Readlink(procPath(dir))
	if err != nil || d.o.Git == nil {
		return nil
	}
	return d.o.Git.Linked(at, d.top)
}

// addLinked reads a LinkedDir as the directory at the path at.
func (d *dirReader) addLinked(at string, l *LinkedDir, was *tree.Inode) error {
	if l.Err != nil {
		return d.SkipFile(at, fmt.Errorf("%q names %w", at, l.Err))
	}
	var names []string

	for _, m := range l.Made {
		var st unix.Stat_t
		if err := unix.Stat(l.Own, &st); err != nil {
			return err
		}

		e := stream.Entry{Path: path.Join(at, m.Name)}
		e.Meta = d.WithOwner(stream.Meta{Mode: unix.S_IFDIR | 0o755, UID: st.Uid, GID: st.Gid, Atime: timeOf(st.Ctim), Mtime: 1})
		if m.Text != nil {
			e.Mode, e.Size, e.Data = unix.S_IFREG|0o644, int64(len(m.Text)), bytes.NewReader(m.Text)
		}
		if err := d.add(e); err != nil {
			return err
		}

		names = append(names, m.Name)
	}

	return d.addLinkedDir(at, ".", l, was, names...)
}

// addLinkedDir reads the subdirectory rel of a LinkedDir. made are the names in it that were added already.
func (d *dirReader) addLinkedDir(at, rel string, l *LinkedDir, was *tree.Inode, made ...string) error {
	names := made

	for _, from := range slices.Compact([]string{l.Own, l.Common}) {
		parent, err := os.Open(filepath.Join(from, rel))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return d.SkipFile(at, fmt.Errorf("%q: %w", path.Join(at, rel), reason(err)))
		}

		entries, err := parent.Readdirnames(-1)
		for _, e := range entries {
			name := path.Join(rel, e)
			mixed := slices.Contains(l.Mixed, name)
			copied := from == l.Own && l.Copied(name, true) || from == l.Common && l.Copied(name, false)
			if err != nil || !mixed && !copied || slices.Contains(names, e) {
				continue
			}

			names = append(names, e)
			var then *tree.Inode
			if then, err = d.beforeIn(was, e); err == nil && mixed {
				err = d.addMixedDir(at, name, parent, l, then)
			} else if err == nil {
				err = d.entry(path.Join(at, name), parent, e, fs.ModeIrregular, then)
			}
		}

		parent.Close()
		if err != nil {
			return err
		}
	}

	slices.Sort(names)
	return d.addWhiteouts(path.Join(at, rel), was, names)
}

// addMixedDir reads a subdirectory that is in LinkedDir.Mixed.
func (d *dirReader) addMixedDir(at, name string, parent *os.File, l *LinkedDir, was *tree.Inode) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(parent.Fd()), &st); err != nil {
		return err
	}

	e := stream.Entry{Path: path.Join(at, name), Meta: d.WithOwner(stream.Meta{Mode: unix.S_IFDIR | 0o755, UID: st.Uid, GID: st.Gid, Mtime: 1})}
	if was == nil || !was.IsDir() {
		if err := d.add(e); err != nil {
			return err
		}
	}

	return d.addLinkedDir(at, name, l, was)
}
