package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

// openingMark is a file in the index directory while Badger opens it: some damage makes
// Badger end the process. It stays there when the index cannot be read or may lack
// something. An index with the mark is rebuilt.
const openingMark = "OPENING"

// prepare makes the directory and the mark. It is ErrBroken if the mark is
// there already, or a file that Badger would follow out of the directory.
//
// In a takeover the directory is not locked. The process before may be stuck in its death, and its
// lock then lasts until this process answers what it waits for. The lock of the store, which was
// handed over, keeps all others away.
func prepare(dir string, takeover bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	if err := os.RemoveAll(dir + ".old"); err != nil { // left by a kill
		return fmt.Errorf("open index: %w", err)
	}
	d, err := openDir(dir)
	if err == nil && !takeover {
		err = lock(d)
	}
	if d != nil {
		defer d.Close()
	}
	if err != nil {
		return err
	}

	ents, err := d.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	for _, e := range ents {
		// Badger would follow it to wherever it leads, and write to it.
		if fi, err := e.Info(); err == nil && !vfs.Own(fi) {
			return fmt.Errorf("%w: %s is not a regular file with one name", ErrBroken, e.Name())
		}
		if e.Name() == openingMark {
			return fmt.Errorf("%w: it was not opened to the end, or not read", ErrBroken)
		}
	}
	return mark(dir)
}

func mark(dir string) error {
	err := os.WriteFile(filepath.Join(dir, openingMark), nil, 0o600)
	if err == nil {
		err = vfs.OS.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("mark index: %w", err)
	}
	return nil
}

func unmark(dir string) error {
	if err := os.Remove(filepath.Join(dir, openingMark)); err != nil {
		return fmt.Errorf("mark index: %w", err)
	}
	return nil
}

// openDir opens the directory of an index, and refuses a link in its place.
func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// lock takes the lock that Badger takes, too. Without it nothing there may be
// touched or believed: the mark could be that of a process that is opening the index.
func lock(dir *os.File) error {
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%w: lock %s: %v", ErrInUse, dir.Name(), err)
	}
	return nil
}

// Remove removes the index in dir, if there is one.
func Remove(dir string) error {
	d, err := openDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := lock(d); err != nil {
		return err
	}
	return remove(dir)
}

// remove renames first: a part of an index, left by a kill, could pass for a whole one.
func remove(dir string) error {
	old := dir + ".old"
	err := os.RemoveAll(old)
	if err == nil {
		err = os.Rename(dir, old)
	}
	if err == nil {
		err = vfs.OS.SyncDir(filepath.Dir(dir))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.RemoveAll(old)
	}
	if err != nil {
		return fmt.Errorf("remove the old index: %w", err)
	}
	return nil
}
