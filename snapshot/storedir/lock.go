package storedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A Holder describes the daemon that holds, or last held, the lock of a store. It is the content of the
// file `lock`.
type Holder struct {
	PID        int    `json:"pid"`
	Mountpoint string `json:"mountpoint,omitempty"`
}

// A LockedError means that another process has the store open.
type LockedError struct {
	Dir    string
	Holder // with PID 0 if the process is not known
}

func (e *LockedError) Error() string {
	at := ""
	if e.Mountpoint != "" {
		at = " and mounted at " + e.Mountpoint
	}

	by := "another process"
	if e.PID != 0 {
		by = fmt.Sprintf("process %d", e.PID)
	}

	return fmt.Sprintf("store %s is in use by %s%s; unmount it first (amberfs umount) or use that mount", e.Dir, by, at)
}

// Unwrap makes a LockedError an errs.Busy.
func (e *LockedError) Unwrap() error { return errs.Busy }

// lockStore locks a store and returns the locked file. If another process has the lock, the error is a
// *LockedError.
func lockStore(disk *vfs.Root, dir string) (*os.File, error) {
	f, err := disk.OpenOSFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}

	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for end := time.Now().Add(maxDyingTime); err == unix.EWOULDBLOCK && time.Now().Before(end) && HolderIsDying(dir); {
		time.Sleep(20 * time.Millisecond)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}

	if err != nil {
		defer f.Close()

		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking store %s: %w", dir, err)
		}

		h, _ := ReadHolder(dir)
		return nil, &LockedError{dir, h}
	}

	if !isNameOf(disk, filepath.Join(dir, "lock"), f) {
		return nil, errors.Join(fmt.Errorf("locking store %s: it was just removed; try again", dir), f.Close())
	}
	if err := writeHolder(f, Holder{PID: os.Getpid()}); err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return f, nil
}

// isNameOf reports whether name is still a name of f. The process that held the lock before may have removed
// the store after f was opened.
func isNameOf(disk *vfs.Root, name string, f *os.File) bool {
	g, err := disk.OpenOSFile(name, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer g.Close()

	a, aerr := f.Stat()
	b, berr := g.Stat()
	return aerr == nil && berr == nil && os.SameFile(a, b)
}

// maxDyingTime is the longest wait for a process that was killed and still has its files open. The wait may be
// long, because the kernel frees the memory of a process before it closes the files.
const maxDyingTime = 10 * time.Second

// HolderIsDying reports whether the process in the lock file was killed or has ended. Its lock may remain
// for a moment, because the kernel has not closed the process's files yet, or because another process
// inherited them. A process whose command line in /proc is empty has ended: the kernel has freed its
// memory.
func HolderIsDying(dir string) bool {
	h, err := ReadHolder(dir)
	if err != nil || h.PID <= 0 {
		return false
	}
	if process.IsKilled(h.PID) {
		return true
	}

	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.PID))
	return err != nil || len(b) == 0
}

// writeHolder replaces the content of the lock file f.
func writeHolder(f *os.File, h Holder) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}

	// Overwrite before truncating: a truncation frees the block of the file, and a full disk might have
	// no block for the new content.
	b = append(b, '\n')
	if _, err = f.WriteAt(b, 0); err != nil {
		return err
	}

	return f.Truncate(int64(len(b)))
}

// ReadHolder returns the daemon that holds, or last held, the lock of the store in dir.
func ReadHolder(dir string) (h Holder, err error) {
	err = withDisk(dir, func(disk *vfs.Root) error {
		b, err := readSmallFile(disk, filepath.Join(dir, "lock"))
		if err != nil {
			return err
		}
		return json.Unmarshal(b, &h)
	})
	return h, err
}
