package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/worktrees"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/repair"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// MakeStore makes the store of cfg if it does not exist, and fills it. A store that exists and was not filled is
// filled, too. made is false if the store was ready before. `run` calls MakeStore outside of its namespaces, where
// all user ids are mapped.
func MakeStore(ctx context.Context, cfg Config, s MessageFunc) (made bool, err error) {
	err = RetryWhileBusy(ctx, cfg.Store, func() error {
		if _, err := os.Lstat(filepath.Join(cfg.Store, "format")); err == nil {
			from, err := storedir.FillingSource(cfg.Store)
			if from == "" || err != nil {
				return errors.Join(err, checkReuse(cfg, s.note))
			}
		}

		c := &service.Connection{StartSnapshot: cfg.Remote, AllowEmpty: cfg.OrEmpty, Log: slog.New(slog.DiscardHandler)}
		defer c.Close()

		store, err := openStore(cfg.Store, snapshot.Options{
			UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Quiet: true, FillSource: cfg.From, Connect: c.ConnectFunc(ctx),
		})
		if err != nil {
			return explainOpenError(cfg.Store, err)
		}
		if err := fillStore(ctx, store, cfg, s); err != nil {
			return errors.Join(service.WithKind(err), store.GiveUp())
		}

		made = true

		return service.WithKind(store.Close())
	})
	return made, err
}

// checkReuse checks the option --from for an existing store. A store that was filled from the same
// directory may be used: then checkReuse calls note. For other stores it returns an error.
func checkReuse(cfg Config, note func(string)) error {
	if cfg.From == "" {
		return nil
	}
	from, err := storedir.FilledSource(cfg.Store)
	if err != nil {
		return err
	}

	if from == cfg.From {
		if len(cfg.Exclude) == 0 { // with Exclude, the caller refreshes the workspace
			note("the store " + cfg.Store + " exists and is used as it is: " + from + " is not read again. `amberfs refresh` does that")
		}
		return nil
	}

	origin := "is not one that --from made"
	if from != "" {
		origin = "was filled from " + from
	}

	return errs.Fail(errs.Exist, "the store %s exists and %s", cfg.Store, origin).
		WithHint("leave out --from, and import %s with `amberfs import`", cfg.From)
}

// fillStore makes the workspace of a new store equal to the directory cfg.From. If a killed process has left a
// store that is not completely filled, fillStore continues with the directory of that process. The mount point
// of cfg is not read if it is inside the directory; it is read if it is the directory itself.
func fillStore(ctx context.Context, s *snapshot.Store, cfg Config, st MessageFunc) error {
	if !s.IsNewOrUnfilled() { // the store is not new
		return checkReuse(cfg, st.note)
	}
	from, err := storedir.FillingSource(cfg.Store)
	if from == "" || err != nil {
		return err
	}

	switch cfg.From {
	case from:
	case "":
		st.note("the store " + cfg.Store + " was not filled to the end: filling it from " + from)
	default:
		return errs.Fail(errs.Exist, "the store %s is to be filled from %s", cfg.Store, from).WithHint("leave out --from, or remove the store")
	}

	cfg.From = from
	exclude := append([]string{cfg.Store, worktrees.CopyMountpoint(cfg.From)}, cfg.Exclude...)
	if cfg.Mountpoint != cfg.From {
		exclude = append(exclude, cfg.Mountpoint)
	}

	if mounts, err := locate.Mounts(); err != nil {
		return err
	} else if _, ok := locate.MountAt(mounts, cfg.From); ok {
		exclude = append(exclude, filepath.Join(cfg.From, naming.SnapshotsDir), filepath.Join(cfg.From, naming.ForksDir))
	}

	var leftOut hostdir.LeftOut
	o := service.FillOptions{Exclude: exclude, Hidden: cfg.Hidden, ShowProgress: st.progress, Skip: leftOut.Add, StubUnreadable: len(cfg.Exclude) > 0}
	if cfg.Mountpoint != cfg.From && len(cfg.Exclude) == 0 { // not if the copy is mounted at the path of the directory, where links stay valid
		o.ReportPaths, o.Relink = st.note, cfg.Relink
	}
	defer func() {
		if text := leftOut.Describe(cfg.From); text != "" {
			st.note(text)
		}
	}()

	if err := service.FillStore(ctx, s, cfg.From, o); err != nil {
		return err
	}

	return snapshot.MarkFilled(s)
}

// maxEndWait is the time to wait for a daemon that has no mount any more and still writes to its store.
const maxEndWait = 30 * time.Second

