package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

const (
	// backupTick is how often a store that is written to is looked at.
	backupTick = time.Second
	// backupAgain is when a backup that failed is tried again, at the latest.
	backupAgain = time.Minute
)

// A BackupState tells of the pushes that the policy asks for.
type BackupState struct {
	Remote   string    `json:"remote"`
	Snapshot string    `json:"snapshot,omitempty" jsonschema:"the last snapshot that was pushed automatically since the mount"`
	Pushed   time.Time `json:"pushed,omitzero" jsonschema:"when it was pushed"`
	Error    string    `json:"error,omitempty" jsonschema:"why the last attempt failed"`
}

type backup struct {
	mu    sync.Mutex
	state BackupState
}

func (b *backup) change(fn func(*BackupState)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fn(&b.state)
}

// state tells how backups go, nil if the policy asks for none.
func (s *Service) backupState() *BackupState {
	p := s.Store.Main().Policy().Push
	if p.Remote == "" || p.IntervalSeconds == 0 {
		return nil
	}
	s.backup.mu.Lock()
	defer s.backup.mu.Unlock()
	st := s.backup.state
	if st.Remote != p.Remote {
		st = BackupState{Remote: p.Remote}
	}
	return &st
}

// Backup pushes the snapshots of main as its policy says, until ctx ends. When there is
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

// backupFailed says once why a backup failed.
func (s *Service) backupFailed(p policy.Push, err error) {
	text := fail.Of(err).Error()
	s.backup.change(func(b *BackupState) {
		if b.Remote != p.Remote {
			*b = BackupState{Remote: p.Remote}
		}
		if b.Error != text {
			s.Log.Warn("automatic push", "remote", p.Remote, "error", text)
		}
		b.Error = text
	})
}

func (s *Service) backUp(ctx context.Context, p policy.Push) error {
	to, err := s.Remotes.Remote(p.Remote)
	if err != nil {
		return err
	}
	main := s.Store.Main()
	if p.Only == policy.PushAll {
		if _, err := main.CaptureChanged(); err != nil {
			return err
		}
	}
	var damaged error
	sent := s.Remotes.Sent(to)
	for _, i := range slices.Backward(main.List()) {
		if i.Seq <= sent || i.Kind == snapshot.KindPull || p.Only != policy.PushAll && i.Kind != p.Only {
			continue
		}
		switch err := s.backUpOne(ctx, p, to, i); {
		case errors.Is(err, snapshot.ErrNotFound):
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
		s.backup.change(func(b *BackupState) { b.Remote, b.Error = p.Remote, "" })
	}
	return damaged
}

// backUpOne pushes a snapshot. If somebody else has its name there, it gets one with
// the beginning of its id: a backup never stands still for a name.
func (s *Service) backUpOne(ctx context.Context, p policy.Push, to *remote.Remote, i snapshot.Info) error {
	r := &Request{
		Caller:    live.Caller{UID: uint32(os.Geteuid()), PID: uint32(os.Getpid()), Direct: true, Command: "amberfs (policy)"},
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
	s.backup.change(func(b *BackupState) { *b = BackupState{Remote: p.Remote, Snapshot: done.As, Pushed: time.Now()} })
	return nil
}
