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

// An Opened store is verified and closed.
type Opened interface {
	Verify(ctx context.Context, progress func(done, total int64)) (*Report, error)
	Close() error
}

// Repair rebuilds the index of a store that is not open from its packs and
// its journal, sets damaged records aside, and verifies the result. open opens it for its
// owner with what can be read.
func Repair(ctx context.Context, dir string, o cas.Options, open func(uid, gid uint32) (Opened, error), progress func(done, total int64)) (*Report, error) {
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
	r, err := verified(ctx, s, progress)
	if err == nil {
		r.Repaired = &res
	}
	return r, err
}

func verified(ctx context.Context, s Opened, progress func(done, total int64)) (*Report, error) {
	r, err := s.Verify(ctx, progress)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return r, nil
}

func repairPacks(dir string, o cas.Options) (res cas.RepairResult, err error) {
	err = storedir.WithLock(dir, func(disk *vfs.Beneath) error {
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

// Check verifies a store that is not open. If open does not open it, because
// its journal or the state of a workspace is damaged, it is opened again with what can be read.
func Check(ctx context.Context, open func(salvage bool) (Opened, error), progress func(done, total int64)) (*Report, error) {
	s, err := open(false)
	if err != nil && !errors.Is(err, errs.Busy) && !errors.Is(err, errs.Format) {
		if again, serr := open(true); serr == nil {
			s, err = again, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return verified(ctx, s, progress)
}
