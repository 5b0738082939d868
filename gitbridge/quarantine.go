package gitbridge

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// quarantine is a temporary directory in the object directory of a repository. Git writes objects to
// the quarantine. At the end of a successful export, the objects are moved to the repository. `git gc`
// removes the quarantine of a killed export. All moves are made beneath an open os.Root, so they follow
// no link out of the object directory.
type quarantine struct {
	objects *os.Root // the object directory of the repository
	name    string   // name of the quarantine in objects
	repo    *repository
}

func newQuarantine(r *repository) (*quarantine, error) {
	objects, err := os.OpenRoot(r.objects)
	if err != nil {
		return nil, fmt.Errorf("writing to %s: %w", r.dir, err)
	}

	q := &quarantine{objects, "tmp_objdir-amberfs-" + rand.Text(), r}
	at, err := os.Lstat(r.objects)
	opened, oerr := objects.Stat(".")
	if err = errors.Join(err, oerr); err == nil && r.trust != trustAll && !os.SameFile(at, opened) {
		err = r.foreignError(r.objects) // a symbolic link is now where openRepository found the directory
	}
	if err == nil {
		err = objects.Mkdir(q.name, 0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing to %s: %w", r.dir, err), objects.Close())
	}

	return q, nil
}

// env returns variables for git calls that write to the quarantine and also read from the repository.
func (q *quarantine) env() []string {
	alternate := `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(q.repo.objects) + `"` // colons separate paths that are not quoted
	return []string{"GIT_OBJECT_DIRECTORY=" + filepath.Join(q.repo.objects, q.name), "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate}
}

func (q *quarantine) remove() {
	_ = q.objects.RemoveAll(q.name) // after an error, git gc removes it later
	_ = q.objects.Close()
}

// release moves all objects to the repository, after m has admitted them. Pack indexes are moved
// after the packs, because git uses a pack as soon as its index exists.
func (q *quarantine) release(m *meter) error {
	objects, bytes, err := q.listObjects()
	if err != nil {
		return fmt.Errorf("collecting the new objects: %w", err)
	}
	if err := m.correct(bytes); err != nil {
		return err
	}

	slices.SortStableFunc(objects, func(a, b string) int { return strings.Compare(path.Ext(b), path.Ext(a)) }) // .pack before .idx
	for _, rel := range objects {
		if err := q.move(rel); err != nil {
			return fmt.Errorf("adding the new objects to %s: %w", q.repo.dir, err)
		}
	}

	return nil
}

// move moves one file to the repository. A new directory gets the permissions of the object directory,
// as in a repository that is shared by several users.
func (q *quarantine) move(rel string) error {
	dir := path.Dir(rel)
	objectDir, err := q.objects.Stat(".")
	if err != nil {
		return err
	}
	if err = q.objects.Mkdir(dir, objectDir.Mode().Perm()); err == nil {
		err = q.objects.Chmod(dir, objectDir.Mode())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if st, err := q.objects.Lstat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("%w: %s is not a directory", ErrNotSelfContained, filepath.Join(q.repo.objects, dir))
	}
	if _, err := q.objects.Lstat(rel); err == nil {
		return nil // the repository has this object already: the name of an object is its hash
	}

	return q.objects.Rename(q.name+"/"+rel, rel)
}

// withENOSPC adds syscall.ENOSPC to git's error for a full disk.
func withENOSPC(err error) error {
	if g, ok := errors.AsType[*GitError](err); ok && (strings.Contains(g.Stderr, "No space left on device") || strings.Contains(g.Stderr, "Out of diskspace")) {
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return err
}
