package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

// openingMark is a file in the index directory while Badger opens it: some damage makes
// Badger end the process. It stays there when the index cannot be read or may lack
// something. An index with the mark is rebuilt.
//
// A process may also be killed while it opens the index. Hence in a takeover the mark has the number of
// the try, and the index is rebuilt after maxTries.
const openingMark = "OPENING"

const maxTries = 2

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

	tries := 0
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
			tries++
		}
	}
	if tries > 0 {
		if tries = triesOf(dir); !takeover || tries == 0 || tries >= maxTries {
			return fmt.Errorf("%w: it was not opened to the end, or not read", ErrBroken)
		}
	}
	if err := spare(d, len(ents)); err != nil {
		return err
	}
	if takeover {
		return markWith(dir, strconv.Itoa(tries+1))
	}
	return mark(dir)
}

// moreFiles is how many files Badger opens besides those that are there.
const moreFiles = 8

// spare reports an error unless Badger can open its files: without descriptors it would end the
// process.
func spare(dir *os.File, files int) error {
	var copies []int
	defer func() {
		for _, fd := range copies {
			unix.Close(fd)
		}
	}()
	for range files + moreFiles {
		fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if errors.Is(err, unix.EINVAL) { // no descriptor is below the limit
			err = unix.EMFILE
		}
		if err != nil {
			return fmt.Errorf("open index, which has %d files: %w", files, err)
		}
		copies = append(copies, fd)
	}
	return nil
}

// triesOf returns how many processes that took over have begun to open the index and did not come to
// the end, 0 if the mark says that the index is broken.
func triesOf(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, openingMark))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(string(b))
	return n
}

// mark says that the index is broken, unless the mark is removed again.
func mark(dir string) error { return markWith(dir, "") }

func markWith(dir, text string) error {
	err := os.WriteFile(filepath.Join(dir, openingMark), []byte(text), 0o600)
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
