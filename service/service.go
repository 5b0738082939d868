package service

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
)

// Config is what a Service works on, and what it needs from the daemon.
type Config struct {
	Store      *snapshot.Store
	Events     *events.Log
	Remotes    *known.Registry
	Log        *slog.Logger
	Mountpoint string
	// Device returns the device of the mount as MAJOR:MINOR, "" if it is not known. It may be nil.
	Device  func() string
	Options string // of the mount, as after -o
	Version string // of the program
	Started time.Time
	// Ready returns when the mount is up, with an error if it is ending.
	Ready func(ctx context.Context) error
	// Inside lists the programs with root or working directory in the views, or with their
	// root there only. May be nil.
	Inside   func(views []uint32, roots bool) []Program
	ReadOnly func() bool
	// Requests counts what the kernel asked, by FUSE operation.
	Requests func() map[string]uint64
	// StaleNames returns how many names that a restore, merge or import changed the kernel has
	// still to drop. It may be nil.
	StaleNames func() int64
	// Memory is for texts and imports, Lists for lists of changed files. May be nil.
	Memory, Lists *budget.Budget
	// Git is for the git processes of forks. May be nil.
	Git *budget.Budget
	// Dropped, if set, is called when DropExports has more to do. It does not wait.
	Dropped func()
	// Umount unmounts, and returns before the process ends.
	Umount func(lazy bool) error
	// Joining is for programs that share the daemon.
	Joining Joining
	// Survival reports what a crash of the daemon means.
	Survival func() Survival
	Freezing Freezing
	// Upgrade replaces the daemon by another program, whose daemon answers on the
	// connection that take returns.
	Upgrade func(ctx context.Context, program string, take func() (*net.UnixConn, error)) error
}

// Freezing is what outlives the daemon of a freeze.
type Freezing struct {
	// Tell, if set, is called with the end of a freeze, and with the zero time when one is ended.
	Tell func(until time.Time)
	// Ended is when the end of a daemon ended a freeze before its time, and nobody knows that yet.
	// Reason says why the daemon ended.
	Ended  time.Time
	Reason string
}

// A Service runs operations on a mounted store. It is safe for concurrent use.
type Service struct {
	Config
	freezes sync.Mutex                  // guards Freezing
	backup  atomic.Pointer[BackupState] // which only Backup changes
	blames  diff.BlameCache
	// beginning is held while a snapshot on a remote becomes one of a workspace.
	beginning sync.Mutex
	// exporting is acquired in part by each export to the store's own repository, and as a whole
	// to delete objects in it. pruning is set while there are objects to delete.
	exporting *semaphore.Weighted
	pruning   atomic.Bool
	mainGit   *budget.Budget // as Git, for main

	// Turns leaves a processor to the goroutines that answer the kernel.
	Turns *turns.Turns
	// images is locked for reading while blobs are stored that no snapshot refers to yet.
	images sync.RWMutex
	// used counts the programs that joined, by fork.
	usedMu sync.Mutex
	used   map[string]int
	// last is the connection of the last joined program, closed by the end of the process.
	last atomic.Pointer[net.UnixConn]
}

func New(c Config) *Service {
	return &Service{
		Config: c, exporting: semaphore.NewWeighted(allExports), mainGit: c.Git.Another(), Turns: turns.New(max(1, runtime.NumCPU()-1)),
	}
}

func (s *Service) do(ctx context.Context, r *Request, o *Op, args any) (any, error) {
	if r.Workspace == nil {
		r.Workspace = s.Store.Main()
	}
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	defer s.showStale(r)()
	var result any
	err := guard.Do(func() (err error) {
		if r.Carried != nil {
			result, err = s.resume(ctx, r, args)
		} else if err = s.admit(ctx, r, o, args); err == nil {
			result, err = o.carryOut(s, ctx, r, args)
		}
		return err
	})
	level, attrs := slog.LevelDebug, []any{"op", o.Name, "uid", r.Caller.UID, "pid", r.Caller.PID, "took", time.Since(start)}
	if err != nil && ctx.Err() == nil {
		level, attrs = slog.LevelInfo, append(attrs, "err", err)
	}
	s.Log.Log(ctx, level, "request", attrs...)
	if err != nil {
		return nil, suggest(r.Workspace, args, s.explain(o, err))
	}
	return result, nil
}

// explain gives an error its kind and its hint. A panic is an error of one request.
func (s *Service) explain(o *Op, err error) error {
	var p *guard.Panic
	if errors.As(err, &p) {
		s.Log.Error("a request panicked", "op", o.Name, "err", err, guard.Stack(err))
		return errs.Fail(errs.Failed, "the daemon failed in %q: %v", o.Name, p.Value).WithHint("its log is amberfs.log in the store")
	}
	return errs.ErrorOf(err)
}

// Explain gives an error of the packages below its kind.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	return errs.ErrorOf(err)
}

// suggest adds the most similar name to an error about an unknown snapshot or fork.
func suggest(ws *snapshot.Workspace, args any, err error) error {
	var known []string
	var missing func(name string) error
	switch {
	case errors.Is(err, catalogue.ErrNotFound):
		for _, i := range ws.List() {
			known = append(known, i.Name)
		}
		missing = func(name string) error { _, err := ws.Find(name); return err }
	case errors.Is(err, catalogue.ErrNoFork):
		for _, f := range ws.Forks().List() {
			known = append(known, f.Name)
		}
		missing = func(name string) error { _, err := ws.Forks().Named(name); return err }
	default:
		return err
	}
	for _, name := range namesIn(reflect.ValueOf(args)) {
		if e := *errs.ErrorOf(err); missing(name) != nil && Nearest(name, known) != "" {
			return like(&e, name, known, "")
		}
	}
	return err
}

// like adds the most similar name as a hint, or another hint.
func like(e *errs.Error, name string, known []string, other string) error {
	if n := Nearest(name, known); n != "" {
		return e.WithHint("did you mean %q?", n)
	}
	return e.WithHint("%s", other)
}

func oneOf(what, value string, known []string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return like(errs.Fail(errs.Invalid, "there is no %s %q", what, value), value, known, "it is one of "+strings.Join(known, ", "))
}

func namesIn(args reflect.Value) []string {
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

// maxDistance is how many letters a name may differ in to be suggested.
const maxDistance = 2

// Nearest is the known name that is most similar to a name; "" if none is.
func Nearest(name string, known []string) string {
	best, like := min(maxDistance, len(name)/2)+1, ""
	for _, k := range known {
		if d := distance(name, k); d < best {
			best, like = d, k
		}
	}
	return like
}

func distance(a, b string) int {
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
