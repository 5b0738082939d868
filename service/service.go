package service

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/remote/image"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Config has the store of a Service, and the functions of the daemon that the Service calls.
type Config struct {
	Store   *snapshot.Store
	Events  *events.Log
	Remotes *known.Registry
	Log     *slog.Logger
	Mount   Mount
	Daemon  Daemon
	// Pools has the memory pools ListMemory, TextMemory and GitMemory. The memory of a missing pool is not limited.
	Pools map[Cost]*budget.Budget
	// RequestDrop makes the daemon call Exports.Drop again. It must not block.
	RequestDrop func()
	// JoinHooks are called when programs join and leave the daemon, FreezeHooks when a freeze begins and ends.
	JoinHooks   JoinHooks
	FreezeHooks FreezeHooks
}

// A Mount describes the mount of the store, and has the functions of the daemon that act on it.
type Mount struct {
	Point   string // its path
	Options string // the mount options, as after -o
	// Device returns the device of the mount as MAJOR:MINOR, "" if it is not known.
	Device func() string
	// WaitReady waits until the mount is up. It returns an error if the mount is ending.
	WaitReady func(ctx context.Context) error
	ReadOnly  func() bool
	// ProgramsInside lists the programs with their root or working directory in one of the views. If rootsOnly is
	// set, it lists only the programs with their root there.
	ProgramsInside func(views []uint32, rootsOnly bool) []Program
	// Requests returns the numbers of the kernel's requests by FUSE operation.
	Requests func() map[string]uint64
	// StaleNames returns the number of names in the kernel's cache that a restore, merge or import
	// changed, and that the kernel has not dropped yet.
	StaleNames func() int64
	// Umount unmounts, and returns before the process ends.
	Umount func(lazy bool) error
}

// A Daemon describes the process that serves the mount, and has the function that replaces it.
type Daemon struct {
	Version string // the version of the program
	Started time.Time
	// Survival reports whether the mount would survive a crash of the daemon.
	Survival func() Survival
	// Upgrade replaces the daemon by a daemon of another program, given by its path. It calls take to get the
	// connection of the request: the new daemon sends the answer on it.
	Upgrade func(ctx context.Context, program string, take func() (*net.UnixConn, error)) error
}

// A Service runs operations on a mounted store: it finds the operation of a request, checks the caller's
// rights, and calls the family of the operation. It is safe for concurrent use.
type Service struct {
	Config
	*core

	Joins   *Joins
	Exports *Exports
	Backups *Backups

	snapshots *snapshots
	forks     *forks
	files     *files
	history   *history
	remotes   *remotes
	imports   *imports
	freezes   *freezes
	erasure   *erasure
	upkeep    *upkeep
}

// A core has the parts of a Service that the requests of all operations share.
type core struct {
	mountpoint string
	log        *slog.Logger
	main       *snapshot.Workspace
	source     *tree.Source // reads the objects of the store
	// Turns limits the operations that use much processor time, so that a processor is free for the
	// goroutines that answer the kernel.
	Turns       *turns.Turns
	pools       map[Cost]*budget.Budget
	mainGitPool *budget.Budget // the pool GitMemory for requests in main, of the same size as the pool for forks
}

// A family is the state that some operations share, such as *forks. The method familyOf returns the family of this
// type in a Service.
type family[F any] interface{ familyOf(*Service) F }

func (*snapshots) familyOf(s *Service) *snapshots { return s.snapshots }
func (*forks) familyOf(s *Service) *forks         { return s.forks }
func (*files) familyOf(s *Service) *files         { return s.files }
func (*history) familyOf(s *Service) *history     { return s.history }
func (*remotes) familyOf(s *Service) *remotes     { return s.remotes }
func (*imports) familyOf(s *Service) *imports     { return s.imports }
func (*freezes) familyOf(s *Service) *freezes     { return s.freezes }
func (*erasure) familyOf(s *Service) *erasure     { return s.erasure }
func (*upkeep) familyOf(s *Service) *upkeep       { return s.upkeep }
func (*Exports) familyOf(s *Service) *Exports     { return s.Exports }

