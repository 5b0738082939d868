package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/verify"
)

// VerifyStore checks, and repairs if asked to, a store that is not mounted. The
// error is of kind Damage when damage was found, and then comes with a report.
func VerifyStore(ctx context.Context, dir string, repair bool, show func(service.Progress)) (*verify.Report, error) {
	if err := storedir.Check(dir); err != nil {
		if _, serr := os.Lstat(filepath.Join(dir, "format")); errors.Is(serr, os.ErrNotExist) {
			return nil, fail.New(fail.NotFound, "there is no store at %s", dir)
		}
		return nil, service.Explain(err)
	}
	private()
	back := asOwner(dir)
	r, err := verifyStore(ctx, dir, repair, show)
	back()
	if errors.Is(err, os.ErrPermission) { // something in it became root's
		r, err = verifyStore(ctx, dir, repair, show)
	}
	return r, err
}

func verifyStore(ctx context.Context, dir string, repair bool, show func(service.Progress)) (r *verify.Report, err error) {
	work := service.CheckStore
	if repair {
		work = service.RepairStore
	}
	err = afterEnd(func() (err error) {
		r, err = work(ctx, dir, show)
		return err
	})
	if err != nil && r == nil {
		err = openError(dir, err)
	}
	return r, err
}

// openError explains why a store does not open.
func openError(dir string, err error) error {
	var known *fail.Error
	var locked *storedir.LockedError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &locked):
		return busyStore(dir, locked.PID, locked.Mountpoint)
	case errors.Is(err, snapshot.ErrLost):
		return fail.New(fail.Damage, "%w", err).
			WithHint("no repair can tell what is what: put a copy of the store in its place; the contents of its files are still in the packs, so keep them")
	}
	if err = service.Explain(err); fail.KindOf(err) == fail.Damage {
		return fail.New(fail.Damage, "%w", err).
			WithHint("`amberfs verify %s` names what is touched, `amberfs verify --repair %s` keeps what can be read", dir, dir)
	}
	return err
}
