package snapshot

import (
	"errors"
	"fmt"
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
	ErrRemoved     = errors.New("the store was removed while it was in use")
)

// A LockedError tells who has the store open.
type LockedError struct {
	Dir        string
	PID        int
	Mountpoint string
}

func (e *LockedError) Error() string {
	at := ""
	if e.Mountpoint != "" {
		at = " and mounted at " + e.Mountpoint
	}
	return fmt.Sprintf("store %s is in use by process %d%s; unmount it first (amberfs umount) or use that mount", e.Dir, e.PID, at)
}

// Is makes a LockedError an ErrBusy.
func (e *LockedError) Is(target error) bool { return target == ErrBusy }
