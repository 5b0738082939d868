package snapshot

import (
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
)

// What callers tell apart though it is the same kind. The text of an error that
// wraps one of these is a sentence for the user.
var (
	ErrNotFound = errs.New(errs.NotExist, "no such snapshot")
	ErrNoFork   = errs.New(errs.NotExist, "no such fork")
	ErrNoPath   = errs.New(errs.NotExist, "no such path")
	ErrBadName  = errs.New(errs.Invalid, "refused name")
	// ErrUnchanged comes with the newest snapshot, which is as the workspace is now.
	ErrUnchanged = errors.New("nothing changed since the newest snapshot")
	ErrLost      = errors.New("the catalogue is missing")
	ErrRemoved   = errors.New("the store, or its index, was removed while it was in use")
)

// A LockedError tells who has the store open.
type LockedError struct {
	Dir        string
	PID        int // 0 if nobody knows
	Mountpoint string
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

// inUse is err, or a LockedError if another process has the chunk store open: one
// whose lock file somebody has removed.
func inUse(dir string, err error) error {
	if errors.Is(err, cas.ErrInUse) {
		return &LockedError{Dir: dir}
	}
	return err
}

// Unwrap makes a LockedError an errs.Busy.
func (e *LockedError) Unwrap() error { return errs.Busy }
