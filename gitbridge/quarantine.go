package gitbridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// quarantine is an object directory of its own inside of a repository's. Git
// writes there, and what it wrote joins the repository only when everything
// has gone well, as git does with what it receives. A crash leaves a directory
// whose name `git gc` knows as one to remove.
type quarantine struct {
	dir  string
	repo *repository
}

func newQuarantine(r *repository) (*quarantine, error) {
	dir, err := os.MkdirTemp(r.objects, "tmp_objdir-amberfs-")
	if err != nil {
		return nil, fmt.Errorf("writing to %s: %w", r.dir, err)
	}
	return &quarantine{dir, r}, nil
}

// env makes git write to the quarantine and read from the repository too.
func (q *quarantine) env() []string {
	alternate := q.repo.objects
	if strings.ContainsAny(alternate, ":\"\n\\") {
		alternate = gitquote.Name(alternate)
	}
	return []string{"GIT_OBJECT_DIRECTORY=" + q.dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate}
}

func (q *quarantine) remove() { os.RemoveAll(q.dir) }

// release moves every object to the repository. Index files go last: git takes
// a pack for complete when it sees its index.
func (q *quarantine) release() error {
	var objects, indexes []string
	err := filepath.WalkDir(q.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(q.dir, path)
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(rel, ".idx"):
			indexes = append(indexes, rel)
		case strings.HasPrefix(filepath.Base(rel), "tmp_"), strings.HasSuffix(rel, ".keep"):
		default:
			objects = append(objects, rel)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("collecting the new objects: %w", err)
	}
	for _, rel := range append(objects, indexes...) {
		if err := q.move(rel); err != nil {
			return fmt.Errorf("adding the new objects to %s: %w", q.repo.dir, err)
		}
	}
	return nil
}

// move puts one file into the repository. A directory made for it gets the
// permissions of the object directory, which a shared repository has set.
func (q *quarantine) move(rel string) error {
	from, to := filepath.Join(q.dir, rel), filepath.Join(q.repo.objects, rel)
	if _, err := os.Lstat(to); err == nil {
		return nil // the same object: its name is its hash
	}
	err := os.Rename(from, to)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := os.Stat(q.repo.objects)
	if err != nil {
		return err
	}
	dir := filepath.Dir(to)
	if err := os.Mkdir(dir, info.Mode().Perm()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chmod(dir, info.Mode()); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// noSpace makes errors.Is(err, syscall.ENOSPC) true for what git says about a
// full disk.
func noSpace(err error) error {
	var g *GitError
	if errors.As(err, &g) && (strings.Contains(g.Stderr, "No space left on device") || strings.Contains(g.Stderr, "Out of diskspace")) {
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return err
}
