package service

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/repair"
)

// upkeep has the operations on the store and on its mount as a whole.
type upkeep struct {
	store          upkeepStore
	gatewayCommand func(view uint32) string // see actors.Registry.GatewayCommand
	mount          *Mount
	daemon         *Daemon
	registry       *known.Registry
	backupState    func() *BackupState
	sweepImages    func()
	erase          func(context.Context) error // see erasure.eraseRest
}

// An upkeepStore frees space in a store, and checks it.
type upkeepStore interface {
	Dir() string
	RemoveKept() error
	GC(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error)
	Verify(ctx context.Context, progress func(done, total int64)) (*repair.Report, error)
}

// status returns the status of the workspace, the store and the daemon. A caller that is confined to a
// fork gets the status of the fork alone.
func (u *upkeep) status(_ context.Context, r *Request, _ GetStatus) (Status, error) {
	st := Status{Status: r.Workspace.Status(), Gateway: u.gatewayCommand(r.Workspace.View())}

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
	if u.registry == nil {
		return st, nil
	}

	st.Push = u.backupState()
	for url, since := range u.registry.AwaySince() {
		st.Remotes = append(st.Remotes, RemoteState{URL: url, State: "away", Since: since})
	}
	for name, url := range u.registry.Untrusted() {
		st.Remotes = append(st.Remotes, RemoteState{Name: name, URL: url, State: "untrusted"})
	}

	slices.SortStableFunc(st.Remotes, func(a, b RemoteState) int { return strings.Compare(a.URL, b.URL) })
	st.FromRemote = u.registry.HasAny()
	return st, nil
}

// presentPolicy runs the operation policy, and resumes set-policy.
func presentPolicy[A any](_ *upkeep, _ context.Context, r *Request, _ A) (policy.Policy, error) {
	return r.Workspace.Policy(), nil
}

