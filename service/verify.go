package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"golang.org/x/sys/unix"

	"io/fs"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/verify"
)

// CheckStore verifies a store that nobody has open. When damage was found the
// error is of kind Damage and has the report as its result.
func CheckStore(ctx context.Context, dir string, show func(Progress)) (*verify.Report, error) {
	hint := "run `amberfs verify --repair " + dir + "`"
	c := &Connection{Log: slog.New(slog.DiscardHandler)}
	defer c.Close()
	r, err := snapshot.Check(ctx, dir, snapshot.Options{Connect: c.Connect(ctx)}, bytesDone("verifying", show))
	if err == nil {
		return r, DamageFound(r, hint)
	}
	kind := fail.KindOf(Explain(err))
	if kind == fail.Busy || errors.Is(err, errs.Format) || errors.Is(err, snapshot.ErrLost) || errors.Is(err, backend.ErrAway) || errors.Is(err, vfs.ErrLinked) || ofSystem(err) {
		return nil, err
	}
	return nil, fail.New(fail.Damage, "the store %s does not open: %w", dir, err).WithHint("%s", hint)
}

// RepairStore repairs a store that nobody has open.
func RepairStore(ctx context.Context, dir string, show func(Progress)) (*verify.Report, error) {
	c := &Connection{Log: slog.New(slog.DiscardHandler)}
	defer c.Close()
	r, err := snapshot.Repair(ctx, dir, snapshot.Options{Connect: c.Connect(ctx)}, bytesDone("repairing", show))
	if err != nil || r.OK() || len(r.Affected) == 0 {
		return r, err
	}
	return r, DamageFound(r, "what could not be repaired is set aside in the store's folder quarantine")
}

// ofSystem reports whether an error is one of the system, not of what is stored.
func ofSystem(err error) bool {
	system := []error{fs.ErrPermission, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM}
	return slices.ContainsFunc(system, func(e error) bool { return errors.Is(err, e) })
}

// DamageFound is the error for a report that tells of damage, nil for one that
// does not.
func DamageFound(r *verify.Report, hint string) error {
	if r.OK() {
		return nil
	}
	var e *fail.Error
	if len(r.Damage) == 0 {
		e = fail.New(fail.Damage, "found %s of which a part is lost", count(len(r.Affected), "path")).
			WithHint("nothing that is stored is damaged, and no repair finds the rest: bring them back from elsewhere, or delete them")
	} else {
		e = fail.New(fail.Damage, "found %s", count(len(r.Damage), "damaged record")).WithHint("%s", hint)
	}
	e.Result = r
	return e
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
