package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// backupTick is the shortest time between two looks at a store that changes.
	backupTick = time.Second
	// backupRetry is the longest pause after a failed backup.
	backupRetry = time.Minute
)

// A BackupState is the state of the pushes that the policy asks for.
type BackupState struct {
	Remote   string    `json:"remote"`
	Snapshot string    `json:"snapshot,omitempty" jsonschema:"the last snapshot that was pushed automatically since the mount"`
	Pushed   time.Time `json:"pushed,omitzero" jsonschema:"when it was pushed"`
	Error    string    `json:"error,omitempty" jsonschema:"why the last attempt failed"`
}

// Backups pushes the snapshots of main as its policy says.
type Backups struct {
	core    *core
	main    *snapshot.Workspace
	changed func() <-chan struct{} // see snapshot.Store.Changed
	known   *known.Registry
	push    func(ctx context.Context, r *Request, a Push, to *remote.Remote, name string) (Pushed, error)
	last    atomic.Pointer[BackupState] // changed by the goroutine of Run only
}

// state returns nil if the policy asks for no pushes.
func (bs *Backups) state() *BackupState {
	p := bs.main.Policy().Push
	if p.Remote == "" || p.IntervalSeconds == 0 {
		return nil
	}
	st := bs.lastBackup(p.Remote)
	return &st
}

// lastBackup returns the state of the backups to a remote, empty if there were none.
func (bs *Backups) lastBackup(to string) BackupState {
	if st := bs.last.Load(); st != nil && st.Remote == to {
		return *st
	}
	return BackupState{Remote: to}
}

// Run pushes snapshots until ctx ends. It sleeps, and does not
// contact the remote, until the store changes.
func (bs *Backups) Run(ctx context.Context) {
	var next time.Time
	var last policy.Push

	for ctx.Err() == nil {
		changed := bs.changed()
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
				wait = min(wait, backupRetry)
			}

			next, due = time.Now().Add(wait), err != nil
		}

		// Wait until the next push is due, or until the store changes. Changes within a tick are looked
		// at together.
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
		case <-time.After(backupTick):
		}
	}
}

// recordError records the error of a backup, and logs it unless the last one failed with the same.
func (bs *Backups) recordError(p policy.Push, err error) {
	st, text := bs.lastBackup(p.Remote), errs.ErrorOf(err).Error()
	if st.Error != text {
		bs.core.log.Warn("automatic push", "remote", p.Remote, "error", text)
	}
	st.Error = text
	bs.last.Store(&st)
}

// backUp pushes the snapshots of main that the policy selects and that were not pushed before. A
// damaged snapshot does not stop the others; its error is returned at the end.
func (bs *Backups) backUp(ctx context.Context, p policy.Push) error {
	to, err := bs.known.Remote(p.Remote)
	if err != nil {
		return err
	}

	if p.Only == policy.PushAll {
		_, err := bs.main.Capture(snapshot.CaptureOptions{Kind: info.KindAuto, IfChanged: true})
		if err = errs.Except(err, snapshot.ErrUnchanged); err != nil {
			return err
		}
	}

	var damaged error
	sent := bs.known.Sent(to)

	for _, i := range slices.Backward(bs.main.List()) {
		if i.Seq <= sent || i.Kind == info.KindPull || p.Only != policy.PushAll && i.Kind != p.Only {
			continue
		}

		switch err := bs.backUpOne(ctx, p, to, i); {
		case errors.Is(err, catalogue.ErrNotFound):
			continue // deleted since it was listed
		case errors.Is(err, cas.ErrDamaged):
			damaged = errors.Join(damaged, fmt.Errorf("snapshot %s: %w", i.Name, err)) // a retry would not help
		case err != nil:
			return explainRemoteError(p.Remote, err)
		}

		if err := bs.known.SetSent(to, i.Seq); err != nil {
			return err
		}
	}

	if damaged == nil {
		st := bs.lastBackup(p.Remote)
		st.Error = ""
		bs.last.Store(&st)
	}

	return damaged
}

