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
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// searchForks are the forks that bisect or explore work in. A process beside the command
// discards those that are left when the command ends.
type searchForks struct {
	a      *app
	p      locate.Place
	root   string
	prefix string // of their names
	tell   io.WriteCloser
	ended  func() error
}

func newSearchForks(a *app, p locate.Place, what string) (_ *searchForks, err error) {
	root, ok := p.Root()
	if !ok {
		return nil, fail.New(fail.Usage, "the root of the workspace is not mounted here")
	}
	f := &searchForks{a: a, p: p, root: root, prefix: fmt.Sprintf("%s-%08x-", what, rand.Uint32())}
	cmd := exec.Command("/proc/self/exe", janitor, root)
	cmd.Args[0], cmd.Dir, cmd.SysProcAttr = "amberfs", "/", &syscall.SysProcAttr{Setsid: true}
	if f.tell, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f.ended = cmd.Wait
	return f, nil
}

func (f *searchForks) end() {
	f.tell.Close()
	_ = f.ended()
}

func (f *searchForks) keep(name string) { fmt.Fprintln(f.tell, "-"+name) }

const janitor = "discard-forks"

// discardForks discards the forks that its standard input names, when that ends. A line
// +NAME comes before a fork is made, and -NAME when it was not made, is discarded, or
// stays. So a fork that is named is one of the command at the other end.
func (a *app) discardForks(ctx context.Context, argv []string) error {
	a.dir = argv[0]
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	left := map[string]bool{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if name, made := strings.CutPrefix(lines.Text(), "+"); made {
			left[name] = true
		} else {
			delete(left, strings.TrimPrefix(name, "-"))
		}
	}
	failed := lines.Err()
	for name := range left {
		err := a.askHere(context.WithoutCancel(ctx), service.DeleteFork{Name: name, Discard: true, Force: true}, nil)
		if fail.KindOf(err) != fail.NotFound { // else it was not made yet
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

func (f *searchForks) ask(ctx context.Context, args, result any) error {
	return f.a.exchange(ctx, f.p, args, client.Exchange{}, result)
}

// new makes a fork of a snapshot, or of the present state for "".
func (f *searchForks) new(ctx context.Context, number, snapshot string) (string, error) {
	name := f.prefix + number
	fmt.Fprintln(f.tell, "+"+name)
	err := f.ask(ctx, service.Fork{Name: name, Snapshot: snapshot}, nil)
	if fail.KindOf(err) == fail.Exists {
		f.keep(name)
	}
	return name, err
}

// discard is done even if the command is interrupted.
func (f *searchForks) discard(ctx context.Context, name string) error {
	err := f.ask(context.WithoutCancel(ctx), service.DeleteFork{Name: name, Discard: true, Force: true}, nil)
	if err == nil {
		f.keep(name)
	}
	return err
}

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
