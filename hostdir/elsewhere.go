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

// A LinkedDir is a git directory outside of the directory that is read. A file `.git` in that directory
// contains the path of the LinkedDir. The reader reads the LinkedDir instead of this file.
type LinkedDir struct {
	// GitDir and CommonDir (gitrepository-layout(5)) are read as one directory. They may be equal. IsCopied reports
	// whether an entry is read: the entry of GitDir if inGitDir is set, else the entry of CommonDir.
	GitDir, CommonDir string
	IsCopied          func(name string, inGitDir bool) bool
	MixedDirs         []string      // subdirectories that have entries from both GitDir and CommonDir
	MadeEntries       []LinkedEntry // generated entries; they replace entries with equal names in GitDir and CommonDir
	Err               error         // the reason to leave the directory out; nil if it is read
}

// A LinkedEntry is a file with a text, or a directory if Text is nil.
type LinkedEntry struct {
	Name string
	Text []byte
}

// ErrNoBackLink is the reason to leave out a LinkedDir that does not contain the path of the `.git` file that leads
// to it.
var ErrNoBackLink = errors.New("which does not name it back")

// linkedGitDir returns the LinkedDir to which the file `.git` of an open directory leads, nil if there is none.
func (d *dirReader) linkedGitDir(dir int) *LinkedDir {
	dirPath, err := os.Readlink(procPath(dir))
	if err != nil || d.o.Git == nil {
		return nil
	}
	return d.o.Git.Linked(dirPath, d.topPath)
}

// addLinked reads a LinkedDir as the directory at dirPath. before is the version of the directory in the tree d.before,
// nil if it is new.
func (d *dirReader) addLinked(dirPath string, l *LinkedDir, before *tree.Inode) error {
	if l.Err != nil {
		return d.SkipFile(dirPath, fmt.Errorf("%q names %w", dirPath, l.Err))
	}
	var names []string

	for _, m := range l.MadeEntries {
		var st unix.Stat_t
		if err := unix.Stat(l.GitDir, &st); err != nil {
			return err
		}

		e := stream.Entry{Path: path.Join(dirPath, m.Name)}
		e.Meta = d.WithOwner(stream.Meta{Mode: unix.S_IFDIR | 0o755, UID: st.Uid, GID: st.Gid, Atime: timeOf(st.Ctim), Mtime: 1})
		if m.Text != nil {
			e.Mode, e.Size, e.Data = unix.S_IFREG|0o644, int64(len(m.Text)), bytes.NewReader(m.Text)
		}
		if err := d.add(e); err != nil {
			return err
		}

		names = append(names, m.Name)
	}

	return d.addLinkedDir(dirPath, ".", l, before, names...)
}

// addLinkedDir reads the subdirectory rel of a LinkedDir. madeNames are the names in it that were added already.
func (d *dirReader) addLinkedDir(dirPath, rel string, l *LinkedDir, before *tree.Inode, madeNames ...string) error {
	names := madeNames

	for _, source := range slices.Compact([]string{l.GitDir, l.CommonDir}) {
		parent, err := os.Open(filepath.Join(source, rel))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return d.SkipFile(dirPath, fmt.Errorf("%q: %w", path.Join(dirPath, rel), withoutPath(err)))
		}

		entries, err := parent.Readdirnames(-1)
		for _, e := range entries {
			name := path.Join(rel, e)
			mixed := slices.Contains(l.MixedDirs, name)
			copied := source == l.GitDir && l.IsCopied(name, true) || source == l.CommonDir && l.IsCopied(name, false)
			if err != nil || !mixed && !copied || slices.Contains(names, e) {
				continue
			}

			names = append(names, e)
			var child *tree.Inode
			if child, err = d.childBefore(before, e); err == nil && mixed {
				err = d.addMixedDir(dirPath, name, parent, l, child)
			} else if err == nil {
				err = d.readEntry(path.Join(dirPath, name), parent, e, fs.ModeIrregular, child)
			}
		}

		parent.Close()
		if err != nil {
			return err
		}
	}

	slices.Sort(names)
	return d.addWhiteouts(path.Join(dirPath, rel), before, names)
}

// addMixedDir reads a subdirectory that is in LinkedDir.MixedDirs.
func (d *dirReader) addMixedDir(dirPath, name string, parent *os.File, l *LinkedDir, before *tree.Inode) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(parent.Fd()), &st); err != nil {
		return err
	}

	e := stream.Entry{Path: path.Join(dirPath, name), Meta: d.WithOwner(stream.Meta{Mode: unix.S_IFDIR | 0o755, UID: st.Uid, GID: st.Gid, Mtime: 1})}
	if before == nil || !before.IsDir() {
		if err := d.add(e); err != nil {
			return err
		}
	}

	return d.addLinkedDir(dirPath, name, l, before)
}
