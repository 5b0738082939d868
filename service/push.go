package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// push sends snapshots one after the other. An object that several of them contain is sent once.
func (rs *remotes) push(ctx context.Context, r *Request, a Push) (PushedList, error) {
	done := PushedList{Pushed: []Pushed{}}
	if len(a.Snapshots) == 0 {
		return done, errs.Fail(errs.Invalid, "name a snapshot")
	}
	if a.As != "" && len(a.Snapshots) != 1 {
		return done, errs.Fail(errs.Invalid, "--as needs exactly one snapshot")
	}

	if a.Remote == "" {
		var err error
		if a.Remote, err = rs.defaultRemote(r); err != nil {
			return done, err
		}
	}

	target, err := rs.remote(r, a.Remote)
	if err != nil {
		return done, err
	}

	for _, name := range a.Snapshots {
		p, err := rs.pushOne(ctx, r, a, target, name)
		if err != nil {
			return done, explainTransferError(a.Remote, err)
		}
		done.Pushed = append(done.Pushed, p)
	}

	// An error here does not fail the push: the list is only a cache, and without it the next listing is slower.
	if err := target.UpdateList(ctx); err != nil {
		r.log.Warn("push: the list of the remote's snapshots was not written", "remote", a.Remote, "err", err)
	}

	return done, nil
}

// defaultRemote returns the name of the remote in the policy, else of the only registered remote.
func (rs *remotes) defaultRemote(r *Request) (string, error) {
	if name := r.main.Policy().Push.Remote; name != "" {
		return name, nil
	}

	all := slices.Sorted(maps.Keys(rs.registry.List()))
	switch len(all) {
	case 0:
		return "", errs.Fail(errs.NotExist, "the store has no remote").WithHint("`amberfs remote add NAME URL` adds one")
	case 1:
		return all[0], nil
	}

	return "", errs.Fail(errs.Invalid, "name one of the remotes %s", strings.Join(all, ", "))
}

// pushedName returns the name of a snapshot on a remote. If a caller in a fork pushes it, the name
// begins with the fork's name, so that the caller cannot take a name that others need.
func pushedName(r *Request, name, asName string) string {
	name = cmp.Or(asName, name)
	if !confinedToFork(r) {
		return name
	}
	return strings.Join(append(forkNames(r.Workspace), name), ".")
}

// pushOne waits until a snapshot has its id, and pushes it. If an earlier state of the same claimed fork has the name
// on the remote, pushOne replaces it, and keeps it there as NAME.ID.
func (rs *remotes) pushOne(ctx context.Context, r *Request, a Push, target *remote.Remote, name string) (Pushed, error) {
	x, err := r.Workspace.Remotes().PreparePush(ctx, name)
	if err != nil {
		return Pushed{}, err
	}
	defer x.Release()

	as := pushedName(r, x.Info.Name, a.As)
	if err := naming.Check(as); err != nil && !naming.IsAuto(as) {
		return Pushed{}, err
	}

	p := remote.PushOptions{
		Ref: newRef(x.Info, as, x.ActorSets), Force: a.Force, SendAll: a.Full,
		Base: rs.registry.PushBase(target), Mark: markFunc(x.State, r.source, x.ActorSets), ReadStored: rs.readStored,
		Progress: partProgress(r, "pushing "+x.Info.Name),
	}

	start := time.Now()
	p.Ref.Claim, p.Ref.Lineage = x.Claim, x.Lineage
	pushed, err := target.Push(ctx, p)
	if errors.Is(err, remote.ErrExists) {
		if p.Force, err = rs.keepEarlierState(ctx, target, &p.Ref, err); p.Force {
			pushed, err = target.Push(ctx, p)
		}
	}
	if err != nil {
		return Pushed{}, err
	}

	r.log.Info("push", "remote", a.Remote, "snapshot", x.Info.Name, "as", pushed.Ref.Name, "bytes", pushed.Bytes, "took", time.Since(start))
	if !pushed.Unchanged {
		r.Workspace.Remotes().ReportPushed(x.Info.Name, a.Remote, r.Caller)
	}

	out := Pushed{Remote: a.Remote, Snapshot: x.Info.Name, As: pushed.Ref.Name, ID: pushed.Ref.ID, PushResult: *pushed}
	if confinedToFork(r) {
		out.Objects, out.Bytes = 0, 0 // these numbers would reveal which objects of other tenants the remote has
		return out, nil               // no SetPushBase: the base of the owner's next push stays a snapshot of the owner
	}

	return out, rs.registry.SetPushBase(target, pushed.Ref.Name)
}

