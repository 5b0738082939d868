package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
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
	// backupTick is how often a store that is written to is looked at.
	backupTick = time.Second
	// backupAgain is when a backup that failed is tried again, at the latest.
	backupAgain = time.Minute
)

// A BackupState is the state of the pushes that the policy asks for.
type BackupState struct {
	Remote   string    `json:"remote"`
	Snapshot string    `json:"snapshot,omitempty" jsonschema:"the last snapshot that was pushed automatically since the mount"`
	Pushed   time.Time `json:"pushed,omitzero" jsonschema:"when it was pushed"`
	Error    string    `json:"error,omitempty" jsonschema:"why the last attempt failed"`
}

// backupState returns nil if the policy asks for no pushes.
func (s *Service) backupState() *BackupState {
	p := s.Store.Main().Policy().Push
	if p.Remote == "" || p.IntervalSeconds == 0 {
		return nil
	}
	st := s.lastBackup(p.Remote)
	return &st
}

func (s *Service) lastBackup(to string) BackupState {
	if st := s.backup.Load(); st != nil && st.Remote == to {
		return *st
	}
	return BackupState{Remote: to}
}

// Backup pushes the snapshots of main by its policy, until ctx ends. When there is
// nothing new it asks the remote nothing, and sleeps.
func (s *Service) Backup(ctx context.Context) {
	var next time.Time
	var last policy.Push
	for ctx.Err() == nil {
		changed := s.Store.Changed()
		p := s.Store.Main().Policy().Push
		if p != last {
			last, next = p, time.Time{}
		}
		due := p.Remote != "" && p.IntervalSeconds > 0
		if due && !time.Now().Before(next) {
			wait := time.Duration(p.IntervalSeconds) * time.Second
			err := s.backUp(ctx, p)
			if err != nil && ctx.Err() == nil {
				s.backupFailed(p, err)
				wait = min(wait, backupAgain)
			}
			next, due = time.Now().Add(wait), err != nil
		}
		var again <-chan time.Time
		if due {
			again = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
			continue
		case <-changed:
		}
		select {
		case <-ctx.Done():
		case <-time.After(backupTick):
		}
	}
}

// backupFailed logs once why a backup failed.
func (s *Service) backupFailed(p policy.Push, err error) {
	st, text := s.lastBackup(p.Remote), errs.ErrorOf(err).Error()
	if st.Error != text {
		s.Log.Warn("automatic push", "remote", p.Remote, "error", text)
	}
	st.Error = text
	s.backup.Store(&st)
}

func (s *Service) backUp(ctx context.Context, p policy.Push) error {
	to, err := s.Remotes.Remote(p.Remote)
	if err != nil {
		return err
	}
	main := s.Store.Main()
	if p.Only == policy.PushAll {
		_, err := main.Capture(snapshot.CaptureOptions{Kind: info.KindAuto, IfChanged: true})
		if err != nil && !errors.Is(err, snapshot.ErrUnchanged) {
			return err
		}
	}
	var damaged error
	sent := s.Remotes.Sent(to)
	for _, i := range slices.Backward(main.List()) {
		if i.Seq <= sent || i.Kind == info.KindPull || p.Only != policy.PushAll && i.Kind != p.Only {
			continue
		}
		switch err := s.backUpOne(ctx, p, to, i); {
		case errors.Is(err, catalogue.ErrNotFound):
			continue // removed meanwhile
		case errors.Is(err, cas.ErrDamaged):
			damaged = errors.Join(damaged, fmt.Errorf("snapshot %s: %w", i.Name, err)) // it will never be better
		case err != nil:
			return remoteFailed(p.Remote, err)
		}
		if err := s.Remotes.SetSent(to, i.Seq); err != nil {
			return err
		}
	}
	if damaged == nil {
		st := s.lastBackup(p.Remote)
		st.Error = ""
		s.backup.Store(&st)
	}
	return damaged
}

// backUpOne pushes a snapshot. If another snapshot has its name there, it gets one with
// the beginning of its id. A taken name never blocks a backup.
func (s *Service) backUpOne(ctx context.Context, p policy.Push, to *remote.Remote, i info.Info) error {
	r := &Request{
		Caller:    actors.Caller{UID: uint32(os.Geteuid()), PID: uint32(os.Getpid()), Direct: true, Command: "amberfs (policy)"},
		Workspace: s.Store.Main(),
	}
	name := fmt.Sprintf("cp-%d", i.Seq) // it may be renamed meanwhile
	done, err := s.pushOne(ctx, r, Push{Remote: p.Remote}, to, name)
	if errors.Is(err, remote.ErrExists) {
		there, ferr := s.Store.Main().Find(name)
		if ferr != nil {
			return ferr
		}
		as := fmt.Sprintf("%.100s-%.8s", there.Name, there.ID)
		done, err = s.pushOne(ctx, r, Push{Remote: p.Remote, As: as}, to, name)
	}
	if err != nil {
		return err
	}
	s.backup.Store(&BackupState{Remote: p.Remote, Snapshot: done.As, Pushed: time.Now()})
	return nil
}

