// Package search runs a command in several forks of a workspace: bisect looks for the snapshot that broke
// something, and explore for the attempt that passes a check.
package search

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// A Workspace is the workspace of a search, which runs commands in forks of the workspace.
type Workspace struct {
	Root string // the mounted directory; "" if it is not mounted here

	// Call calls an operation in a fork of the workspace or, if fork is "", in the workspace.
	Call   func(ctx context.Context, fork string, args, result any) error
	Output *os.File // gets the output of the commands of a bisection; may be nil
}

// searchForks makes the forks in which a search runs commands. A second process, the janitor, discards the forks
// that are left when the search ends.
type searchForks struct {
	Workspace
	prefix       string         // the names of all forks begin with it
	janitorInput io.WriteCloser // the standard input of the janitor, which reads the names of forks to keep
	stop         func()
}

// newSearchForks starts the janitor of a search. The caller must call stop.
func newSearchForks(w Workspace, operation string) (_ *searchForks, err error) {
	if w.Root == "" {
		return nil, errs.Fail(errs.Invalid, "the root of the workspace is not mounted here")
	}

	f := &searchForks{Workspace: w, prefix: fmt.Sprintf("%s-%08x-", operation, rand.Uint32())}
	cmd := exec.Command("/proc/self/exe", JanitorCommand, w.Root, f.prefix)
	cmd.Args[0], cmd.Dir, cmd.SysProcAttr = "amberfs", "/", &syscall.SysProcAttr{Setsid: true}
	if f.janitorInput, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}

	f.stop = func() {
		f.janitorInput.Close()
		_ = cmd.Wait()
	}

	return f, nil
}

func (f *searchForks) keepFork(name string) { fmt.Fprintln(f.janitorInput, name) }

// JanitorCommand is the hidden command that must call DiscardOtherForks. Its arguments are the root of the workspace and
// the prefix.
const JanitorCommand = "discard-forks"

// DiscardOtherForks discards the forks of a search, except for those to keep. The names of all forks of the search
// begin with prefix. DiscardOtherForks first reads the names of the forks to keep from keepNames. When the search
// ends, keepNames ends.
func (w Workspace) DiscardOtherForks(ctx context.Context, prefix string, keepNames io.Reader) error {
	kept := map[string]bool{}
	for lines := bufio.NewScanner(keepNames); lines.Scan(); {
		kept[lines.Text()] = true
	}

	var l service.ForkList
	err := w.Call(ctx, "", service.Forks{}, &l)
	for _, f := range l.Forks {
		if strings.HasPrefix(f.Name, prefix) && !kept[f.Name] {
			err = errors.Join(err, w.discardFork(ctx, f.Name))
		}
	}

	return err
}

// makeFork makes a fork of a snapshot, or of the present state for "".
func (f *searchForks) makeFork(ctx context.Context, number, baseSnapshot string) (string, error) {
	name := f.prefix + number
	return name, f.Call(ctx, "", snapshot.ForkOptions{Name: name, Snapshot: baseSnapshot}, nil)
}

// discardFork deletes a fork, even if the command is interrupted.
func (w Workspace) discardFork(ctx context.Context, name string) error {
	return w.Call(context.WithoutCancel(ctx), "", service.DeleteFork{Name: name, Discard: true, Forget: true, Force: true}, nil)
}

func (f *searchForks) runInFork(ctx context.Context, fork string, out *os.File, env []string, argv ...string) (int, error) {
	return sandbox.RunInFork(ctx, f.Root, filepath.Join(f.Root, naming.ForksDir, fork), out, append(env, "AMBERFS_FORK="+fork), argv...)
}

// parseLimits returns the timeout of a search. It fails if one of numbers, such as jobs, is negative.
func parseLimits(timeout string, numbers ...int) (time.Duration, error) {
	if slices.Min(numbers) < 0 {
		return 0, errs.Fail(errs.Invalid, "jobs and repeat must be at least 1")
	}
	if timeout == "" {
		return math.MaxInt64, nil
	}

	limit, err := policy.ParseSpan(timeout)
	if err != nil || limit <= 0 {
		return 0, errs.Fail(errs.Invalid, "the timeout is a span such as 30s or 5m, not %q", timeout)
	}

	return limit, nil
}
