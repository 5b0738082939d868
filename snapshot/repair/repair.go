// Package repair checks and repairs stores that are not open.
package repair

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/verify"
)

// Repair rebuilds the index of a store that is not open from its packs and
// its journal, sets damaged records aside, and verifies the result.
func Repair(ctx context.Context, dir string, o snapshot.Options, progress func(done, total int64)) (*verify.Report, error) {
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
	o.Salvage, o.Quiet = true, true
	if o.UID, o.GID, err = storedir.Owner(dir); err != nil {
		return nil, err
	}
	s, err := snapshot.Open(dir, o)
	if err != nil {
		return nil, err
	}
	r, err := s.Verify(ctx, progress)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	r.Repaired = &res
	return r, nil
}

func repairPacks(dir string, o snapshot.Options) (res cas.RepairResult, err error) {
	err = storedir.Locked(dir, func(disk *vfs.Beneath) error {
		if o.FS == nil {
			o.FS = disk
		}
		if res, err = cas.Repair(dir, cas.Options{FS: o.FS, Logger: o.Logger}); err != nil {
			return fmt.Errorf("repairing %s: %w", dir, err)
		}
		return nil
	})
	return res, err
}

// Check verifies a store that is not open. One that does not open, because
// its journal or the state of a workspace is damaged, is read as Repair would
// leave it, and the report tells what that would lose. Nothing is changed but the
// index, and what a kill or a power cut has torn is cut off.
func Check(ctx context.Context, dir string, o snapshot.Options, progress func(done, total int64)) (*verify.Report, error) {
	o.Quiet, o.ReadOnly = true, true
	s, err := snapshot.Open(dir, o)
	if err != nil && !errors.Is(err, errs.Busy) && !errors.Is(err, errs.Format) {
		o.Salvage = true
		if again, serr := snapshot.Open(dir, o); serr == nil {
			s, err = again, nil
		}
	}
	if err != nil {
		return nil, err
	}
	r, err := s.Verify(ctx, progress)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return r, nil
}