// A Connection is that of a store to the remotes that it knows, and reads from.
type Connection struct {
	// From is a URL@SNAPSHOT that a new store begins with; empty for none.
	From string
	// OrEmpty lets a new store begin empty when there is no such snapshot yet.
	OrEmpty bool
	Timeout time.Duration // of a read; 0 is the default, negative for none
	Log     *slog.Logger

	Remotes *known.Registry // once the store is open

	mounted bool // before: it may read from remotes that do not answer now
}

// Connect is snapshot.Options.Connect, for as long as the store is opened.
func (c *Connection) Connect(ctx context.Context) func(snapshot.ConnectArgs) (tree.Elsewhere, *snapshot.Start, error) {
	return func(to snapshot.ConnectArgs) (tree.Elsewhere, *snapshot.Start, error) {
		k, err := known.Open(to.Dir, known.Options{FS: to.Disk, Logger: c.Log, Timeout: c.Timeout})
		if err != nil {
			return nil, nil, err
		}
		c.Remotes = k
		c.mounted = !to.First
		start, err := c.begin(ctx, to.First)
		if err == nil {
			err = k.Load()
		}
		if err != nil {
			c.Close()
			return nil, nil, err
		}
		return k, start, nil
	}
}

// begin makes a new store begin with a snapshot, or continues an interrupted try. For an existing
// store, naming the remote is the agreement to contact it.
func (c *Connection) begin(ctx context.Context, first bool) (*snapshot.Start, error) {
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
			return nil, remoteFailed(url, err)
		}
	}
	if ref == nil {
		return nil, nil
	}
	return &snapshot.Start{ID: ref.State(), Info: InfoOf(ref)}, nil
}

func (c *Connection) HangUp() {
	if c.Remotes != nil {
		c.Remotes.HangUp()
	}
}

func (c *Connection) Close() {
	if c.Remotes != nil {
		c.Remotes.Close()
	}
}

// again is the pause before Run tries again, after a remote did not answer.
const again = 5 * time.Second

// holdAfter is when a store writes its hold to a remote. The remote's gc deletes nothing
// younger than a day. Most short mounts have ended by then, and the first reads do not
// compete with it.
const holdAfter = 10 * time.Second

// Run serves a store that reads from remotes until ctx ends: it fetches contents ahead, if the
// option prefetch asks for it, and renews the holds that protect what the store needs there.
func (c *Connection) Run(ctx context.Context, prefetch string) {
	held := map[string]time.Time{}
	first := time.Now().Add(holdAfter)
	if c.mounted {
		c.Remotes.Probe()
	}
	for ctx.Err() == nil {
		err := c.Remotes.Prefetch(ctx, prefetch)
		if err != nil && !errors.Is(err, backend.ErrAway) && ctx.Err() == nil {
			c.Log.Warn("fetching ahead of what is read", "err", err)
		}
		early := time.Until(first)
		if early <= 0 && !errors.Is(err, backend.ErrAway) {
			err = c.Remotes.Hold(ctx, held)
		}
		wait := known.HoldAgain
		switch {
		case errors.Is(err, backend.ErrAway):
			wait = again
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

// Fetches reports whether an operation has to ask a remote first.
func Fetches(args any) bool {
	f, ok := args.(snapshot.ForkOptions)
	return ok && isRemote(f.Snapshot)
}

// localName returns the name of a snapshot in the workspace. REMOTE@SNAPSHOT becomes one of its
// snapshots, whose contents are fetched when they are read. Any other name is returned as it is.
func (s *Service) localName(ctx context.Context, r *Request, from string) (string, error) {
	if !isRemote(from) {
		return from, nil
	}
	ref, err := s.refOf(ctx, r, from, false)
	if err != nil {
		return "", err
	}
	return s.nameOf(r, ref)
}

// refOf finds the snapshot REMOTE@SNAPSHOT, which the store may read from then. An answer counts for
// a minute, unless it is to be asked again.
func (s *Service) refOf(ctx context.Context, r *Request, from string, again bool) (*remote.Ref, error) {
	at := strings.LastIndexByte(from, '@')
	if at == 0 || at == len(from)-1 {
		return nil, errs.Fail(errs.Invalid, "a snapshot on a remote is named as REMOTE@SNAPSHOT, not %q", from)
	}
	there, err := s.remote(r, from[:at])
	if err != nil {
		return nil, err
	}
	if again {
		if err := s.Remotes.Forget(ctx, there, from[at+1:]); err != nil {
			return nil, err
		}
	}
	ref, err := s.Remotes.Source(ctx, there, from[at+1:])
	return ref, remoteFailed(from[:at], err)
}

// nameOf returns the name that a snapshot on a remote has in the workspace, and makes it one of its
// snapshots if it is none.
func (s *Service) nameOf(r *Request, ref *remote.Ref) (string, error) {
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if here, err := r.Workspace.Find(ref.ID); err == nil {
		return here.Name, nil
	}
	return s.known(r, ref)
}

// known makes a snapshot on a remote that the store reads from one of the workspace.
func (s *Service) known(r *Request, ref *remote.Ref) (string, error) {
	defer s.Store.Importing()()
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