// New returns a Service that uses the configuration.
func New(c Config) *Service {
	registry := c.Store.Actors()
	s := &Service{
		Config: c,
		core: &core{
			mountpoint: c.Mount.Point, log: c.Log, main: c.Store.Main(), source: c.Store.Source(), Turns: turns.New(max(1, runtime.NumCPU()-1)), pools: c.Pools, mainGitPool: c.Pools[GitMemory].WithNewPool(),
		},
		Joins:     &Joins{JoinHooks: c.JoinHooks, log: c.Log, mountpoint: c.Mount.Point, programsByFork: make(map[string]int)},
		snapshots: &snapshots{syncStore: c.Store.Sync},
		files:     &files{registry: registry},
		history:   &history{log: c.Events},
		remotes:   &remotes{store: c.Store, objects: c.Store.CAS(), registry: c.Remotes},
		imports: &imports{
			store: c.Store, objects: c.Store.CAS(), log: c.Log,
			blobs: image.Blobs{FS: c.Store.FS(), Dir: filepath.Join(c.Store.Dir(), ImageBlobs)},
		},
		freezes: &freezes{FreezeHooks: c.FreezeHooks, freezer: c.Store.Forest().Freezer},
	}

	s.Exports = &Exports{
		store: c.Store, dir: c.Store.Dir(), repository: filepath.Join(c.Store.Dir(), gitDir), isUserName: registry.IsUserName,
		requestDrop: c.RequestDrop, sweepImages: s.imports.sweepImages, runningExports: semaphore.NewWeighted(allExports),
	}
	s.Backups = &Backups{core: s.core, main: s.main, storeChanged: c.Store.NextRecord, registry: c.Remotes, push: s.remotes.pushOne}
	s.forks = &forks{events: c.Events, programsInside: c.Mount.ProgramsInside, joinedPrograms: s.Joins.programCount, registerActor: registry.Register, remotes: s.remotes}
	s.remotes.merge = s.forks.merge
	s.erasure = &erasure{store: c.Store, withoutExports: s.Exports.withoutExports, repository: s.Exports.repository, registry: c.Remotes, readStored: s.remotes.readStored}
	s.upkeep = &upkeep{
		store: c.Store, gatewayCommand: registry.GatewayCommand, mount: &s.Mount, daemon: &s.Daemon, registry: c.Remotes,
		backupState: s.Backups.state, sweepImages: s.imports.sweepImages, erase: s.erasure.eraseRest,
	}

	return s
}

// Do runs the operation that takes args, after the checks of Admit, and returns its result. If the operation panics,
// Do returns an error. The caller calls r.Release afterwards.
func (s *Service) Do(ctx context.Context, r *Request, args any) (any, error) {
	r.core, r.op = s.core, OpOf(args)
	if r.Workspace == nil {
		r.Workspace = s.main
	}
	if err := s.Mount.WaitReady(ctx); err != nil {
		return nil, err
	}

	if !r.Caller.ViaSocket {
		r.Caller.Command = process.ProgramName(int(r.Caller.PID))
	}
	r.Caller.Actor = s.Store.Actors().ActorOf(r.Caller.PID, r.Caller.UID, r.Workspace.View())

	start := time.Now()
	if r.op.Mutates && r.Progress != nil {
		defer reportStaleNames(r, s.Mount.StaleNames)()
	}

	result, err := s.carryOut(ctx, r, args)

	level, attrs := slog.LevelDebug, []any{"op", r.op.Name, "uid", r.Caller.UID, "pid", r.Caller.PID, "took", time.Since(start)}
	if err != nil && ctx.Err() == nil {
		level, attrs = slog.LevelInfo, append(attrs, "err", err)
	}

	s.Log.Log(ctx, level, "request", attrs...)
	if err != nil {
		return nil, suggestName(r.Workspace, args, explainError(s.log, r.op, err))
	}

	return result, nil
}

// carryOut runs the operation of a request, if the caller may use it. An operation that is not cheap first waits for
// its turn; main has priority. A request that the previous daemon carried out gets the result that it had there. A
// panic becomes an error.
func (s *Service) carryOut(ctx context.Context, r *Request, args any) (result any, err error) {
	defer guard.Catch(&err)

	if r.Carried != nil { // the previous daemon has checked the rights
		return s.resume(ctx, r, r.op, args)
	}

	// Only calls over the socket are checked. In a read-only mount, the kernel refuses writes to control files.
	if r.op.Mutates && r.Caller.ViaSocket && s.Mount.ReadOnly() {
		return nil, errs.Fail(errs.Perm, "the mount at %s is read-only", s.mountpoint).WithHint("mount it without ro")
	}
	if err := s.Admit(ctx, r, r.op, args); err != nil {
		return nil, err
	}

	if r.op.CostOf(r.Workspace, args) == Cheap {
		return r.op.run(s, ctx, r, args)
	}
	if !r.Workspace.IsFork() {
		ctx = turns.WithFastQueue(ctx)
	}

	err = s.Turns.Do(ctx, func(ctx context.Context) error {
		result, err = r.op.run(s, ctx, r, args)
		return err
	})

	return result, err
}

