package gitbridge

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// treeFiles are the files of one directory of a state. They implement gitdir.Files.
type treeFiles struct {
	src            *tree.Source
	state          *tree.State
	dir            string // path of the directory in state
	remainingBytes *int64 // how many bytes may still be read; nil: no limit
}

// lookup returns the entry at a path, nil if there is none. It follows no symbolic links.
func (f treeFiles) lookup(name string) (*tree.Inode, error) {
	return f.state.InodeAt(f.src, path.Join(f.dir, name))
}

func (f treeFiles) Read(name string) ([]byte, error) {
	const maxReadBytes = 256 << 20
	n, err := f.lookup(name)
	switch {
	case err != nil:
		return nil, err
	case n == nil || !n.IsRegular():
		return nil, fs.ErrNotExist
	case n.Size() > maxReadBytes:
		return nil, fmt.Errorf("%s is too large", path.Join(f.dir, name))
	}
	if err := f.spendBudget(name, n.Size()); err != nil {
		return nil, err
	}

	b := make([]byte, n.Size())
	_, err = io.ReadFull(n.Content.Reader(f.src.Files), b)
	return b, err
}

func (f treeFiles) List(name string) (out []gitdir.DirEntry, err error) {
	n, err := f.lookup(name)
	if err != nil || n == nil || !n.IsDir() {
		return nil, err
	}
	const nameSize = 256 // memory of a name: the longest one has 255 bytes
	if err := f.spendBudget(name, nameSize*int64(n.Dir.Len())); err != nil {
		return nil, err
	}

	err = n.Dir.List(f.src, 0, func(e tree.Dirent, _ uint64) bool {
		out = append(out, gitdir.DirEntry{Name: e.Name, IsDir: e.Type == unix.S_IFDIR})
		return true
	})

	return out, err
}

func (f treeFiles) Open(name string) (io.ReadCloser, error) {
	n, err := f.lookup(name)
	if err == nil && (n == nil || !n.IsRegular()) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return io.NopCloser(n.Content.Reader(f.src.Files)), nil
}

func (f treeFiles) Stat(name string) (kind uint32, mtime int64, err error) {
	n, err := f.lookup(name)
	if err != nil || n == nil {
		return 0, 0, err
	}
	return n.Type(), n.Mtime, nil
}

// spendBudget subtracts the bytes of the next read from remainingBytes. It fails if remainingBytes is smaller
// than bytes.
func (f treeFiles) spendBudget(name string, bytes int64) error {
	if f.remainingBytes == nil {
		return nil
	}
	if bytes > *f.remainingBytes {
		return fmt.Errorf("%s: there is too much to read", path.Join(f.dir, name))
	}
	*f.remainingBytes -= bytes
	return nil
}

// gitDirs finds the git directories of two states.
type gitDirs struct {
	src       *tree.Source
	base, now *tree.State
	cached    map[string]bool // by path: whether it is a git directory in base or now
}

// innermost returns the innermost directory that is p or contains p, and that is a git directory in one of the
// two states; "" for none.
func (g *gitDirs) innermost(p string) (dir string, err error) {
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}

		if is, err := g.isGitDir(p[:i]); err != nil {
			return "", err
		} else if is {
			dir = p[:i]
		}
	}
	return dir, nil
}

func (g *gitDirs) isGitDir(p string) (bool, error) {
	if is, ok := g.cached[p]; ok {
		return is, nil
	}

	inBase, err := gitdir.IsGitDir(treeFiles{g.src, g.base, p, nil})
	inNow, nowErr := gitdir.IsGitDir(treeFiles{g.src, g.now, p, nil})
	g.cached[p] = inBase || inNow

	return inBase || inNow, errors.Join(err, nowErr)
}

// worktreeOf returns the directory of the working tree of a git directory. ok is false if the state
// does not have the working tree.
func worktreeOf(f treeFiles) (at string, ok bool) {
	if path.Base(f.dir) == ".git" {
		return path.Dir(f.dir), true
	}
	text, _ := f.Read("config") // no text if there is no such file
	to := gitdir.ConfiguredWorktree(string(text))
	if to == "" || strings.HasPrefix(to, "/") {
		return "", false
	}

	at = path.Join(f.dir, to)
	return at, at != ".." && !strings.HasPrefix(at, "../")
}
