package snapshot

import (
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/history"
)

// What callers tell apart though it is the same kind. The text of an error that
// wraps one of these is a sentence for the user.
var (
	ErrNotFound = history.ErrNotFound
	ErrNoFork   = errs.New(errs.NotExist, "no such fork")
	// ErrUnchanged comes with the newest snapshot, which is as the workspace is now.
	ErrUnchanged = errors.New("nothing changed since the newest snapshot")
	// ErrLost: the catalogue is missing.
	ErrLost    = cas.ErrLost
	ErrRemoved = errors.New("the store, or its index, was removed while it was in use")
)
