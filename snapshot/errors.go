package snapshot

import (
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas"
)

// What callers tell apart. The text of an error that wraps one of these is a
// sentence for the user.
var (
	ErrNotFound    = errors.New("no such snapshot")
	ErrNoFork      = errors.New("no such fork")
	ErrNoPath      = errors.New("no such path")
	ErrExists      = errors.New("name in use")
	ErrBadName     = errors.New("refused name")
	ErrNameTooLong = errors.New("name too long")
	ErrInvalid     = errors.New("malformed request")
	ErrBusy        = errors.New("busy")
	ErrProtected   = errors.New("protected")
	ErrQuota       = errors.New("limit reached")
	ErrFormat      = errors.New("unknown store format")
	ErrClosed      = errors.New("the store is closed")
	ErrLost        = errors.New("the journal does not go back to the beginning")
	ErrRemoved     = errors.New("the store, or its index, was removed while it was in use")
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

// Is makes a LockedError an ErrBusy.
func (e *LockedError) Is(target error) bool { return target == ErrBusy }
