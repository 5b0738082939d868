// How many processors there are is asked for once, not each second: an idle mount
// wakes none of them.
//
//go:debug updatemaxprocs=0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/gitquote"
)

func main() {
	os.Exit(runApp(newApp(os.Stdin, os.Stdout, os.Stderr), os.Args))
}

// runApp does what the command line says and gives the exit status.
func runApp(a *app, argv []string) int {
	root := newRoot(a)
	root.SetArgs(asMountHelper(root, argv))
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started {
		a.json = a.json || wantsJSON(argv[1:])
		if e := (*fail.Error)(nil); !errors.As(err, &e) {
			err = fail.New(fail.Usage, "%s", strings.TrimSuffix(err.Error(), "\n")).WithHint("see `amberfs help`")
		}
	}
	return a.finish(ctx, err)
}

// wantsJSON reports whether a command line that was not understood has --json.
func wantsJSON(args []string) bool {
	if n := slices.Index(args, "--"); n >= 0 {
		args = args[:n]
	}
	return slices.Contains(args, "--json")
}

// finish prints what went wrong and gives the exit status.
func (a *app) finish(ctx context.Context, err error) int {
	a.closeOutput()
	if err == nil && a.out.err != nil {
		err = fail.New(fail.KindOf(a.out.err), "cannot write to the standard output: %w", a.out.err)
	}
	if err == nil {
		return 0
	}
	var status exitCode
	if errors.As(err, &status) {
		return int(status)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = fail.New(fail.Failed, "interrupted")
	}
	kind := fail.KindOf(err)
	var e *fail.Error
	if errors.As(err, &e) && e.Silent {
		return kind.Exit()
	}
	msg, hint := err.Error(), ""
	if e != nil {
		msg, hint = e.Msg, e.Hint
	}
	if a.json {
		_ = a.printJSON(failure{Error: msg, Hint: hint, Kind: kind, Exit: kind.Exit()})
	}
	fmt.Fprintln(a.stderr, "amberfs: "+gitquote.Shown(sentence(msg, hint), "\n\t"))
	return kind.Exit()
}

// failure is what --json prints for an error.
type failure struct {
	OK    bool      `json:"ok"`
	Error string    `json:"error"`
	Hint  string    `json:"hint,omitempty"`
	Kind  fail.Kind `json:"kind"`
	Exit  int       `json:"exit"`
}

func sentence(msg, hint string) string {
	if hint == "" {
		return msg
	}
	return msg + "; " + hint
}

// exitCode is an exit status that is not one of ours: that of the program that
// `run` ran.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// asMountHelper turns the ways in which mount(8) calls a file system's helper
// into the command `mount`: as /sbin/mount.fuse.amberfs, or through
// /sbin/mount.fuse as `amberfs STORE MOUNTPOINT -o …`.
func asMountHelper(root rootCommand, argv []string) []string {
	args := argv[1:]
	helper := strings.HasPrefix(filepath.Base(argv[0]), "mount.")
	if !helper {
		// Only with -o, as mount.fuse always has it: a misspelt command must
		// stay an error.
		helper = len(args) >= 4 && !strings.HasPrefix(args[0], "-") && !root.isCommand(args[0]) &&
			!strings.HasPrefix(args[1], "-") && args[2] == "-o"
	}
	if !helper {
		return args
	}
	out := []string{"mount"}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case (arg == "-t" || arg == "-N") && i+1 < len(args):
			i++
		case arg == "-s" || arg == "-n" || arg == "-v" || arg == "-w":
		case arg == "-r":
			out = append(out, "-o", "ro")
		default:
			out = append(out, arg)
		}
	}
	return out
}
