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

// An entry is what the repository has of a linked worktree: its directory .git/worktrees/ID.
type entry struct {
	*vfs.Beneath
	dir, id string
}

// longest is how many bytes of a file with a path are read.
const longest = 8 << 10

// entry returns the one of the worktree with a path.
func (r *Repository) entry(path string) (*entry, error) {
	all := filepath.Join(r.Top, ".git", "worktrees")
	names, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	for _, n := range names {
		dir := filepath.Join(all, n.Name())
		b, err := vfs.OpenBeneath(dir)
		if err != nil {
			continue // another worktree's
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

// OfFork finds the repository of which a fork of the workspace at root is a worktree, for a path
// in the fork. It is found if .git in the fork is as Add wrote it.
func OfFork(root, fork, path string) (*Repository, *Worktree) {
	r, copied := Copied(root)

	for rel := path; ; rel = filepath.Dir(rel) {
		if !copied {
			r = &Repository{Top: filepath.Join(root, rel), Root: root, rel: rel}
		}

		w := &Worktree{Name: fork, Path: r.Files(fork)}
		if e, err := r.entry(w.Path); err == nil {
			defer e.Close()

			text, err := readIn(w.Path, ".git")
			if err == nil && text == e.file() {
				return r, w
			}

			return nil, nil
		}
		if copied || rel == "." || rel == "" {
			return nil, nil
		}
	}
}

// file is the text of the file .git in the worktree.
func (e *entry) file() string { return "gitdir: " + e.dir }

// move has the worktree at another path, which has no .git.
func (e *entry) move(path string) error {
	f, err := os.OpenFile(filepath.Join(path, ".git"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(e.file() + "\n")
	return errors.Join(err, f.Close(), e.write("gitdir", filepath.Join(path, ".git")+"\n"))
}

// copyIndex copies the index of a repository.
func (e *entry) copyIndex(repository string) error {
	in, err := openIn(repository, "index")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing is in the index
	}
	if err != nil {
		return err
	}
	defer in.Close()

	out, err := e.File(filepath.Join(e.dir, "index"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}

	_, err = io.Copy(out, in) // within a store nothing is read
	return errors.Join(err, out.Close())
}

func (e *entry) read(name string) (string, error) { return readIn(e.dir, name) }

func (e *entry) write(name, text string) error {
	f, err := e.File(filepath.Join(e.dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// readIn reads the line in a small file. Another program may have made it: a FIFO is refused, and
// no link is followed.
func readIn(dir, name string) (string, error) {
	f, err := openIn(dir, name)
	if err != nil {
		return "", err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, longest))
	return strings.TrimSuffix(string(text), "\n"), err
}

func openIn(dir, name string) (*os.File, error) {
	b, err := vfs.OpenBeneath(dir)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.File(filepath.Join(dir, name), os.O_RDONLY, 0)
}