// setPolicy patches the policy. It checks the whole patch before a part of it takes effect.
func (u *upkeep) setPolicy(_ context.Context, r *Request, a SetPolicy) (policy.Policy, error) {
	// If the patch is not valid, PatchPolicy below returns the error.
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

// checkPushRemote returns an error if the caller may not name a remote for the pushes of the policy, or if the
// remote is not registered.
func (u *upkeep) checkPushRemote(r *Request, name string) error {
	if name == "" || name == r.Workspace.Policy().Push.Remote {
		return nil
	}

	if confinedToFork(r) { // callers confined to a fork must not learn the names of other remotes
		if err := checkPushArgs(r, Push{Remote: name}); err != nil {
			return err
		}
	}

	if _, ok := u.registry.List()[name]; !ok {
		return errs.Fail(errs.NotExist, "the policy names the remote %q, which is not registered", name).
			WithHint("add it first with `amberfs remote add %s URL`", name)
	}

	return nil
}

func (u *upkeep) gc(ctx context.Context, r *Request, a GC) (Collected, error) {
	if a.All {
		if err := u.store.RemoveKept(); err != nil {
			return Collected{}, err
		}
	}

	if err := u.erase(ctx); err != nil {
		return Collected{}, err
	}

	freed, err := u.store.GC(ctx, byteProgress("collecting", r.progress))
	if err != nil {
		return Collected{}, err
	}

	u.sweepImages()
	r.log.Info("gc", "removed", freed.RemovedObjects, "freed", freed.FreedBytes)

	return Collected{Objects: freed.RemovedObjects, Bytes: freed.FreedBytes}, nil
}

// byteProgress returns a function that passes numbers of bytes to the function show, as progress of work. The
// parameter what is the name of the work.
func byteProgress(what string, show func(Progress)) func(done, total int64) {
	return func(done, total int64) { show(Progress{What: what, Done: done, Total: total, Unit: "bytes"}) }
}

func (u *upkeep) verify(ctx context.Context, r *Request, _ Verify) (*repair.Report, error) {
	report, err := u.store.Verify(ctx, byteProgress("verifying", r.progress))
	if err != nil {
		return nil, err
	}

	hint := "nothing else is touched; `amberfs verify --repair " + u.store.Dir() + "` repairs it when it is not mounted"
	if err := DamageError(report, hint); err != nil {
		r.log.Error("the store is damaged", "records", len(report.Damage), "paths", len(report.Affected))
		return nil, err
	}

	return report, nil
}

func (u *upkeep) umount(_ context.Context, r *Request, a Umount) (Unmounted, error) {
	r.log.Info("umount", "uid", r.Caller.UID, "pid", r.Caller.PID, "lazy", a.Lazy)
	return Unmounted{PID: os.Getpid(), Store: u.store.Dir(), Mountpoint: r.mountpoint}, u.mount.Umount(a.Lazy)
}

// FreezeHooks connect the freezes of a store with the keeper, the process that outlives the daemon. A freeze ends
// with its daemon: then the keeper reports the end of the freeze to the next daemon, as EndedEarlyAt and EndReason.
type FreezeHooks struct {
	// NotifyKeeper, if set, is called when a freeze begins, with the time of its end, and when a freeze ends, with
	// the zero time.
	NotifyKeeper func(until time.Time)
	// If the previous daemon ended during a freeze, the freeze ended with it, and EndedEarlyAt is the time. It is
	// zero if there was no such freeze, or after a call of freeze or thaw. EndReason says how the daemon ended.
	EndedEarlyAt time.Time
	EndReason    string
}

// freezes has the operations that begin and end freezes.
type freezes struct {
	mu sync.Mutex // guards FreezeHooks
	FreezeHooks
	freezer live.Freezer
}

const (
	maxFreezeTime     = 10 * time.Minute
	defaultFreezeTime = "30s"
)

// freeze stops all changes for a time.
func (fr *freezes) freeze(_ context.Context, r *Request, a Freeze) (Frozen, error) {
	d, err := policy.ParseSpan(cmp.Or(a.For, defaultFreezeTime))
	if err != nil || d <= 0 || d > maxFreezeTime {
		return Frozen{}, errs.Fail(errs.Invalid, "a freeze takes a time such as 30s, of at most %s, not %q", maxFreezeTime, a.For)
	}

	until := time.Now().Add(d)
	fr.mu.Lock()
	defer fr.mu.Unlock()

	if !fr.freezer.Freeze(d) {
		return Frozen{}, errs.Fail(errs.Busy, "the store is frozen already").WithHint("end the freeze with `amberfs thaw`")
	}

	fr.reportFreeze(until)
	r.log.Info("freeze", "for", d, "uid", r.Caller.UID, "pid", r.Caller.PID)

	return Frozen{Until: until}, nil
}

// reportFreeze reports the end time of a freeze to the keeper, or the zero time if there is no freeze. It also clears
// EndedEarlyAt. The caller holds fr.mu, and has read EndedEarlyAt.
func (fr *freezes) reportFreeze(until time.Time) {
	fr.EndedEarlyAt = time.Time{}
	if fr.NotifyKeeper != nil {
		fr.NotifyKeeper(until)
	}
}

// thaw ends a freeze. It fails if the freeze has ended early, with the previous daemon.
func (fr *freezes) thaw(_ context.Context, r *Request, _ Thaw) (Thawed, error) {
	fr.mu.Lock()
	defer fr.mu.Unlock()

	ended := fr.EndedEarlyAt
	thawed := fr.freezer.Thaw()
	fr.reportFreeze(time.Time{})
	r.log.Info("thaw", "uid", r.Caller.UID, "pid", r.Caller.PID)

	if !thawed && !ended.IsZero() {
		return Thawed{}, errs.Fail(errs.Failed, "the freeze ended at %s, with the daemon that held it (%s)", ended.Format(time.RFC3339), fr.EndReason).
			WithHint("programs may have written since: what was copied may not fit together, so freeze and copy again")
	}

	return Thawed{Thawed: thawed}, nil
}