// partProgress returns a function for remote.PushOptions.Progress. The parameter what is the name of the work.
func partProgress(r *Request, what string) func(parts, total int, sentBytes int64) {
	return func(parts, total int, sentBytes int64) {
		r.progress(Progress{What: what, Done: int64(parts), Total: int64(total), Unit: "parts", Bytes: sentBytes})
	}
}

// keepEarlierState prepares a push of ref under a name that another snapshot on the remote has. If that snapshot is
// an earlier state of the same claimed fork, keepEarlierState copies it to NAME.ID and returns true: the push may
// replace it. Otherwise keepEarlierState returns the error inUse.
func (rs *remotes) keepEarlierState(ctx context.Context, target *remote.Remote, ref *remote.Ref, inUse error) (bool, error) {
	present, err := target.Ref(ctx, ref.Name)
	if err != nil {
		return false, err
	}

	kept := fmt.Sprintf("%s.%.8s", present.Name, present.ID)
	if ref.Claim == "" || present.Claim != ref.Claim || !slices.Contains(ref.Lineage, present.ID) || naming.Check(kept) != nil {
		return false, inUse
	}
	if err := target.CopyRef(ctx, present, kept); err != nil {
		return false, err
	}

	return true, nil
}

// newRef returns the ref for a push of a snapshot under a name. actorSets has the hashes of the snapshot's actor
// sets.
func newRef(i info.Info, name string, actorSets []cas.Hash) remote.Ref {
	ref := remote.Ref{
		Name: name, ID: i.ID, Message: i.Message, Labels: i.Labels, Created: i.Created, Kind: i.Kind, Files: i.Files, Bytes: i.Bytes,
		Actors: i.Actors, ActorSets: actorSets,
	}
	if i.Expires != nil {
		ref.Expires = *i.Expires
	}

	return ref
}

// markFunc returns a function for remote.PushOptions.Mark. This function passes the hash of each object of the state
// st, and each of the given hashes, to its parameter keep.
func markFunc(st *tree.State, src *tree.Source, hashes []cas.Hash) func(context.Context, func(cas.Hash) bool) error {
	return func(ctx context.Context, keep func(cas.Hash) bool) error {
		for _, h := range hashes {
			keep(h)
		}
		return st.Mark(ctx, src, nil, false, keep)
	}
}

// readStored returns an object in its stored form. If the store does not have the object, readStored reads it from
// one of the remotes that are sources of the store.
func (rs *remotes) readStored(ctx context.Context, h cas.Hash) (cas.StoredObject, error) {
	rec, err := rs.objects.GetStored(h)
	if errors.Is(err, cas.ErrNotFound) {
		return rs.registry.Stored(ctx, h)
	}
	return rec, err
}

const (
	// minBackupPause is the shortest time between two checks whether snapshots are to be pushed.
	minBackupPause = time.Second
	// maxRetryPause is the longest pause after a failed backup.
	maxRetryPause = time.Minute
)

// A BackupState is the state of the automatic pushes that the policy asks for.
type BackupState struct {
	Remote   string    `json:"remote"`
	Snapshot string    `json:"snapshot,omitempty" jsonschema:"the last snapshot that was pushed automatically since the mount"`
	Pushed   time.Time `json:"pushed,omitzero" jsonschema:"when it was pushed"`
	Error    string    `json:"error,omitempty" jsonschema:"why the last attempt failed"`
}

// Backups pushes the snapshots of main automatically, as main's policy says.
type Backups struct {
	core         *core
	main         *snapshot.Workspace
	storeChanged func() <-chan struct{} // see snapshot.Store.NextRecord
	registry     *known.Registry
	push         func(ctx context.Context, r *Request, a Push, to *remote.Remote, name string) (Pushed, error)
	lastState    atomic.Pointer[BackupState] // changed by the goroutine of Run only
}

// state returns the state of the backups that the policy asks for, nil if it asks for none.
func (bs *Backups) state() *BackupState {
	p := bs.main.Policy().Push
	if p.Remote == "" || p.IntervalSeconds == 0 {
		return nil
	}
	st := bs.lastStateFor(p.Remote)
	return &st
}

// lastStateFor returns the last state of the backups to a remote. Only the remote is set if there were none.
func (bs *Backups) lastStateFor(remoteName string) BackupState {
	if st := bs.lastState.Load(); st != nil && st.Remote == remoteName {
		return *st
	}
	return BackupState{Remote: remoteName}
}

