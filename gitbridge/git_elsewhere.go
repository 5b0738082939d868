package gitbridge

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A `.git` file of a linked worktree, of a submodule or of a repository that was set up so leads to
// a git directory outside of the directory. The copy gets a git directory of its own: what is one
// working tree's, the branches and logs, a plain configuration, and the objects by alternates.
// What git brings home is added to the git directories that it was made of.

const alternatesPath = "objects/info/alternates"

// alternatesOf is the text of the file that leads to the objects of a link.
func alternatesOf(l *gitdir.Link) string { return filepath.Join(l.Common, "objects") + "\n" }

// gitLinkIn finds what the entry `.git` of an open directory leads to; nil if that is in root,
// or no git directory.
func gitLinkIn(dir int, root string) *gitdir.Link {
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(dir))
	if err != nil {
		return nil
	}
	l := gitdir.LinkAt(at)
	if l == nil || l.Dir == root || strings.HasPrefix(l.Dir, root+"/") {
		return nil
	}
	return l
}

// readSmall reads the beginning of a file.
func readSmall(name string) (string, error) {
	text, err := readRegular(name)
	return string(text[:min(len(text), 64<<10)]), err
}

// errNotBack is why a `.git` is left out that leads to a repository elsewhere.
var errNotBack = errors.New("which does not name it back")

func notBack(at string, l *gitdir.Link) error {
	return fmt.Errorf("%q names the repository %s, %w (`git --git-dir=%s config core.worktree DIR` does that for a repository of yours)", at, l.Dir, errNotBack, l.Dir)
}

// gitDir reads the git directory that a link leads to as one of the directory's own.
func (d *dirReader) gitDir(at string, l *gitdir.Link, was *tree.Inode) error {
	add := func(name string, mode uint32, data []byte) error {
		var st unix.Stat_t
		if err := unix.Stat(l.Dir, &st); err != nil {
			return err
		}
		e := Entry{Path: path.Join(at, name), Size: int64(len(data)), Data: bytes.NewReader(data)}
		e.Meta = d.own(Meta{Mode: mode, UID: st.Uid, GID: st.Gid, Atime: timeOf(st.Ctim), Mtime: 1})
		if mode&unix.S_IFMT == unix.S_IFDIR {
			e.Size, e.Data = 0, nil
		}
		return d.add(e)
	}
	for _, dir := range []string{".", "objects", "objects/info", "objects/pack"} {
		if err := add(dir, unix.S_IFDIR|0o755, nil); err != nil {
			return err
		}
	}
	if err := add(alternatesPath, unix.S_IFREG|0o644, []byte(alternatesOf(l))); err != nil {
		return err
	}
	common, err := readRegular(filepath.Join(l.Common, "config"))
	if err != nil {
		return d.skip(at, fmt.Errorf("%q: %w", at, reason(err)))
	}
	own, _ := readRegular(filepath.Join(l.Dir, "config.worktree")) // of a sparse checkout; else there is none
	if err := add("config", unix.S_IFREG|0o644, []byte(gitdir.PlainConfig(string(common), string(own)))); err != nil {
		return err
	}
	return d.gitPart(at, ".", l, was, "config", "objects")
}

// mixedDirs are the directories of a git directory that have parts of one working tree's own, and
// parts that all have in common.
var mixedDirs = []string{"info", "logs", "logs/refs", "refs"}

// gitPart reads what a copy gets of a directory in the git directories of a link. made are names
// that are there.
func (d *dirReader) gitPart(at, rel string, l *gitdir.Link, was *tree.Inode, made ...string) error {
	names := made
	for _, from := range slices.Compact([]string{l.Dir, l.Common}) {
		parent, err := os.Open(filepath.Join(from, rel))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return d.skip(at, fmt.Errorf("%q: %w", path.Join(at, rel), reason(err)))
		}
		entries, err := parent.Readdirnames(-1)
		for _, e := range entries {
			name := path.Join(rel, e)
			mixed := slices.Contains(mixedDirs, name)
			copied := from == l.Dir && gitdir.Copied(name, true) || from == l.Common && gitdir.Copied(name, false)
			if err != nil || !mixed && !copied || slices.Contains(names, e) {
				continue
			}
			names = append(names, e)
			var then *tree.Inode
			if then, err = d.beforeIn(was, e); err == nil && mixed {
				err = d.mixedDir(at, name, parent, l, then)
			} else if err == nil {
				err = d.entry(path.Join(at, name), parent, e, then)
			}
		}
		parent.Close()
		if err != nil {
			return err
		}
	}
	slices.Sort(names)
	return d.gone(path.Join(at, rel), was, names)
}

// mixedDir reads one of mixedDirs.
func (d *dirReader) mixedDir(at, name string, parent *os.File, l *gitdir.Link, was *tree.Inode) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(parent.Fd()), &st); err != nil {
		return err
	}
	e := Entry{Path: path.Join(at, name), Meta: d.own(Meta{Mode: unix.S_IFDIR | 0o755, UID: st.Uid, GID: st.Gid, Mtime: 1})}
	if was == nil || !was.IsDir() {
		if err := d.add(e); err != nil {
			return err
		}
	}
	return d.gitPart(at, name, l, was)
}
