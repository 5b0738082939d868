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

// Config has the store that a Service works on, and the functions of the daemon that it calls.
type Config struct {
	Store      *snapshot.Store
	Events     *events.Log
	Remotes    *known.Registry
	Log        *slog.Logger
	Mountpoint string
	// Device returns the device of the mount as MAJOR:MINOR, "" if it is not known.
	Device  func() string
	Options string // of the mount, as after -o
	Version string // of the program
	Started time.Time
	// Ready waits until the mount is up. It returns an error if the mount is ending.
	Ready func(ctx context.Context) error
	// Inside lists the programs that have their root or working directory in the views; with roots,
	// only the programs that have their root there.
	Inside   func(views []uint32, roots bool) []Program
	ReadOnly func() bool
	// Requests returns the numbers of the kernel's requests by FUSE operation.
	Requests func() map[string]uint64
	// StaleNames returns the number of names in the kernel's cache that a restore, merge or import
	// changed, and that the kernel has not dropped yet.
	StaleNames func() int64
	// Memory is for texts and imports, Lists for lists of changed files. May be nil.
	Memory, Lists *budget.Budget
	// Git is for the git processes of forks. May be nil.
	Git *budget.Budget
	// Dropped is called when DropExports has to be called again. It does not block.
	Dropped func()
	// Umount unmounts, and returns before the process ends.
	Umount func(lazy bool) error
	// Joining has the functions for programs that share the daemon.
	Joining Joining
	// Survival reports whether the mount would survive a crash of the daemon.
	Survival func() Survival
	Freezing Freezing
	// Upgrade replaces the daemon by one of another program. The new daemon answers the request on
	// the connection that take returns.
	Upgrade func(ctx context.Context, program string, take func() (*net.UnixConn, error)) error
}

// Freezing reports the freezes of a store to the process that outlives the daemon, and has the report of
// that process about the last freeze. The end of a daemon ends its freeze.
type Freezing struct {
	// Tell, if set, is called with the end time of a freeze when one begins, and with the zero time
	// when one is ended.
	Tell func(until time.Time)
	// Ended is the time at which the end of the previous daemon ended a freeze early; zero if it did
	// not, or if a call of freeze or thaw has reported it. Reason says why the daemon ended.
	Ended  time.Time
	Reason string
}

// A Service runs operations on a mounted store. It is safe for concurrent use.
type Service struct {
	Config
	freezes sync.Mutex                  // guards Freezing
	backup  atomic.Pointer[BackupState] // changed by the goroutine of Backup only
	blames  diff.BlameCache
	adding  sync.Mutex // locked by localNameOf, so that a snapshot on a remote is added once
	// exporting has the weight allExports. An export to the store's own repository acquires 1, and the
	// deletion of objects in it acquires all. pruning is set while there are objects to delete.
	exporting *semaphore.Weighted
	pruning   atomic.Bool
	mainGit   *budget.Budget // of the size of Git, for main

	// Turns leaves a processor to the goroutines that answer the kernel.
	Turns *turns.Turns
	// images is locked for reading by an import while it stores blobs, to which no snapshot refers
	// yet, and for writing by sweepImages.
	images sync.RWMutex
	// joinedMu guards joined, the number of joined programs by fork.
	joinedMu sync.Mutex
	joined   map[string]int
	// lastConn is the connection of the last joined program. The end of the process closes it.
	lastConn atomic.Pointer[net.UnixConn]
}

// New returns a Service that uses the configuration.
func New(c Config) *Service {
	return &Service{
		Config: c, exporting: semaphore.NewWeighted(allExports), mainGit: c.Git.Another(), Turns: turns.New(max(1, runtime.NumCPU()-1)),
	}
}

// do runs an operation, after the checks of admit. A panic in it is returned as an error.
func (s *Service) do(ctx context.Context, r *Request, o *Op, args any) (any, error) {
	if r.Workspace == nil {
		r.Workspace = s.Store.Main()
	}
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}

	start := time.Now()
	defer s.showStale(r, o)()

	var result any
	err := guard.Do(func() (err error) {
		if r.Carried != nil { // admitted by the previous daemon
			result, err = s.resume(ctx, r, o, args)
			return err
		}

		if err := s.admit(ctx, r, o, args); err != nil {
			return err
		}

		result, err = o.carryOut(s, ctx, r, args)
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

// explain returns an error with its kind and its hint. It logs a panic of the operation.
func (s *Service) explain(o *Op, err error) error {
	var p *guard.Panic
	if errors.As(err, &p) {
		s.Log.Error("a request panicked", "op", o.Name, "err", err, guard.Stack(err))
		return errs.Fail(errs.Failed, "the daemon failed in %q: %v", o.Name, p.Value).WithHint("its log is amberfs.log in the store")
	}
	return errs.ErrorOf(err)
}

// Explain returns an error of the packages below with its kind, and nil for nil.
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
			return withSuggestion(&e, name, known, "")
		}
	}

	return err
}

// withSuggestion adds the known name that is most similar as a hint, else the hint other.
func withSuggestion(e *errs.Error, name string, known []string, other string) error {
	if n := Nearest(name, known); n != "" {
		return e.WithHint("did you mean %q?", n)
	}
	return e.WithHint("%s", other)
}

// oneOf returns an error unless value is "" or one of the known values. what is the noun for value in the
// error, such as "kind".
func oneOf(what, value string, known []string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return withSuggestion(errs.Fail(errs.Invalid, "there is no %s %q", what, value), value, known, "it is one of "+strings.Join(known, ", "))
}

// namesIn returns the values of the arguments that name snapshots or forks.
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

// maxDistance is the largest edit distance between a name and a suggestion.
const maxDistance = 2

// Nearest returns the known name that is most similar to a name, "" if none is similar.
func Nearest(name string, known []string) string {
	best, nearest := min(maxDistance, len(name)/2)+1, ""
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
