package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

func (d *Daemon) opVerify(ctx context.Context, c *control.Call) (any, error) {
	var req api.Verify
	if err := c.Decode(&req); err != nil {
		return nil, err
	}
	if req.Repair {
		return nil, fail.New(fail.Busy, "a mounted store cannot be repaired").
			WithHint("unmount it, then run `amberfs verify --repair %s`", d.cfg.Store)
	}
	r, err := d.store.Verify(ctx, progressOf("verifying", c.Progress))
	if err != nil {
		return nil, err
	}
	if err := damageFound(r, "nothing else is touched; `amberfs verify --repair "+d.cfg.Store+"` repairs it when it is not mounted"); err != nil {
		d.log.Error("verify found damage", "records", len(r.Damage), "paths", len(r.Affected))
		return nil, &control.ResultError{Err: err, Result: r}
	}
	return r, nil
}

// VerifyStore checks, and repairs if asked to, a store that is not mounted. The
// error is of kind Damage when damage was found, and then comes with a report.
func VerifyStore(ctx context.Context, dir string, repair bool, show func(control.Progress)) (*snapshot.Report, error) {
	if err := snapshot.IsStore(dir); err != nil {
		if _, serr := os.Lstat(filepath.Join(dir, "format")); errors.Is(serr, os.ErrNotExist) {
			return nil, fail.New(fail.NotFound, "there is no store at %s", dir)
		}
		return nil, explain(err)
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

func verifyStore(ctx context.Context, dir string, repair bool, show func(control.Progress)) (*snapshot.Report, error) {
	hint := "run `amberfs verify --repair " + dir + "`"
	if repair {
		var r *snapshot.Report
		err := afterEnd(func() (err error) {
			r, err = snapshot.Repair(ctx, dir, snapshot.Options{}, progressOf("repairing", show))
			return err
		})
		if err != nil {
			return nil, openError(dir, err)
		}
		if r.OK() || len(r.Affected) == 0 {
			return r, nil
		}
		return r, damageFound(r, "what could not be mended is set aside in the store's folder quarantine")
	}
	var r *snapshot.Report
	err := afterEnd(func() (err error) {
		r, err = snapshot.Check(ctx, dir, snapshot.Options{}, progressOf("verifying", show))
		return err
	})
	if err != nil {
		err = openError(dir, err)
		if k := fail.KindOf(err); k == fail.Busy || errors.Is(err, snapshot.ErrFormat) || errors.Is(err, snapshot.ErrLost) ||
			noDamage(err) {
			return nil, err
		}
		return nil, fail.New(fail.Damage, "the store %s does not open: %w", dir, errors.Unwrap(err)).WithHint("%s", hint)
	}
	return r, damageFound(r, hint)
}

// noDamage reports whether an error is one of the system, not of what is stored.
func noDamage(err error) bool {
	return slices.ContainsFunc([]error{os.ErrPermission, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM}, func(e error) bool {
		return errors.Is(err, e)
	})
}

// openError explains why a store does not open.
func openError(dir string, err error) error {
	var locked *snapshot.LockedError
	if errors.As(err, &locked) {
		return busyStore(dir, locked.PID, locked.Mountpoint)
	}
	lost := errors.Is(err, snapshot.ErrLost)
	err = explain(err)
	if lost {
		return fail.New(fail.Damage, "%w", err).
			WithHint("no repair can tell what is what: put a copy of the store in its place; the contents of its files are still in the packs, so keep them")
	}
	if fail.KindOf(err) == fail.Damage {
		return fail.New(fail.Damage, "%w", err).
			WithHint("`amberfs verify %s` names what is touched, `amberfs verify --repair %s` keeps what can be read", dir, dir)
	}
	return err
}

// damageFound is the error for a report that tells of damage.
func damageFound(r *snapshot.Report, hint string) error {
	if r.OK() {
		return nil
	}
	count := func(n int, what string) string {
		if n != 1 {
			what += "s"
		}
		return fmt.Sprintf("%d %s", n, what)
	}
	if len(r.Damage) == 0 {
		return fail.New(fail.Damage, "found %s of which a part is lost", count(len(r.Affected), "path")).
			WithHint("nothing that is stored is damaged, and no repair finds the rest: bring them back from elsewhere, or delete them")
	}
	if len(r.Affected) == 0 && !slices.ContainsFunc(r.Damage, func(d snapshot.Damaged) bool { return !d.Mended }) {
		hint = "it was put right when the store was opened; nothing is lost"
	}
	return fail.New(fail.Damage, "found %s", count(len(r.Damage), "damaged record")).WithHint("%s", hint)
}

// progressOf turns a count of bytes into what a person is shown.
func progressOf(what string, show func(control.Progress)) func(done, total int64) {
	return func(done, total int64) {
		show(control.Progress{What: what, Done: done, Total: total, Unit: "bytes"})
	}
}
