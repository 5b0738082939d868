package storedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

// storeEntries are the names of the files and directories that a store consists of.
var storeEntries = []string{
	"format", "from", "filling", "filled", "filling.tmp", "format.tmp", "manifest", "manifest.tmp", "manifest.copy", "manifest.copy.tmp",
	"journal", "packs", "index", "index.old", "events", "git", "gitcache", "images", "remotes.json", "remotes.json.tmp",
	"actors.json", "actors.json.tmp", "socket", "amberfs.log", "amberfs.log.1",
	"lock", // removed last, so that no other process opens the store during the removal
}

// A Dir is the directory of a store that this process has locked. It records which entries this
// process created, so that Discard removes only these.
type Dir struct {
	Path string
	Disk *vfs.Root

	lock          *os.File
	createdDir    bool            // this process created the directory
	entriesBefore map[string]bool // names in the directory when it was opened; nil with an inherited lock
	wroteFormat   bool            // this process wrote the file `format` under the lock

	syncMu   sync.Mutex
	unsynced bool // the store was filled, but SyncFill has not made it durable; guarded by syncMu
}

// Open locks a store, or a directory that can become a store. It creates a missing directory. It does
// not write into any other directory.
//
// lock is the locked file `lock` that this process inherited from the previous daemon, or nil.
func Open(path string, lock *os.File) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}

	d := &Dir{Path: path, lock: lock}
	if err := d.mkdir(); err != nil {
		return nil, fmt.Errorf("making store %s: %w", path, err)
	}
	if d.Disk, err = vfs.OpenRoot(path); err != nil {
		return nil, fmt.Errorf("opening store %s: %w", path, err)
	}
	if err := d.lockDir(); err != nil {
		return nil, errors.Join(err, d.removeCreated(), d.Disk.Close())
	}

	return d, nil
}

// mkdir creates the directory, unless it exists.
func (d *Dir) mkdir() error {
	if err := os.MkdirAll(filepath.Dir(d.Path), 0o700); err != nil {
		return err
	}

	err := os.Mkdir(d.Path, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}

	d.createdDir = err == nil

	return nil
}

// lockDir records the names in the directory and locks it.
func (d *Dir) lockDir() error {
	if d.lock != nil {
		// The store exists. Do not read its directory: the mount may be below this directory, and does
		// not answer requests yet.
		return writeHolder(d.lock, Holder{PID: os.Getpid()})
	}
	if _, err := checkFormat(d.Disk, d.Path); err != nil {
		return err
	}

	entries, err := d.Disk.ReadDir(d.Path)
	if err != nil {
		return err
	}

	d.entriesBefore = make(map[string]bool)
	for _, e := range entries {
		d.entriesBefore[e.Name] = true
	}

	d.lock, err = lockStore(d.Disk, d.Path)
	return err
}

// LockFD returns the file descriptor that holds the lock.
func (d *Dir) LockFD() int { return int(d.lock.Fd()) }

// Owner returns the user and the group that created a store.
func Owner(dir string) (uid, gid uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	return st.Uid, st.Gid, nil
}

// SetMountpoint records in the lock file the directory on which the store is mounted. The LockedError of other
// processes contains this directory.
func (d *Dir) SetMountpoint(dir string) error {
	return writeHolder(d.lock, Holder{PID: os.Getpid(), Mountpoint: dir})
}

// Created reports whether this process created the store.
func (d *Dir) Created() bool { return d.wroteFormat }

// Close unlocks the store.
func (d *Dir) Close() error { return errors.Join(d.Disk.Close(), d.lock.Close()) }

// Discard removes the files and directories that this process created, and closes d.
func (d *Dir) Discard() error { return errors.Join(d.removeCreated(), d.Close()) }

// removeCreated removes the entries of a store whose format file this process wrote, and then the
// directory if this process created it and it is empty. The caller holds the lock of the store.
func (d *Dir) removeCreated() error {
	var err error
	for _, name := range storeEntries {
		if d.wroteFormat && !d.entriesBefore[name] {
			err = errors.Join(err, os.RemoveAll(d.Disk.Path(filepath.Join(d.Path, name))))
		}
	}

	if d.createdDir {
		_ = unix.Rmdir(d.Path) // fails without effect if another process has begun to use the directory
	}

	return err
}

// WithLock locks a store and calls fn with the disk beneath the store's directory. The error is a
// *LockedError if another process holds the lock.
func WithLock(dir string, fn func(disk *vfs.Root) error) error {
	return withDisk(dir, func(disk *vfs.Root) error {
		lock, err := lockStore(disk, dir)
		if err != nil {
			return err
		}
		return errors.Join(fn(disk), lock.Close())
	})
}
