package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// searchForks are the forks that bisect or explore work in. A process beside the command
// discards them when the command ends without doing so.
type searchForks struct {
	a      *app
	p      locate.Place
	root   string
	prefix string
	keep   io.WriteCloser // see janitorCommand
	ended  func() error
}

// newSearchForks starts the process beside the command.
func newSearchForks(a *app, p locate.Place, what string) (_ *searchForks, err error) {
	root, ok := p.Root()
	if !ok {
		return nil, fail.New(fail.Usage, "the root of the workspace is not mounted here")
	}
	f := &searchForks{a: a, p: p, root: root, prefix: fmt.Sprintf("%s-%04x-", what, rand.IntN(1<<16))}
	cmd := exec.Command("/proc/self/exe", "-C", root, janitor, f.prefix)
	cmd.Args[0], cmd.Dir, cmd.SysProcAttr = "amberfs", "/", &syscall.SysProcAttr{Setsid: true}
	if f.keep, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f.ended = cmd.Wait
	return f, nil
}

// end has the process end. With keep the forks stay; else it discards those that are left.
func (f *searchForks) end(keep bool) {
	if keep {
		_, _ = f.keep.Write([]byte("keep")) // an error: it was killed
	}
	f.keep.Close()
	_ = f.ended()
}

const janitor = "discard-forks"

// janitorCommand discards the forks with a prefix when its standard input ends, unless
// that has anything in it: the command at its other end kept them.
func janitorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: janitor, Hidden: true, Args: args(1, 1, "a PREFIX"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
			if b, err := io.ReadAll(os.Stdin); err != nil || len(b) > 0 {
				return err
			}
			var l service.ForkList
			if err := a.askHere(context.Background(), service.Forks{}, &l); err != nil {
				return err
			}
			var failed error
			for _, i := range l.Forks {
				if strings.HasPrefix(i.Name, argv[0]) {
					failed = errors.Join(failed, a.askHere(context.Background(), service.DeleteFork{Name: i.Name, Discard: true, Force: true}, nil))
				}
			}
			return failed
		},
	}
}

func (f *searchForks) ask(ctx context.Context, args, result any) error {
	return f.a.exchange(ctx, f.p, args, client.Exchange{}, result)
}

// new makes a fork of a snapshot, or of the present state for "".
func (f *searchForks) new(ctx context.Context, number, snapshot string) (string, error) {
	name := f.prefix + number
	return name, f.ask(ctx, service.Fork{Name: name, Snapshot: snapshot}, nil)
}

// discard is done even if the command is interrupted.
func (f *searchForks) discard(ctx context.Context, name string) error {
	return f.ask(context.WithoutCancel(ctx), service.DeleteFork{Name: name, Discard: true, Force: true}, nil)
}

// run runs a program in a fork and returns its exit status.
func (f *searchForks) run(ctx context.Context, fork string, out *os.File, env []string, argv ...string) (int, error) {
	return sandbox.InFork(ctx, f.root, filepath.Join(f.root, naming.ForksDir, fork), out, append(env, "AMBERFS_FORK="+fork), argv...)
}

// limitOf reads the timeout of a search, and checks its numbers.
func limitOf(timeout string, numbers ...int) (time.Duration, error) {
	if slices.Min(numbers) < 0 {
		return 0, fail.New(fail.Usage, "jobs and repeat must be at least 1")
	}
	if timeout == "" {
		return math.MaxInt64, nil
	}
	limit, err := policy.ParseSpan(timeout)
	if err != nil || limit <= 0 {
		return 0, fail.New(fail.Usage, "the timeout is a span such as 30s or 5m, not %q", timeout)
	}
	return limit, nil
}

// beforeDash checks the arguments before --, and that a COMMAND follows.
func beforeDash(min, max int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, argv []string) error {
		before, command := splitDash(cmd, argv)
		if len(command) == 0 {
			example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
			return fail.New(fail.Usage, "%s needs -- and a COMMAND after it", cmd.Name()).WithHint("such as: %s", example)
		}
		return args(min, max, usage+" before --")(cmd, before)
	}
}

// inForkCommand is the process between explore or bisect and a program of theirs.
func inForkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: sandbox.InForkCommand, Hidden: true, DisableFlagParsing: true, Args: args(4, -1, "KIND ROOT FORK COMMAND"),
		RunE: func(_ *cobra.Command, argv []string) error { return a.statusOf(sandbox.InsideFork(argv)) },
	}
}
