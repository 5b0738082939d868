package gitdir

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/plainfile"
)

// A Link is a `.git` file, and the git directory that it names.
type Link struct {
	Dir    string // the git directory of this working tree
	Common string // the git directory that all working trees of the repository share; Dir if this is the only one
	// Trusted means that the git directory names this working tree. An untrusted git directory is not read or
	// written: a program that can write files in a directory can write a `.git` that names any repository.
	Trusted bool
}

// IsWorktree reports whether the working tree is a linked one, as git worktree add makes.
func (l *Link) IsWorktree() bool { return l.Dir != l.Common }

// LinkAt returns the link in the entry `.git` of a directory. It returns nil if `.git` is a directory, or names no git
// directory.
func LinkAt(at string) *Link {
	file := filepath.Join(at, ".git")
	if target, err := os.Readlink(file); err == nil {
		return linkTo(ResolvePath(at, target)) // not trusted: a git directory cannot name a `.git` that is a symbolic link
	}

	text, err := readSmall(file)
	target, is := strings.CutPrefix(text, "gitdir: ")
	if err != nil || !is {
		return nil
	}

	l := linkTo(ResolvePath(at, strings.TrimRight(target, "\r\n")))
	if l != nil {
		l.Trusted = l.pointsBack(ResolvePath("/", at))
	}

	return l
}

// linkTo describes the git directory at a path, nil if there is none.
func linkTo(dir string) *Link {
	if dir == "" {
		return nil
	}
	l := &Link{Dir: dir, Common: dir}
	if text, err := readSmall(filepath.Join(dir, "commondir")); err == nil {
		l.Common = ResolvePath(dir, strings.TrimRight(text, "\r\n"))
	}

	for _, must := range []string{filepath.Join(dir, "HEAD"), filepath.Join(l.Common, "objects"), filepath.Join(l.Common, "refs")} {
		if _, err := os.Stat(must); l.Common == "" || err != nil {
			return nil
		}
	}

	return l
}

// pointsBack reports whether a git directory names the working tree at a path as its own.
func (l *Link) pointsBack(worktree string) bool {
	if worktree == "" {
		return false
	}

	if l.IsWorktree() {
		text, err := readSmall(filepath.Join(l.Dir, "gitdir"))
		return err == nil && filepath.Dir(filepath.Dir(l.Dir)) == l.Common && filepath.Base(filepath.Dir(l.Dir)) == "worktrees" &&
			ResolvePath(l.Dir, strings.TrimRight(text, "\r\n")) == filepath.Join(worktree, ".git")
	}

	config := configOf(l.Dir)
	if tree := config.lastValue("core.worktree"); tree != "" {
		return ResolvePath(l.Dir, tree) == worktree
	}

	return config.lastValue("core.bare") != "true" && filepath.Base(l.Dir) != ".git" && l.indexMatches(worktree)
}

// indexMatches reports whether the index has an entry with the inode number and the times of a file of a working tree.
// The index is needed because git init --separate-git-dir does not record the path of the working tree. A program that
// can write files in a directory cannot choose their inode numbers and ctimes.
//
// There is no other proof, so a git directory is untrusted while its index has no entries, or only entries of files
// that changed. Equal refs, logs or files prove nothing: a program can copy them from any repository that it can read
// or clone. To trust such a git directory, the user sets core.worktree.
func (l *Link) indexMatches(worktree string) bool {
	names, err := os.ReadDir(l.Dir)
	return err == nil && slices.ContainsFunc(names, func(e fs.DirEntry) bool {
		isPart := strings.HasPrefix(e.Name(), "sharedindex.") // the shared part of a split index
		return (isPart || e.Name() == "index") && l.entryMatches(filepath.Join(l.Dir, e.Name()), worktree)
	})
}

// RefreshIndex has git record the present times of the files of a working tree in the index, by which indexMatches knows
// the working tree. It does nothing if l belongs to another user, see Plan.RefreshIndex.
func (l *Link) RefreshIndex(ctx context.Context, git Git, worktree string) {
	if isOwn(l.Dir) {
		_, _ = gitCaller{git, l.Dir, worktree, nil}.ask(ctx, nil, nil, "update-index", "-q", "--refresh") // after an error, l is untrusted, and the next apply says so
	}
}

// entryMatches reports whether an index file has an entry with the inode number and the times of a file of a working
// tree.
func (l *Link) entryMatches(index, worktree string) bool {
	b, _ := readFile(index)
	entries, _ := parseIndex(b, idLen(configOf(l.Common))) // none if the index cannot be read

	return slices.ContainsFunc(entries, func(e IndexEntry) bool {
		var st unix.Stat_t
		return e.Ctime != 0 && unix.Lstat(filepath.Join(worktree, e.Path), &st) == nil && uint32(st.Ino) == e.Ino &&
			st.Ctim.Nano() == e.Ctime && st.Mtim.Nano() == e.Mtime && uint32(st.Size) == e.Size
	})
}

// idLen returns the length of object ids in bytes, by the configuration of a repository.
func idLen(c config) int {
	if strings.EqualFold(c.lastValue("extensions.objectformat"), "sha256") {
		return 32
	}
	return 20
}

// ResolvePath returns a path without symbolic links, "" if it does not exist. to is absolute, or relative to dir.
func ResolvePath(dir, to string) string {
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}

	to, err := filepath.EvalSymlinks(to)
	if err != nil {
		return ""
	}

	return to
}

// Limits of the sizes of the files that this package reads, in bytes.
const (
	maxSmallFileBytes = 64 << 10
	maxFileBytes      = 256 << 20 // such as an index or packed-refs
)

// readFile reads a regular file.
func readFile(name string) ([]byte, error) { return plainfile.Read(name, maxFileBytes) }

// readSmall reads a regular file of a few lines.
func readSmall(name string) (string, error) {
	b, err := plainfile.Read(name, maxSmallFileBytes)
	return string(b), err
}
