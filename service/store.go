package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/repair"
)

// upkeep has the operations on the store and on its mount as a whole.
type upkeep struct {
	mount       *Mount
	daemon      *Daemon
	known       *known.Registry
	backup      func() *BackupState
	sweepImages func()
}

// status returns the status of the workspace, the store and the daemon. A caller that is confined to a
// fork gets the status of the fork alone.
func (u *upkeep) status(_ context.Context, r *Request, _ GetStatus) (Status, error) {
	st := Status{Status: r.Workspace.Status(), Gateway: r.Workspace.Store().Actors().Gateway(r.Workspace.View())}

	if confinedToFork(r) {
		own := st.Status
		st.Status = info.Status{
			Workspace: own.Workspace, Snapshots: own.Snapshots, Forks: own.Forks, Files: own.Files, LogicalBytes: own.LogicalBytes,
			UnsharedBytes: own.UnsharedBytes, UnsharedLimit: own.UnsharedLimit,
			Frozen: own.Frozen, LastSnapshot: own.LastSnapshot, LastSnapshotAt: own.LastSnapshotAt, Health: own.Health,
		}

		return st, nil
	}

	st.Mountpoint, st.Options, st.Version = r.mountpoint, u.mount.Options, u.daemon.Version
	st.PID, st.Started, st.Uptime = os.Getpid(), u.daemon.Started, time.Since(u.daemon.Started).Seconds()
	st.Requests, st.StaleNames = u.mount.Requests(), u.mount.StaleNames()
	st.Survival = u.daemon.Survival()
	if u.known == nil {
		return st, nil
	}

	st.Push = u.backup()
	for url, since := range u.known.Away() {
		st.Remotes = append(st.Remotes, RemoteState{URL: url, State: "away", Since: since})
	}
	for name, url := range u.known.Untrusted() {
		st.Remotes = append(st.Remotes, RemoteState{Name: name, URL: url, State: "untrusted"})
	}

	slices.SortFunc(st.Remotes, func(a, b RemoteState) int { return strings.Compare(a.URL, b.URL) })
	st.FromRemote = u.known.Any()
	return st, nil
}

func readPolicy(_ context.Context, r *Request, _ Policy) (policy.Policy, error) {
	return r.Workspace.Policy(), nil
}

// setPolicy checks all of the patch before any of it takes effect.
func (u *upkeep) setPolicy(_ context.Context, r *Request, a SetPolicy) (policy.Policy, error) {
	// PatchPolicy reports an error of the patch.
	if wanted, err := r.Workspace.Policy().Patch(a.Patch); err == nil {
		if err := u.checkPushRemote(r, wanted.Push.Remote); err != nil {
			return wanted, err
		}
	}

	p, err := r.Workspace.PatchPolicy(a.Patch, r.Caller)
	if err != nil {
		return p, err
	}

	r.log.Info("policy", "workspace", r.Workspace.Name(), "uid", r.Caller.UID, "pid", r.Caller.PID)

	return p, nil
}

// checkPushRemote returns an error if a policy cannot name the remote for its pushes.
func (u *upkeep) checkPushRemote(r *Request, name string) error {
	if name == "" || name == r.Workspace.Policy().Push.Remote {
		return nil
	}

	if confinedToFork(r) { // callers in a fork must not learn which other remotes there are
		if err := mayPush(r, Push{Remote: name}); err != nil {
			return err
		}
	}

	if _, ok := u.known.List()[name]; !ok {
		return errs.Fail(errs.NotExist, "the policy names the remote %q, which is not registered", name).
			WithHint("add it first with `amberfs remote add %s URL`", name)
	}

	return nil
}

func (u *upkeep) gc(ctx context.Context, r *Request, a GC) (Collected, error) {
	if a.All {
		if err := r.Workspace.Store().ForgetAll(); err != nil {
			return Collected{}, err
		}
	}

	done, err := r.Workspace.Store().GC(ctx, byteProgress("collecting", r.progress))
	if err != nil {
		return Collected{}, err
	}

	u.sweepImages()
	r.log.Info("gc", "removed", done.Removed, "freed", done.FreedBytes)

	return Collected{Objects: done.Removed, Bytes: done.FreedBytes}, nil
}

// byteProgress returns a function that reports numbers of bytes as progress.
func byteProgress(what string, show func(Progress)) func(done, total int64) {
	return func(done, total int64) { show(Progress{What: what, Done: done, Total: total, Unit: "bytes"}) }
}

func (u *upkeep) verify(ctx context.Context, r *Request, _ Verify) (*repair.Report, error) {
	report, err := r.Workspace.Store().Verify(ctx, byteProgress("verifying", r.progress))
	if err != nil {
		return nil, err
	}

	hint := "nothing else is touched; `amberfs verify --repair " + r.Workspace.Store().Dir() + "` repairs it when it is not mounted"
	if err := DamageFound(report, hint); err != nil {
		r.log.Error("the store is damaged", "records", len(report.Damage), "paths", len(report.Affected))
		return nil, err
	}

	return report, nil
}