// Run pushes snapshots until ctx ends. While the store does not change, Run sleeps and does not contact the remote.
func (bs *Backups) Run(ctx context.Context) {
	var next time.Time
	var last policy.Push

	for ctx.Err() == nil {
		changed := bs.storeChanged()
		p := bs.main.Policy().Push
		if p != last { // a new policy takes effect at once
			last, next = p, time.Time{}
		}

		due := p.Remote != "" && p.IntervalSeconds > 0
		if due && !time.Now().Before(next) {
			wait := time.Duration(p.IntervalSeconds) * time.Second
			err := bs.backUp(ctx, p)
			if err != nil && ctx.Err() == nil {
				bs.recordError(p, err)
				wait = min(wait, maxRetryPause)
			}

			next, due = time.Now().Add(wait), err != nil
		}

		// Wait until the next push is due, or until the store changes. Changes within minBackupPause are handled
		// together.
		var retry <-chan time.Time
		if due {
			retry = time.After(time.Until(next))
		}

		select {
		case <-ctx.Done():
			return
		case <-retry:
			continue
		case <-changed:
		}

		select {
		case <-ctx.Done():
		case <-time.After(minBackupPause):
		}
	}
}

// recordError records the error of a backup, and logs it unless the last backup failed with the same text.
func (bs *Backups) recordError(p policy.Push, err error) {
	st, text := bs.lastStateFor(p.Remote), errs.ErrorOf(err).Error()
	if st.Error != text {
		bs.core.log.Warn("automatic push", "remote", p.Remote, "error", text)
	}
	st.Error = text
	bs.lastState.Store(&st)
}

// backUp pushes the snapshots of main that the policy selects and that were not pushed before. After a
// damaged snapshot backUp continues with the others, and returns the error at the end.
func (bs *Backups) backUp(ctx context.Context, p policy.Push) error {
	target, err := bs.registry.Remote(p.Remote)
	if err != nil {
		return err
	}

	if p.Only == policy.PushAll {
		_, err := bs.main.Capture(snapshot.CaptureOptions{Kind: info.KindAuto, IfChanged: true})
		if err = errs.Ignore(err, snapshot.ErrUnchanged); err != nil {
			return err
		}
	}

	var damaged error
	sent := bs.registry.BackupSeq(target)

	for _, i := range slices.Backward(bs.main.List()) {
		if i.Seq <= sent || i.Kind == info.KindPull || p.Only != policy.PushAll && i.Kind != p.Only {
			continue
		}

		switch err := bs.backUpOne(ctx, p, target, i); {
		case errors.Is(err, catalogue.ErrNotFound):
			continue // the snapshot was deleted since it was listed
		case errors.Is(err, cas.ErrDamaged):
			damaged = errors.Join(damaged, fmt.Errorf("snapshot %s: %w", i.Name, err)) // no retry: the snapshot stays damaged
		case err != nil:
			return explainRemoteError(p.Remote, err)
		}

		if err := bs.registry.SetBackupSeq(target, i.Seq); err != nil {
			return err
		}
	}

	if damaged == nil {
		st := bs.lastStateFor(p.Remote)
		st.Error = ""
		bs.lastState.Store(&st)
	}

	return damaged
}

// backUpOne pushes a snapshot. If another snapshot on the remote has the same name, backUpOne pushes the snapshot as
// NAME-ID, with the first 8 digits of its id. So a name that is in use never blocks a backup.
func (bs *Backups) backUpOne(ctx context.Context, p policy.Push, target *remote.Remote, i info.Info) error {
	r := &Request{
		Caller:    actors.Caller{UID: uint32(os.Geteuid()), PID: uint32(os.Getpid()), ViaSocket: true, Command: "amberfs (policy)"},
		Workspace: bs.main, core: bs.core,
	}
	name := fmt.Sprintf("cp-%d", i.Seq) // this name finds the snapshot even if a user renames it now
	pushed, err := bs.push(ctx, r, Push{Remote: p.Remote}, target, name)
	if errors.Is(err, remote.ErrExists) {
		found, ferr := bs.main.Find(name)
		if ferr != nil {
			return ferr
		}

		as := fmt.Sprintf("%.100s-%.8s", found.Name, found.ID)
		pushed, err = bs.push(ctx, r, Push{Remote: p.Remote, As: as}, target, name)
	}
	if err != nil {
		return err
	}

	bs.lastState.Store(&BackupState{Remote: p.Remote, Snapshot: pushed.As, Pushed: time.Now()})

	return nil
}
