package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

// storeEntries are the names in a store's directory that this program gives.
var storeEntries = []string{
	"format", "from", "filling", "filling.tmp", "format.tmp", "manifest", "manifest.tmp", "manifest.copy", "manifest.copy.tmp",
	"journal", "packs", "index", "index.old", "events", "git", "gitcache", "remotes.json", "remotes.json.tmp",
	"socket", "amberfs.log", "amberfs.log.1",
	"lock", // the last: until then the store is this process's
}

// A creation is a store that this process made. newCreation and its methods are the
// only way to get one, so nothing that was there before can be removed through it.
type creation struct {
	dir     string
	madeDir bool            // by this process
	before  map[string]bool // names in the directory that it did not make
	format  bool            // this process wrote the file that makes it a store, with the lock held
}

// newCreation makes the directory of a store, if there is none.
func newCreation(dir string) (*creation, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("making store %s: %w", dir, err)
	}
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("making store %s: %w", dir, err)
	}
	return &creation{dir: dir, madeDir: err == nil}, nil
}

// look remembers what is in the directory before the lock is taken.
func (c *creation) look(disk *vfs.Beneath) error {
	entries, err := disk.ReadDir(c.dir)
	if err != nil {
		return err
	}
	c.before = map[string]bool{}
	for _, e := range entries {
		c.before[e.Name] = true
	}
	return nil
}

// remove removes what this process made: the entries of the store if it wrote the
// format file, and the directory if it made that and nothing is left in it. It is
// called with the lock held.
func (c *creation) remove(disk *vfs.Beneath) error {
	var err error
	for _, name := range storeEntries {
		if c.format && !c.before[name] {
			err = errors.Join(err, removeTree(disk, filepath.Join(c.dir, name)))
		}
	}
	if c.madeDir {
		_ = unix.Rmdir(c.dir) // fails if another process uses it by now
	}
	return err
}

// removeTree removes a file or a directory with all that is in it.
func removeTree(disk *vfs.Beneath, name string) error {
	st, err := disk.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Dir {
		entries, err := disk.ReadDir(name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := removeTree(disk, filepath.Join(name, e.Name)); err != nil {
				return err
			}
		}
	}
	return disk.Remove(name)
}

// Discard closes the store without the work that Close does at the end, and removes it
// if this opening made it.
func (s *Store) Discard() error {
	if s.closed.Swap(true) {
		return nil
	}
	if !s.creation.format {
		s.closed.Store(false)
		return s.Close()
	}
	s.loops.stop()
	s.loops.wait()
	return errors.Join(s.closeParts(), s.creation.remove(s.disk), s.closeDisk())
}
