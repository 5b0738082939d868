package main

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
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// searchForks are the forks in which bisect or explore runs commands. A second process, the janitor,
// discards the forks that are left when the command ends.
type searchForks struct {
	a      *app
	p      locate.Location
	root   string
	prefix string         // of the names of the forks
	kept   io.WriteCloser // the standard input of the janitor, which reads the names of forks to keep
	end    func()
}

func newSearchForks(a *app, p locate.Location, what string) (_ *searchForks, err error) {
	root, ok := p.Root()
	if !ok {
		return nil, errs.Fail(errs.Invalid, "the root of the workspace is not mounted here")
	}

	f := &searchForks{a: a, p: p, root: root, prefix: fmt.Sprintf("%s-%08x-", what, rand.Uint32())}
	cmd := exec.Command("/proc/self/exe", janitor, root, f.prefix)
	cmd.Args[0], cmd.Dir, cmd.SysProcAttr = "amberfs", "/", &syscall.SysProcAttr{Setsid: true}
	if f.kept, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}

	f.end = func() {
		f.kept.Close()
		_ = cmd.Wait()
	}

	return f, nil
}

func (f *searchForks) keepFork(name string) { fmt.Fprintln(f.kept, name) }

// janitor is the name of the hidden command discardForks.
const janitor = "discard-forks"

// discardForks waits for the end of a command, which ends its standard input. Then it discards the forks of the
// command, whose names begin with argv[1], except for the forks that the standard input has named.
func discardForks(ctx context.Context, a *app, argv []string) error {
	a.dir = argv[0]
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	kept := map[string]bool{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		kept[lines.Text()] = true
	}

	ctx = context.WithoutCancel(ctx)
	var l service.ForkList
	failed := a.askHere(ctx, service.Forks{}, &l)
	for _, f := range l.Forks {
		if strings.HasPrefix(f.Name, argv[1]) && !kept[f.Name] {
			failed = errors.Join(failed, a.askHere(ctx, service.DeleteFork{Name: f.Name, Discard: true, Forget: true, Force: true}, nil))
		}
	}

	return failed
}

func (f *searchForks) ask(ctx context.Context, args, result any) error {
	return f.a.exchange(ctx, f.p, args, client.Exchange{}, result)
}

// new makes a fork of a snapshot, or of the present state for "".
func (f *searchForks) new(ctx context.Context, number, from string) (string, error) {
	name := f.prefix + number
	return name, f.ask(ctx, snapshot.ForkOptions{Name: name, Snapshot: from}, nil)
}

// discard deletes a fork, even if the command is interrupted.
func (f *searchForks) discard(ctx context.Context, name string) error {
	return f.ask(context.WithoutCancel(ctx), service.DeleteFork{Name: name, Discard: true, Forget: true, Force: true}, nil)
}

func (f *searchForks) run(ctx context.Context, fork string, out *os.File, env []string, argv ...string) (int, error) {
	return sandbox.InFork(ctx, f.root, filepath.Join(f.root, naming.ForksDir, fork), out, append(env, "AMBERFS_FORK="+fork), argv...)
}

// limitOf reads the timeout of a search, and checks its numbers.
func limitOf(timeout string, numbers ...int) (time.Duration, error) {
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

// beforeDash checks the arguments before --, and that a COMMAND follows.
func beforeDash(min, max int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, argv []string) error {
		before, command := splitDash(cmd, argv)
		if len(command) == 0 {
			example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
			return errs.Fail(errs.Invalid, "%s needs -- and a COMMAND after it", cmd.Name()).WithHint("such as: %s", example)
		}

		return args(min, max, usage+" before --")(cmd, before)
	}
}
