package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

// prepareIndexDir removes what is known to keep Badger from opening: a process
// killed between the truncation and the unlinking of a .mem or .vlog file leaves
// it there with no bytes.
func prepareIndexDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	if err := os.RemoveAll(dir + ".old"); err != nil { // left by a kill
		return fmt.Errorf("open index: %w", err)
	}
	d, err := lockIndex(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	ents, err := d.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	for _, e := range ents {
		if !e.Type().IsRegular() { // Badger would follow it to wherever it leads
			return fmt.Errorf("%w: %s is not a regular file", errIndexBroken, e.Name())
		}
		if e.Name() == openingMark {
			why, err := os.ReadFile(filepath.Join(dir, openingMark))
			if err == nil && len(why) > 0 {
				return fmt.Errorf("%w: it could not be read: %s", errIndexBroken, why)
			}
			return fmt.Errorf("%w: its opening was interrupted", errIndexUnfit)
		}
		if ext := filepath.Ext(e.Name()); ext != ".mem" && ext != ".vlog" {
			continue
		}
		fi, err := e.Info()
		if err == nil && filepath.Ext(e.Name()) == ".mem" && fi.Size() > 2*memtable {
			// Badger makes them twice that, and would end the process when what is
			// in one does not fit into memory.
			return fmt.Errorf("%w: %s is too long", errIndexBroken, e.Name())
		}
		if err == nil && fi.Size() == 0 {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("open index: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, openingMark), nil, 0o600); err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	return nil
}

// lockIndex takes the lock that Badger holds, too. Without it, nothing there may be
// touched or believed: the mark could be that of a process that is opening just now.
// A link in place of the directory is refused.
func lockIndex(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	d := os.NewFile(uintptr(fd), dir)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: lock %s: %v", ErrInUse, dir, err), d.Close())
	}
	return d, nil
}

// wasKilled reports whether the process that had the index open last did not close it.
func wasKilled(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "LOCK")) // Badger removes it at the end
	return err == nil
}

// indexGone reports whether there is nothing of an index, and nobody was about to
// make it anew.
func indexGone(dir string) bool {
	if _, err := os.Lstat(dir + ".old"); err == nil {
		return false
	}
	ents, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(ents) == 0
}

// removeIndex removes an index. It leaves its name in one step: a part of an
// index, left by a kill, could pass for a whole one.
func removeIndex(dir string) error {
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
