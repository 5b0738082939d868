package live

import (
	"errors"
	"fmt"
	"strings"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The errors of the forest, one for each answer that a program can get.
var (
	ErrNotExist     = errors.New("no such file or directory")
	ErrExist        = errors.New("file exists")
	ErrNotDir       = errors.New("not a directory")
	ErrIsDir        = errors.New("is a directory")
	ErrNotEmpty     = errors.New("directory not empty")
	ErrReadOnly     = errors.New("snapshots are read-only")
	ErrNameTooLong  = errors.New("file name too long")
	ErrInvalid      = errors.New("invalid argument")
	ErrNoData       = errors.New("no data at or after this offset")
	ErrNoAttr       = errors.New("no such attribute")
	ErrStale        = errors.New("stale file handle")
	ErrTooManyLinks = errors.New("too many links")
	ErrTooBig       = errors.New("file too large")
	ErrNoSpace      = errors.New("no space left on the store's disk")
	ErrQuota        = errors.New("the store's byte limit is reached")
	ErrPerm         = errors.New("operation not permitted")
	ErrCrossDevice  = errors.New("invalid cross-device link")
	ErrNotSupported = errors.New("operation not supported")
	ErrDamaged      = errors.New("stored data is damaged")
	ErrRange        = errors.New("value too large")
	ErrUncertain    = errors.New("a change failed half-way; unmount and mount again")
)

// loadError translates what reading the tree can go wrong with. Callers hold
// names that exist, so an object that is missing is damage too.
func loadError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tree.ErrNoInode):
		return ErrStale
	case errors.Is(err, tree.ErrNotExist):
		return ErrNotExist
	case errors.Is(err, tree.ErrNoData):
		return ErrNoData
	case errors.Is(err, tree.ErrDirFull):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, ErrStale), errors.Is(err, ErrNotExist), errors.Is(err, ErrNoSpace):
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func appendError(err error) error {
	if errors.Is(err, journal.ErrNoSpace) || errors.Is(err, cas.ErrNoSpace) {
		return ErrNoSpace
	}
	return err
}

// checkName refuses what cannot be the name of a directory entry.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return ErrInvalid
	case len(name) > 255:
		return ErrNameTooLong
	case strings.ContainsAny(name, "/\x00"):
		return ErrInvalid
	}
	return nil
}