func (u *upkeep) umount(_ context.Context, r *Request, a Umount) (Unmounted, error) {
	r.log.Info("umount", "uid", r.Caller.UID, "pid", r.Caller.PID, "lazy", a.Lazy)
	return Unmounted{PID: os.Getpid(), Store: r.Workspace.Store().Dir(), Mountpoint: r.mountpoint}, u.mount.Umount(a.Lazy)
}

// events sends the events that match a. With a limit it keeps the newest ones until all are read.
func (h *history) events(ctx context.Context, r *Request, a Log) (None, error) {
	since, err := ParseSince(a.Since)
	if err = errors.Join(err, oneOf("action", a.Action, events.ActionNames())); err != nil {
		return None{}, err
	}

	var last []events.Event
	send := func(e events.Event) error {
		switch {
		case !concerns(e, string(a.Path)) || !a.matches(e) || e.Time.Before(since):
		case a.Limit == 0 || a.Follow:
			return r.Item(e)
		default:
			last = append(last, e)
			last = last[max(0, len(last)-a.Limit):]
		}
		return nil
	}
	if a.Follow && !r.Caller.Direct {
		return None{}, errs.Fail(errs.Invalid, "events can be followed only through the socket").WithHint("use `tail -f .snapshots/log`")
	}
	if err := h.log.Flush(); err != nil {
		r.log.Warn("writing events", "err", err)
	}
	if a.New {
		a.After = max(a.After, h.log.LastSeq(r.Workspace.View()))
	}
	if a.Follow {
		return None{}, h.log.Follow(ctx, r.Workspace.View(), a.After, send)
	}
	if a.Limit < 0 || a.Limit > maxLast {
		return None{}, errs.Fail(errs.Invalid, "the limit of events is 1 to %d, not %d", maxLast, a.Limit)
	}

	if err := reserve(ctx, r.list(), eventCost*int64(a.Limit)); err != nil {
		return None{}, err
	}

	if err := h.log.Read(r.Workspace.View(), a.After, send); err != nil {
		return None{}, err
	}

	for _, e := range last {
		if err := r.Item(e); err != nil {
			return None{}, err
		}
	}

	return None{}, nil
}

const (
	maxLast   = 10_000 // the largest limit of events
	eventCost = 2000   // bytes of an event in memory
)

// matches reports whether an event has the action, the command and the actor in the fields of a.
func (a Log) matches(e events.Event) bool {
	return (a.Action == "" || e.Action == a.Action) && strings.HasPrefix(e.Command, a.Command) && (a.By == "" || actors.Below(e.Actor, a.By))
}

// concerns reports whether an event is at path or below, or renamed a file from there.
func concerns(e events.Event, path string) bool {
	if path == "" || path == "." {
		return true
	}
	return naming.Under(e.Path, path) || e.Action == events.Renamed && naming.Under(e.From, path)
}

// CheckStore verifies a store that is not mounted, with memory bytes for the contents of its journal. An
// error of the kind Damaged has the report as its result, if the store could be opened.
func CheckStore(ctx context.Context, dir string, memory int64, show func(Progress)) (*repair.Report, error) {
	hint := "run `amberfs verify --repair " + dir + "`"
	c := &Connection{Log: slog.New(slog.DiscardHandler)}
	defer c.Close()

	r, err := snapshot.Check(ctx, dir, snapshot.Options{Connect: c.Connect(ctx), Memory: memory}, byteProgress("verifying", show))
	if err == nil {
		return r, DamageFound(r, hint)
	}

	// Errors of the system are no damage of the store.
	system := []error{fs.ErrPermission, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM}
	ofSystem := slices.ContainsFunc(system, func(e error) bool { return errors.Is(err, e) })
	if errs.ScriptKind(err) == errs.Busy || errors.Is(err, errs.Format) || errors.Is(err, cas.ErrLost) || errors.Is(err, backend.ErrAway) || errors.Is(err, vfs.ErrLinked) || ofSystem {
		return nil, err
	}

	return nil, errs.Fail(errs.Damaged, "cannot open the store %s: %w", dir, err).WithHint("%s", hint)
}

// RepairStore repairs a store that is not mounted, with memory bytes for the contents of its journal. It
// returns an error of the kind Damaged if paths stay incomplete.
func RepairStore(ctx context.Context, dir string, memory int64, show func(Progress)) (*repair.Report, error) {
	c := &Connection{Log: slog.New(slog.DiscardHandler)}
	defer c.Close()

	r, err := snapshot.Repair(ctx, dir, snapshot.Options{Connect: c.Connect(ctx), Memory: memory}, byteProgress("repairing", show))
	if err != nil || r.OK() || len(r.Affected) == 0 {
		return r, err
	}

	return r, DamageFound(r, "what could not be repaired is in the store's folder quarantine")
}

// DamageFound returns an error of the kind Damaged for a report with damage, else nil.
func DamageFound(r *repair.Report, hint string) error {
	if r.OK() {
		return nil
	}
	if len(r.Damage) == 0 {
		return errs.Fail(errs.Damaged, "%s are incomplete", count(len(r.Affected), "path")).
			WithHint("the stored data is sound, but these paths are incomplete: restore them from elsewhere, or delete them").WithResult(r)
	}
	return errs.Fail(errs.Damaged, "found %s", count(len(r.Damage), "damaged record")).WithHint("%s", hint).WithResult(r)
}

// count is plural for messages in which large numbers have no commas.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
