package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas/vfs"
)

// prepareIndexDir removes what is known to keep Badger from opening: a process
// killed between the truncation and the unlinking of a .mem or .vlog file leaves
// it there with no bytes.
func prepareIndexDir(dir string, size budget) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	if err := os.RemoveAll(dir + ".old"); err != nil { // left by a kill
		return fmt.Errorf("open index: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	defer d.Close()
	// Badger holds this lock too. Without it, nothing here may be touched or
	// believed: the mark could be that of a process that is opening just now.
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%w: lock %s: %v", ErrInUse, dir, err)
	}
	ents, err := d.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	if incomplete(ents) {
		return fmt.Errorf("%w: its manifest is missing", errIndexBroken)
	}
	for _, e := range ents {
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
		if err == nil && filepath.Ext(e.Name()) == ".mem" && fi.Size() > 2*size.memtable {
			// Badger makes them twice that, and would end the process when what is
			// in one does not fit into memory.
			return fmt.Errorf("%w: it was left open on a larger disk", errIndexUnfit)
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

// incomplete tells whether there are tables or logs but no manifest. Badger
// would begin a new one, remove the tables, and take what is in a log for all
// there is.
func incomplete(ents []fs.DirEntry) bool {
	data := false
	for _, e := range ents {
		switch filepath.Ext(e.Name()) {
		case ".sst", ".mem", ".vlog":
			data = true
		}
		if e.Name() == "MANIFEST" {
			return false
		}
	}
	return data
}

// wasKilled tells whether the process that had the index open last did not close it.
func wasKilled(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "LOCK")) // Badger removes it at the end
	return err == nil
}

// indexGone tells whether there is nothing of an index, and nobody was about to
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
