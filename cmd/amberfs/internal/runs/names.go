package runs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// namesDir is a directory next to the stores. For each run it has a link, with the name of the run, to the store of
// the run. So names are unique among all runs of a user. A name is claimed before the fork is created, and
// released after the fork was deleted.
const namesDir = "names"

func nameLink(store, name string) string {
	return filepath.Join(filepath.Dir(store), namesDir, name)
}

// ClaimName claims a name for a run in a store. If a run of another store has the name, owner is that store.
func ClaimName(store, name string) (owner string, err error) {
	link := nameLink(store, name)
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		return "", errs.Fail(errs.ScriptKind(err), "cannot make the directory of the names of runs: %w", err)
	}

	for {
		err := os.Symlink(filepath.Base(store), link)
		if err == nil {
			return "", nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", errs.Fail(errs.ScriptKind(err), "cannot take the name of the run: %w", err)
		}

		owner := NameOwner(store, name)
		if owner == store {
			return "", nil
		}
		if _, err := os.Lstat(owner); owner != "" && err == nil {
			return owner, nil
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) { // the owner of the name was deleted, so the name is removed
			return "", errs.Fail(errs.ScriptKind(err), "cannot take the name of the run: %w", err)
		}
	}
}

// NameOwner returns the store whose run has a name, "" if no run has the name. The parameter store is any store in
// the directory of all stores.
func NameOwner(store, name string) string {
	to, err := os.Readlink(nameLink(store, name))
	if err != nil || to != filepath.Base(to) {
		return ""
	}
	return filepath.Join(filepath.Dir(store), to)
}

// ReleaseName releases the name of a deleted run, and removes the list of the run's other directories.
func ReleaseName(store, name string) {
	if NameOwner(store, name) == store {
		_ = os.Remove(groupFile(store, name))
		_ = os.Remove(nameLink(store, name)) // after an error, the next run of that name removes the link
	}
}

// RunNames returns the names of the runs in a store.
func RunNames(store string) (out []string) {
	all, _ := os.ReadDir(filepath.Join(filepath.Dir(store), namesDir)) // without the directory there are no names
	for _, e := range all {
		if NameOwner(store, e.Name()) == store {
			out = append(out, e.Name())
		}
	}

	return out
}

// RemoveIfEmpty removes a store without runs, and reports whether it did. It does not remove the store of a run that
// is beginning: the daemon of that run has the lock of the store until the run has claimed its name.
func RemoveIfEmpty(store string) (removed bool, err error) {
	err = storedir.WithLock(store, func(*vfs.Root) error {
		if len(RunNames(store)) > 0 {
			return nil
		}
		removed = true
		return os.RemoveAll(store)
	})
	if errs.ScriptKind(service.WithKind(err)) == errs.Busy {
		return false, nil
	}
	return removed && err == nil, service.WithKind(err)
}
