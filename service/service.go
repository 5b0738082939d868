package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Config says what a Service works on, and what it needs from the process that
// has the mount.
type Config struct {
	Store      *snapshot.Store
	Events     *events.Log
	Remotes    *known.Known
	Log        *slog.Logger
	Mountpoint string
	Options    string // of the mount, as after -o
	Version    string // of the program
	Started    time.Time
	// Ready returns when the mount is up, with an error when it is ending or ctx
	// is over.
	Ready func(ctx context.Context) error
	// Opened lists the programs that have one of the nodes open; nil: nobody knows.
	Opened func(nodes []live.NodeID) []Program
	// ReadOnly reports whether the mount is, by now.
	ReadOnly func() bool
	// Requests counts what the kernel asked, by FUSE operation.
	Requests func() map[string]uint64
	// Memory bounds what comparing texts and imports take together, Lists what the
	// lists of changed files do; nil: nothing does.
	Memory, Lists *budget.Budget
	// Umount unmounts, and returns before the process ends.
	Umount func(lazy bool) error
}

// A Service carries out operations on a mounted store. Its methods may be called
// from many goroutines.
type Service struct {
	Config
	backup backup
	// beginning is held while a snapshot on a remote becomes one of a workspace.
	beginning sync.Mutex
}

// New returns a service.
func New(c Config) *Service { return &Service{Config: c} }

// do carries out an operation.
func (s *Service) do(ctx context.Context, r *Request, o *Op, args any) (any, error) {
	if r.Workspace == nil {
		r.Workspace = s.Store.Main()
	}
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	var result any
	err := guard.Do(func() (err error) {
		if err = s.admit(ctx, r, o); err == nil {
			result, err = o.run(s, ctx, r, args)
		}
		return err
	})
	s.note(ctx, r, o, err, time.Since(start))
	if err != nil {
		return nil, suggest(r.Workspace, args, s.explain(o, err))
	}
	return result, nil
}

// note writes a request into the log.
func (s *Service) note(ctx context.Context, r *Request, o *Op, err error, took time.Duration) {
	level, attrs := slog.LevelDebug, []any{"op", o.Name, "uid", r.Caller.UID, "pid", r.Caller.PID, "took", took}
	if err != nil && ctx.Err() == nil {
		level, attrs = slog.LevelInfo, append(attrs, "error", err)
	}
	s.Log.Log(ctx, level, "request", attrs...)
}

// explain gives an error its kind, its sentence and its hint. A panic is an
// error of one request, not the end of everybody's file system.
func (s *Service) explain(o *Op, err error) error {
	var p *guard.Panic
	if errors.As(err, &p) {
		s.Log.Error("a request panicked", "op", o.Name, "error", err, guard.Stack(err))
		return fail.New(fail.Failed, "the daemon failed in %q: %v", o.Name, p.Value).WithHint("its log is amberfs.log in the store")
	}
	return Explain(err)
}

// Admit refuses what the caller may not ask for, without doing it.
func (s *Service) Admit(ctx context.Context, r *Request, args any) error {
	return s.admit(ctx, r, OpOf(args))
}

// admit refuses what the caller may not do here.
func (s *Service) admit(ctx context.Context, r *Request, o *Op) error {
	if o.Mutates && r.Caller.Direct && s.ReadOnly() { // in the mount the kernel refuses
		return fail.New(fail.Denied, "the mount at %s is read-only", s.Mountpoint).WithHint("mount it without ro")
	}
	if r.Caller.Direct || o.Access == Looks {
		return nil
	}
	owner, sticky, err := s.owner(ctx, r)
	switch {
	case err != nil:
		return err
	case o.Access == Direct:
		return fail.New(fail.Denied, "%s takes the store's socket, which cannot be reached from here", o.Name).
			WithHint("run it as the user who mounted it, and outside of the sandbox")
	case o.Access == Governs && (!ownsStore(r) || r.Workspace.IsFork()):
		return fail.New(fail.Denied, "only the owner of the store, in main, may ask for %s", o.Name)
	case o.Access == Tells && !owner, o.Access == Alters && sticky && !owner:
		return fail.New(fail.Denied, "only the owner of the workspace may ask for %s", o.Name)
	}
	return nil
}

// owner reports whether the caller owns the workspace's root directory, or the
// store, and whether the directory has the sticky bit.
func (s *Service) owner(ctx context.Context, r *Request) (owner, sticky bool, err error) {
	var a live.Attr
	err = live.Await(ctx, func() (err error) {
		a, err = s.Store.Forest().GetAttr(r.Workspace.Root())
		return err
	})
	if err != nil {
		return false, false, Explain(err)
	}
	return a.UID == r.Caller.UID || ownsStore(r), a.Mode&0o1000 != 0, nil
}

// ownsStore reports whether the caller is the user that the daemon runs as, or
// root.
func ownsStore(r *Request) bool {
	return r.Caller.UID == 0 || int(r.Caller.UID) == os.Geteuid()
}