// backUpOne pushes a snapshot. If another snapshot on the remote has its name, the beginning of its
// id is added to the name, so that a taken name never blocks a backup.
func (bs *Backups) backUpOne(ctx context.Context, p policy.Push, to *remote.Remote, i info.Info) error {
	r := &Request{
		Caller:    actors.Caller{UID: uint32(os.Geteuid()), PID: uint32(os.Getpid()), Direct: true, Command: "amberfs (policy)"},
		Workspace: bs.main, core: bs.core,
	}
	name := fmt.Sprintf("cp-%d", i.Seq) // valid even if a user renames the snapshot now
	done, err := bs.push(ctx, r, Push{Remote: p.Remote}, to, name)
	if errors.Is(err, remote.ErrExists) {
		found, ferr := bs.main.Find(name)
		if ferr != nil {
			return ferr
		}

		as := fmt.Sprintf("%.100s-%.8s", found.Name, found.ID)
		done, err = bs.push(ctx, r, Push{Remote: p.Remote, As: as}, to, name)
	}
	if err != nil {
		return err
	}

	bs.last.Store(&BackupState{Remote: p.Remote, Snapshot: done.As, Pushed: time.Now()})

	return nil
}

// A Connection connects a store to the remotes that it is registered with and reads from.
type Connection struct {
	// From is the URL@SNAPSHOT that a new store begins with; empty for none.
	From string
	// OrEmpty lets a new store begin empty if the snapshot From does not exist.
	OrEmpty bool
	Timeout time.Duration // of a read; 0 is the default, negative for none
	Log     *slog.Logger

	Remotes *known.Registry // set by Connect

	// mountedBefore is set unless the store is new. Such a store may read from remotes that do not
	// answer now, so Run probes them.
	mountedBefore bool
}

// Connect returns the function for snapshot.Options.Connect. ctx ends the requests that it sends.
func (c *Connection) Connect(ctx context.Context) func(snapshot.ConnectArgs) (tree.Elsewhere, *snapshot.Start, error) {
	return func(to snapshot.ConnectArgs) (tree.Elsewhere, *snapshot.Start, error) {
		k, err := known.Open(to.Dir, known.Options{FS: to.Disk, Logger: c.Log, Timeout: c.Timeout})
		if err != nil {
			return nil, nil, err
		}

		c.Remotes = k
		c.mountedBefore = !to.First
		start, err := c.startState(ctx, to.First)
		if err != nil {
			c.Close()
			return nil, nil, err
		}

		if err := k.Load(); err != nil {
			c.Close()
			return nil, nil, err
		}

		return k, start, nil
	}
}

// startState returns the snapshot that a new store begins with: the one of an interrupted attempt,
// or c.From. It returns nil for an empty store and for an existing one. If c.From is given for an
// existing store, the user agrees by that to contact its remote.
func (c *Connection) startState(ctx context.Context, first bool) (*snapshot.Start, error) {
	url, name, _ := known.SplitFrom(c.From)
	if !first && c.From != "" {
		_, err := c.Remotes.Remote(url)
		return nil, err
	}
	if !first {
		return nil, nil
	}

	ref := c.Remotes.From()
	if ref == nil && c.From != "" {
		var err error
		ref, err = c.Remotes.MountFrom(ctx, url, name)
		if errors.Is(err, backend.ErrNotFound) {
			if c.OrEmpty {
				return nil, nil
			}
			return nil, errs.Fail(errs.NotExist, "%s: %w", url, err).WithHint("`amberfs remote snapshots %s`, in any mount, lists its snapshots; --or-empty begins with an empty workspace instead", url)
		}
		if err != nil {
			return nil, explainRemoteError(url, err)
		}
	}
	if ref == nil {
		return nil, nil
	}

	return &snapshot.Start{ID: ref.State(), Info: InfoOf(ref)}, nil
}

// HangUp makes reads from remotes fail from now on.
func (c *Connection) HangUp() {
	if c.Remotes != nil {
		c.Remotes.HangUp()
	}
}

// Close frees the registry of remotes. It may be called before Connect, and twice.
func (c *Connection) Close() {
	if c.Remotes != nil {
		c.Remotes.Close()
	}
}

// retryPause is the pause of Run after a remote did not answer.
const retryPause = 5 * time.Second

// firstHold is the time from the mount to the first hold that a store writes to a remote. The first hold
// can be as late because the remote's gc keeps objects for a day. So mounts that are short write no hold,
// and the hold does not slow down the first reads.
const firstHold = 10 * time.Second

