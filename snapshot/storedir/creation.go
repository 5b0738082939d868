// Package storedir is the directory of a store: its lock, its format,
// what this process made of it, and what it was filled from.
package storedir

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
	"journal", "packs", "index", "index.old", "events", "git", "gitcache", "images", "remotes.json", "remotes.json.tmp",
	"actors.json", "actors.json.tmp", "socket", "amberfs.log", "amberfs.log.1",
	"lock", // the last: until then the store is this process's
}

// A Dir is the directory of a store that this process has locked. It remembers what it
// made, so that nothing that was there before can be removed through it.
type Dir struct {
	Path string
	Disk *vfs.Beneath

	lock      *os.File
	madeDir   bool            // by this process
	before    map[string]bool // names in the directory that it did not make
	formatted bool            // this process wrote the file that makes it a store, with the lock held
}

// Open locks a store, or a directory that can become one, which it makes if there is
// none. Nothing is written into any other.
//
// lock is its lock, which this process inherited; nil otherwise.
func Open(path string, lock *os.File) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{Path: path, lock: lock}
	if err := d.mkdir(); err != nil {
		return nil, fmt.Errorf("making store %s: %w", path, err)
	}
	if d.Disk, err = vfs.OpenBeneath(path); err != nil {
		return nil, fmt.Errorf("opening store %s: %w", path, err)
	}
	if err := d.take(); err != nil {
		return nil, errors.Join(err, d.removeMade(), d.Disk.Close())
	}
	return d, nil
}

func (d *Dir) mkdir() error {
	if err := os.MkdirAll(filepath.Dir(d.Path), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(d.Path, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	d.madeDir = err == nil
	return nil
}

// take remembers what is in the directory, and locks it.
func (d *Dir) take() error {
	if d.lock != nil {
		// Nothing is new, and nothing is looked at: the mount may lie in the store, and does not
		// answer yet.
		return writeHolder(d.lock, Holder{PID: os.Getpid()})
	}
	if _, err := checkFormat(d.Disk, d.Path); err != nil {
		return err
	}
	entries, err := d.Disk.ReadDir(d.Path)
	if err != nil {
		return err
	}
	d.before = make(map[string]bool)
	for _, e := range entries {
		d.before[e.Name] = true
	}
	d.lock, err = lockStore(d.Disk, d.Path)
	return err
}

// Lock returns the descriptor that has the lock.
func (d *Dir) Lock() int { return int(d.lock.Fd()) }

// Owner returns the user and the group of a store: those that made it.
func Owner(dir string) (uid, gid uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	return st.Uid, st.Gid, nil
}

// SetMountpoint writes down where the store is mounted, for those who find it in use.
func (d *Dir) SetMountpoint(dir string) error {
	return writeHolder(d.lock, Holder{PID: os.Getpid(), Mountpoint: dir})
}

// Made reports whether this process made the store.
func (d *Dir) Made() bool { return d.formatted }

func (d *Dir) Close() error { return errors.Join(d.Disk.Close(), d.lock.Close()) }

// Discard is Close, and removes what this process made.
func (d *Dir) Discard() error { return errors.Join(d.removeMade(), d.Close()) }

// removeMade removes what this process made: the entries of the store if it wrote the
// format file, and the directory if it made that and nothing is left in it. It is
// called with the lock held.
func (d *Dir) removeMade() error {
	var err error
	for _, name := range storeEntries {
		if d.formatted && !d.before[name] {
			err = errors.Join(err, os.RemoveAll(d.Disk.Path(filepath.Join(d.Path, name))))
		}
	}
	if d.madeDir {
		_ = unix.Rmdir(d.Path) // fails if another process uses it by now
	}
	return err
}

func Locked(dir string, fn func(disk *vfs.Beneath) error) error {
	return inside(dir, func(disk *vfs.Beneath) error {
		lock, err := lockStore(disk, dir)
		if err != nil {
			return err
		}
		return errors.Join(fn(disk), lock.Close())
	})
}
