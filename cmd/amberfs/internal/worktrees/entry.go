package worktrees

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// An entry is the directory .git/worktrees/ID, in which git keeps its files about a linked worktree.
type entry struct {
	*vfs.Root
	dir, id string
}

// maxPathFileBytes is the maximum number of bytes that are read of a file with a path.
const maxPathFileBytes = 8 << 10

// openEntry opens the entry of the worktree at a path. The caller closes it.
func (r *Repository) openEntry(path string) (*entry, error) {
	entriesDir := filepath.Join(r.Top, ".git", "worktrees")
	names, err := os.ReadDir(entriesDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	for _, n := range names {
		dir := filepath.Join(entriesDir, n.Name())
		b, err := vfs.OpenRoot(dir)
		if err != nil {
			continue // no directory, or one that this user may not open
		}

		e := &entry{b, dir, n.Name()}
		if file, err := e.read("gitdir"); err == nil {
			if !filepath.IsAbs(file) {
				file = filepath.Join(dir, file)
			}
			if file == filepath.Join(path, ".git") {
				return e, nil
			}
		}

		e.Close()
	}

	return nil, errs.Fail(errs.NotExist, "%s is no worktree of %s", path, r.Top)
}

// FindInFork returns the worktree at or above a path in a fork, and its repository. root is the root of the workspace
// that the fork belongs to. If the worktree's file .git is not as Add wrote it, or if there is no worktree,
// FindInFork returns nil, nil.
func FindInFork(root, fork, path string) (*Repository, *Worktree) {
	r, copied := RepositoryOfCopy(root)

	for rel := path; ; rel = filepath.Dir(rel) {
		if !copied {
			r = &Repository{Top: filepath.Join(root, rel), Root: root, topInWorkspace: rel}
		}

		w := &Worktree{Name: fork, Path: r.FilesIn(fork)}
		if e, err := r.openEntry(w.Path); err == nil {
			defer e.Close()

			text, err := readLineIn(w.Path, ".git")
			if err == nil && text == e.gitFileText() {
				return r, w
			}

			return nil, nil
		}
		if copied || rel == "." || rel == "" {
			return nil, nil
		}
	}
}

// gitFileText returns the text of the file .git in the worktree.
func (e *entry) gitFileText() string { return "gitdir: " + e.dir }

// moveTo changes the path of the worktree. The directory at the new path must have no .git.
func (e *entry) moveTo(path string) error {
	f, err := os.OpenFile(filepath.Join(path, ".git"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(e.gitFileText() + "\n")
	return errors.Join(err, f.Close(), e.write("gitdir", filepath.Join(path, ".git")+"\n"))
}

// copyIndex copies the index of a repository into the entry. repository is the path of its directory .git.
func (e *entry) copyIndex(repository string) error {
	in, err := openInDir(repository, "index")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // git treats a missing index as an empty one
	}
	if err != nil {
		return err
	}
	defer in.Close()

	out, err := e.OpenOSFile(filepath.Join(e.dir, "index"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}

	_, err = io.Copy(out, in) // within an amberfs mount, this copy shares the bytes of the file
	return errors.Join(err, out.Close())
}

func (e *entry) read(name string) (string, error) { return readLineIn(e.dir, name) }

func (e *entry) write(name, text string) error {
	f, err := e.OpenOSFile(filepath.Join(e.dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// readLineIn returns the line in a small file. The file may have been made by another program, so a FIFO is
// refused, and no symbolic link is followed.
func readLineIn(dir, name string) (string, error) {
	f, err := openInDir(dir, name)
	if err != nil {
		return "", err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxPathFileBytes))
	return strings.TrimSuffix(string(text), "\n"), err
}

func openInDir(dir, name string) (*os.File, error) {
	b, err := vfs.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.OpenOSFile(filepath.Join(dir, name), os.O_RDONLY, 0)
}