// Run works for a store that reads from remotes, until ctx ends. It fetches contents ahead of reads,
// if the option prefetch asks for that. It renews the holds, which protect the objects that the store
// needs from the gc of the remotes.
func (c *Connection) Run(ctx context.Context, prefetch string) {
	held := map[string]time.Time{}
	first := time.Now().Add(firstHold)
	if c.mountedBefore {
		c.Remotes.Probe()
	}

	for ctx.Err() == nil {
		err := c.Remotes.Prefetch(ctx, prefetch)
		if err != nil && !errors.Is(err, backend.ErrAway) && ctx.Err() == nil {
			c.Log.Warn("fetching ahead of what is read", "err", err)
		}

		// The first hold is written late, see firstHold. After that, holds are renewed.
		early := time.Until(first)
		if early <= 0 && !errors.Is(err, backend.ErrAway) {
			err = c.Remotes.Hold(ctx, held)
		}

		wait := known.HoldAgain
		switch {
		case errors.Is(err, backend.ErrAway):
			wait = retryPause
		case early > 0:
			wait = early
		}

		select {
		case <-ctx.Done():
		case <-c.Remotes.Added():
		case <-time.After(wait):
		}
	}
}

// isRemote reports whether from is REMOTE@SNAPSHOT: names of snapshots have no @.
func isRemote(from string) bool {
	return strings.Contains(from, "@") && !strings.HasPrefix(from, "label:")
}

// Fetches reports whether an operation with the arguments has to ask a remote first.
func Fetches(args any) bool {
	return slices.ContainsFunc([]string{"from", "snapshot"}, func(field string) bool {
		f := FieldNamed(reflect.ValueOf(args), field)
		return f.IsValid() && f.Kind() == reflect.String && isRemote(f.String())
	})
}

// localName returns the name in the workspace of the snapshot from. If from is REMOTE@SNAPSHOT, that
// snapshot is added to the workspace, and its contents are fetched when they are read. Any other name
// is returned as it is.
func (rs *remotes) localName(ctx context.Context, r *Request, from string) (string, error) {
	if !isRemote(from) {
		return from, nil
	}
	ref, err := rs.remoteRef(ctx, r, from, false)
	if err != nil {
		return "", err
	}

	return rs.localNameOf(r, ref)
}

// remoteRef finds the snapshot REMOTE@SNAPSHOT, and registers it as one that the store may read from.
// Answers are cached for a minute; again asks the remote in any case.
func (rs *remotes) remoteRef(ctx context.Context, r *Request, from string, again bool) (*remote.Ref, error) {
	at := strings.LastIndexByte(from, '@')
	if at == 0 || at == len(from)-1 {
		return nil, errs.Fail(errs.Invalid, "a snapshot on a remote is named as REMOTE@SNAPSHOT, not %q", from)
	}

	to, err := rs.remote(r, from[:at])
	if err != nil {
		return nil, err
	}

	if again {
		if err := rs.known.Forget(ctx, to, from[at+1:]); err != nil {
			return nil, err
		}
	}

	ref, err := rs.known.Source(ctx, to, from[at+1:])
	return ref, explainRemoteError(from[:at], err)
}

// localNameOf returns the name that a snapshot on a remote has in the workspace. If the workspace
// does not have the snapshot, it is added first.
func (rs *remotes) localNameOf(r *Request, ref *remote.Ref) (string, error) {
	rs.adding.Lock()
	defer rs.adding.Unlock()
	if here, err := r.Workspace.Find(ref.ID); err == nil {
		return here.Name, nil
	}
	return rs.addRemoteSnapshot(r, ref)
}

// addRemoteSnapshot adds a snapshot on a remote to the workspace, and returns its name there. The
// caller holds rs.adding.
func (rs *remotes) addRemoteSnapshot(r *Request, ref *remote.Ref) (string, error) {
	defer rs.store.Importing()()

	info := InfoOf(ref)
	info.Name = naming.Local(info.Name)
	if err := r.Workspace.Remotes().MayPull(info); errors.Is(err, errs.Exist) {
		info.Name = fmt.Sprintf("%.100s-%.8s", info.Name, info.ID)
	} else if err != nil {
		return "", err
	}

	info, err := r.Workspace.Remotes().Pulled(info, ref.State(), r.Caller)
	return info.Name, err
}