// explainError returns an error of an operation with its kind and a hint. If the error is a panic, explainError
// logs it.
func explainError(log *slog.Logger, o *Op, err error) error {
	var p *guard.Panic
	if errors.As(err, &p) {
		log.Error("a request panicked", "op", o.Name, "err", err, guard.Stack(err))
		return errs.Fail(errs.Failed, "the daemon failed in %q: %v", o.Name, p.Value).WithHint("its log is amberfs.log in the store")
	}
	return errs.ErrorOf(err)
}

// WithKind returns an error of a lower package with its kind, as an *errs.Error. It returns nil for nil.
func WithKind(err error) error {
	if err == nil {
		return nil
	}
	return errs.ErrorOf(err)
}

// suggestName adds the most similar name to an error about an unknown snapshot or fork.
func suggestName(ws *snapshot.Workspace, args any, err error) error {
	var known []string
	var find func(name string) error

	switch {
	case errors.Is(err, catalogue.ErrNotFound):
		for _, i := range ws.List() {
			known = append(known, i.Name)
		}
		find = func(name string) error { _, err := ws.Find(name); return err }

	case errors.Is(err, catalogue.ErrNoFork):
		for _, f := range ws.Forks().List() {
			known = append(known, f.Name)
		}
		find = func(name string) error { _, err := ws.Forks().Named(name); return err }

	default:
		return err
	}

	for _, name := range namesInArgs(reflect.ValueOf(args)) {
		if e := *errs.ErrorOf(err); find(name) != nil && NearestName(name, known) != "" {
			return WithSuggestion(&e, name, known, "")
		}
	}

	return err
}

// WithSuggestion adds a hint to an error: the name in known that is most similar to name or, if none is similar, the
// text ifNone.
func WithSuggestion(e *errs.Error, name string, known []string, ifNone string) error {
	if n := NearestName(name, known); n != "" {
		return e.WithHint("did you mean %q?", n)
	}
	return e.WithHint("%s", ifNone)
}

// checkOneOf returns an error unless value is "" or one of the known values. The parameter what is the noun for value
// in the error, such as "kind".
func checkOneOf(what, value string, known []string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return WithSuggestion(errs.Fail(errs.Invalid, "there is no %s %q", what, value), value, known, "it is one of "+strings.Join(known, ", "))
}

// namesInArgs returns the names of snapshots and forks in arguments.
func namesInArgs(args reflect.Value) []string {
	var out []string
	for _, field := range []string{"name", "names", "a", "b", "from", "snapshot", "fork"} {
		switch f := FieldNamed(args, field); {
		case !f.IsValid() || f.IsZero():
		case f.Kind() == reflect.String:
			out = append(out, f.String())
		case f.Type() == reflect.TypeFor[[]string]():
			out = append(out, f.Interface().([]string)...)
		}
	}

	return out
}

// maxEditDistance is the largest edit distance between a name and a suggestion.
const maxEditDistance = 2

// NearestName returns the known name that is most similar to a name, "" if none is similar.
func NearestName(name string, known []string) string {
	best, nearest := min(maxEditDistance, len(name)/2)+1, ""
	for _, k := range known {
		if d := editDistance(name, k); d < best {
			best, nearest = d, k
		}
	}

	return nearest
}

// editDistance is the Levenshtein distance of two strings, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}

			before = row[j+1]
			row[j+1] = min(cost, before+1, row[j]+1)
		}
	}

	return row[len(b)]
}

// staleReportInterval is the time between two reports of reportStaleNames.
const staleReportInterval = 200 * time.Millisecond

// reportStaleNames reports, as the progress of a request, how many changed names the kernel has dropped from its
// cache: a restore, merge or import waits until the kernel has dropped all of them. The reports end when stop is
// called. staleCount returns the number of names that the kernel has still to drop.
func reportStaleNames(r *Request, staleCount func() int64) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(staleReportInterval)
		defer tick.Stop()

		var total int64

		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}

			left := staleCount()
			if total = max(total, left); left > 0 {
				r.progress(Progress{What: "dropping names from the kernel's cache", Done: total - left, Total: total})
			}
		}
	}()

	return func() { close(done) }
}
