package repair

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// A Store is an open store to be verified.
type Store interface {
	Verify(ctx context.Context, progress func(done, total int64)) (*Report, error)
	Close() error
}

// Repair rebuilds the index of a store that is not open from its packs and its journal, moves damaged records into
// quarantine, and verifies the result. open opens the store in a salvage; its arguments are the owner of the store.
func Repair(ctx context.Context, dir string, o cas.Options, open func(uid, gid uint32) (Store, error), progress func(done, total int64)) (*Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := storedir.Check(dir); err != nil {
		return nil, err
	}

	res, err := repairPacks(dir, o)
	if err != nil {
		return nil, err
	}

	uid, gid, err := storedir.Owner(dir)
	if err != nil {
		return nil, err
	}

	s, err := open(uid, gid)
	if err != nil {
		return nil, err
	}

	r, err := verifyAndClose(ctx, s, progress)
	if err != nil {
		return nil, err
	}

	r.Repaired = &res
	return r, nil
}

// verifyAndClose verifies an open store and closes it.
func verifyAndClose(ctx context.Context, s Store, progress func(done, total int64)) (*Report, error) {
	r, err := s.Verify(ctx, progress)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return r, nil
}

// repairPacks repairs the packs with the lock of the store held.
func repairPacks(dir string, o cas.Options) (res cas.RepairResult, err error) {
	err = storedir.WithLock(dir, func(disk *vfs.Root) error {
		if o.FS == nil {
			o.FS = disk
		}
		if res, err = cas.Repair(dir, o); err != nil {
			return fmt.Errorf("repairing %s: %w", dir, err)
		}

		return nil
	})
	return res, err
}

// VerifyClosed verifies a store that is not open. If open(false) fails because the journal or the state of
// a workspace is damaged, VerifyClosed opens the store in a salvage with open(true).
func VerifyClosed(ctx context.Context, open func(salvage bool) (Store, error), progress func(done, total int64)) (*Report, error) {
	s, err := open(false)
	if err != nil && !errors.Is(err, errs.Busy) && !errors.Is(err, errs.Format) {
		if salvaged, serr := open(true); serr == nil {
			s, err = salvaged, nil
		}
	}
	if err != nil {
		return nil, err
	}

	return verifyAndClose(ctx, s, progress)
}