// openStore opens a store. If the daemon of the store is ending, openStore waits for its end, because a daemon still
// writes after umount(8) has returned.
func openStore(dir string, o snapshot.Options) (*snapshot.Store, error) {
	return retryWhileEnding(func() (*snapshot.Store, error) { return snapshot.Open(dir, o) })
}

// retryWhileEnding calls fn, and repeats it while it fails because a daemon that is ending has locked the store.
func retryWhileEnding[R any](fn func() (R, error)) (R, error) {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r, err := fn()
		locked, ok := errors.AsType[*storedir.LockedError](err)
		if !ok || !isEnding(locked.Dir, locked.PID, locked.Mountpoint) || time.Since(start) > maxEndWait {
			return r, err
		}
	}
}

// RetryWhileBusy calls fn, and repeats it while it fails with an error of kind Busy: another process is filling the
// store, or the daemon of the store is starting or ending. It waits for at most maxEndWait, not counting the time in
// which a process fills the store.
func RetryWhileBusy(ctx context.Context, store string, fn func() error) error {
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := fn()
		if errs.ScriptKind(err) != errs.Busy || ctx.Err() != nil {
			return err
		}
		if h, herr := storedir.ReadHolder(store); herr == nil && h.Mountpoint == "" {
			start = time.Now() // a process without a mount point is filling the store: this time does not count
		}
		if time.Since(start) > maxEndWait {
			return err
		}
	}
}

// isEnding reports whether the daemon pid has no mount of its store any more. point is the mount point that it has
// written into the store. isEnding reads the mount table of the daemon, which may have a mount namespace of its
// own. A starting daemon counts as ending until it has mounted.
func isEnding(store string, pid int, point string) bool {
	if pid <= 0 || point == "" {
		return false
	}
	mounts, err := mountinfo.PidMountInfo(pid)
	if err != nil {
		// A process that exits loses its mount table first, and then its command line. So a daemon that has neither
		// is ending.
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || len(line) == 0
	}

	return len(locate.StoreMounts(mounts, store)) == 0
}

// VerifyStore checks a store that is not mounted. If repairs is set, it also repairs the store. If damage was found, it
// returns an error of kind Damaged and a report.
func VerifyStore(ctx context.Context, dir string, repairs bool, show func(service.Progress)) (*repair.Report, error) {
	work := service.CheckStore
	if repairs {
		work = service.RepairStore
	}
	return withUnmountedStore(dir, func() (*repair.Report, error) { return work(ctx, dir, memoryShare(), show) })
}

// ProveStore searches a store that is not mounted for forgotten bytes. If it finds some, it returns an
// error of kind Damaged and a proof.
func ProveStore(ctx context.Context, dir string) (*forget.Proof, error) {
	return withUnmountedStore(dir, func() (*forget.Proof, error) { return service.VerifyForgottenStore(ctx, dir, memoryShare()) })
}

// withUnmountedStore calls work for a store that is not mounted.
func withUnmountedStore[R any](dir string, work func() (*R, error)) (*R, error) {
	if err := storedir.Check(dir); err != nil {
		if _, serr := os.Lstat(filepath.Join(dir, "format")); errors.Is(serr, os.ErrNotExist) {
			return nil, errs.Fail(errs.NotExist, "no store at %s", dir)
		}
		return nil, service.WithKind(err)
	}

	var st unix.Stat_t
	if os.Geteuid() == 0 && unix.Stat(dir, &st) == nil && st.Uid != 0 {
		return nil, errs.Fail(errs.Perm, "the store %s belongs to the user %d, who could not open what root writes there", dir, st.Uid).
			WithHint("run it as that user")
	}

	unix.Umask(ownerOnlyUmask)
	limitMemory()

	r, err := retryWhileEnding(work)
	if err != nil && r == nil {
		err = explainOpenError(dir, err)
	}

	return r, err
}

// explainOpenError adds a hint to an error of opening the store dir.
func explainOpenError(dir string, err error) error {
	var known *errs.Error
	var locked *storedir.LockedError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &locked):
		return busyError(dir, locked.PID, locked.Mountpoint)
	case errors.Is(err, cas.ErrLost):
		return errs.Fail(errs.Damaged, "%w", err).
			WithHint("the catalogue cannot be repaired: restore the store from a backup, and keep the packs, which have the contents of its files")
	}

	if err = service.WithKind(err); errs.ScriptKind(err) == errs.Damaged {
		return errs.Fail(errs.Damaged, "%w", err).
			WithHint("`amberfs verify %s` lists the affected files, `amberfs verify --repair %s` keeps what can be read", dir, dir)
	}

	return err
}

// RemoveStore removes a store that no process uses.
func RemoveStore(store string) error {
	return service.WithKind(storedir.WithLock(store, func(*vfs.Root) error { return os.RemoveAll(store) }))
}
