package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

// openingMark is the name of a file in the index directory, the mark. An index with the mark is rebuilt.
// The mark exists while Badger opens the index, because some damage makes Badger end the process. It
// is also written when the index cannot be read, or would lack entries after a kill.
//
// A process may also be killed for other reasons while it opens the index. Hence in a takeover the
// mark contains the number of the attempt, and the index is rebuilt only after maxTries attempts.
const openingMark = "OPENING"

const maxTries = 2

// prepareDir creates the directory and the mark, and returns the open directory. It takes the lock of
// the index, unless takeover is set. It returns ErrBroken if the directory contains the mark, or a link
// through which Badger would write outside of the directory.
//
// A takeover does not take the lock, because the old process may still hold it: the old process may
// wait, and not be able to exit, until this process answers a request. The lock of the store, which the
// old process has handed over, keeps other processes from opening the index.
func prepareDir(dir string, takeover bool) (d *os.File, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create index: %w", err)
	}
	if err := os.RemoveAll(dir + ".old"); err != nil { // a killed process may have left it behind, see removeDir
		return nil, fmt.Errorf("open index: %w", err)
	}

	if d, err = openDir(dir); err != nil {
		return nil, err
	}
	if !takeover {
		err = lockDir(d)
	}
	if err == nil {
		err = markOpening(d, takeover)
	}
	if err != nil {
		d.Close()
		return nil, err
	}

	return d, nil
}

// markOpening writes the mark into a directory. It returns an error if the index in the directory
// cannot be opened.
func markOpening(d *os.File, takeover bool) error {
	dir, tries := d.Name(), 0
	ents, err := d.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}

	for _, e := range ents {
		// Links are refused, because Badger would follow a link and write to its target.
		if fi, err := e.Info(); err == nil && !vfs.HasOneName(fi) {
			return fmt.Errorf("%w: %s is not a regular file with one name", ErrBroken, e.Name())
		}
		if e.Name() == openingMark {
			tries++
		}
	}

	if tries > 0 {
		if tries = triesInMark(dir); !takeover || tries == 0 || tries >= maxTries {
			return fmt.Errorf("%w: it was not opened to the end, or not read", ErrBroken)
		}
	}

	if err := checkDescriptors(d, len(ents)); err != nil {
		return err
	}
	if takeover {
		return writeMarkText(dir, strconv.Itoa(tries+1))
	}

	return writeMark(dir)
}

// extraFiles is the largest number of files that Badger creates while it opens an index.
const extraFiles = 8

// checkDescriptors returns an error unless the process can open the given number of files, plus
// extraFiles. If Badger ran out of descriptors, it would end the process.
func checkDescriptors(dir *os.File, files int) error {
	var copies []int
	defer func() {
		for _, fd := range copies {
			unix.Close(fd)
		}
	}()

	for range files + extraFiles {
		fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if errors.Is(err, unix.EINVAL) { // EINVAL: the process may not have any descriptors
			err = unix.EMFILE
		}
		if err != nil {
			return fmt.Errorf("open index, which has %d files: %w", files, err)
		}
		copies = append(copies, fd)
	}

	return nil
}

// triesInMark returns the number in the mark: the number of processes that began to open the index in a
// takeover and did not finish. It returns 0 if the mark has no number.
func triesInMark(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, openingMark))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(string(b))
	return n
}

// writeMark writes a mark without a number.
func writeMark(dir string) error { return writeMarkText(dir, "") }

func writeMarkText(dir, text string) error {
	if err := os.WriteFile(filepath.Join(dir, openingMark), []byte(text), 0o600); err != nil {
		return fmt.Errorf("mark index: %w", err)
	}
	if err := vfs.OS.SyncDir(dir); err != nil {
		return fmt.Errorf("mark index: %w", err)
	}

	return nil
}

func removeMark(dir string) error {
	if err := os.Remove(filepath.Join(dir, openingMark)); err != nil {
		return fmt.Errorf("mark index: %w", err)
	}
	return nil
}

// openDir opens the directory of an index. It fails if dir is a link.
func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// lockDir takes the lock of the index, until dir is closed. A mark shows a failure only to the owner of
// the lock: without the lock, another process may just be opening the index. lockDir tries several
// times, because a child of this process may have the lock for a moment: until its execve(2) a child has
// all files that its parent had open, also the lock of an index that the parent has closed.
func lockDir(dir *os.File) (err error) {
	for range lockTries {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(lockPause)
	}
	if err != nil {
		return fmt.Errorf("%w: lock %s: %v", ErrInUse, dir.Name(), err)
	}

	return nil
}

const (
	lockTries = 100
	lockPause = 10 * time.Millisecond
)

// Remove removes the index in dir, if it exists. It returns ErrInUse if a process has the index open.
func Remove(dir string) error {
	d, err := openDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()

	if err := lockDir(d); err != nil {
		return err
	}

	return removeDir(dir)
}

// removeDir removes the directory of an index. It first renames the directory, because after a kill
// Open could take a partly removed index for a complete one.
func removeDir(dir string) error {
	err := renameAndRemove(dir, dir+".old")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the old index: %w", err)
	}
	return nil
}

func renameAndRemove(dir, old string) error {
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	if err := vfs.OS.SyncDir(filepath.Dir(dir)); err != nil {
		return err
	}

	return os.RemoveAll(old)
}
