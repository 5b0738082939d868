package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/search"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/client"
)

func bisectCommand(a *app) *cobra.Command {
	var req search.BisectArgs
	cmd := &cobra.Command{
		Use:   "bisect GOOD [BAD] [-j N] -- COMMAND [ARGUMENT]...",
		Short: "Find the snapshot in which something broke",
		Long: `Finds the first snapshot after GOOD for which COMMAND fails, by running it in forks of
the snapshots between GOOD and BAD. Without BAD, the present state is bad. Each fork is
mounted in place of the workspace, for COMMAND only, and then discarded.

The exit status of COMMAND decides: 0 is good, 125 skips the snapshot, any other status
up to 127 is bad, and 128 and above ends the search.

-v shows the output of COMMAND. With --json, each round is a line.`,
		Example: `  amberfs bisect v1 -- make test
  amberfs bisect turn-12 turn-96 -j 3 --timeout 5m -- go test ./...
  amberfs bisect v1 --kind turn --json -- ./check.sh`,
		Args: beforeDashCheck(1, 2, "GOOD and perhaps BAD"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var ends []string
			ends, req.Command = splitDash(cmd, argv)
			req.Good = ends[0]
			if len(ends) > 1 {
				req.Bad = ends[1]
			}

			return runBisect(cmd.Context(), a, req)
		},
	}

	cmd.Flags().IntVarP(&req.Jobs, "jobs", "j", 1, "test `N` snapshots at once")
	cmd.Flags().IntVar(&req.Repeat, "repeat", 1, "run COMMAND `N` times for each snapshot; most runs decide")
	cmd.Flags().StringVar(&req.Timeout, "timeout", "", "a run that takes longer than `TIME` is bad: 30s, 5m")
	cmd.Flags().BoolVar(&req.TrustEnds, "trust-ends", false, "do not test GOOD and BAD first")
	cmd.Flags().StringVar(&req.Kind, "kind", "", "only snapshots of this `KIND`")
	addLabelFlag(cmd, &req.Labels, "only snapshots with the label `KEY=VALUE`; repeatable")
	cmd.Flags().StringVar(&req.Actor, "by", "", "only snapshots in which `ACTOR` changed something")

	return cmd
}

// runBisect runs a bisection in the workspace of the working directory, and prints each round.
func runBisect(ctx context.Context, a *app, req search.BisectArgs) error {
	p, err := a.location()
	if err != nil {
		return err
	}

	done, err := search.Bisect(ctx, searchWorkspace(a, p), req, func(r search.Round) {
		if a.json {
			_ = a.printJSON(r) // endCommand reports a failed write
		} else {
			a.printf("%s\n", r.Text())
		}
	})
	if err != nil {
		return err
	}

	if err := a.print(done, func() { a.printf("%s", search.BisectedText(done)) }); err != nil {
		return err
	}
	if len(done.Skipped) > 0 {
		return exitCode(errs.Failed.ExitStatus())
	}

	return nil
}

func exploreCommand(a *app) *cobra.Command {
	var req search.ExploreArgs
	cmd := &cobra.Command{
		Use:   "explore N [--check COMMAND] [--merge first|best] -- COMMAND [ARGUMENT]...",
		Short: "Run a command in several forks and keep the best",
		Long: `Runs COMMAND in N forks of the present state at once, and --check in each afterwards.
Without --check, COMMAND decides which attempt passes. Each fork is mounted in place of
the workspace, for COMMAND only. AMBERFS_FORK and AMBERFS_ATTEMPT are set. {} is
replaced by the attempt's number.

--merge first stops the other attempts, and --merge discards all forks. If the workspace
changed the same paths, they are listed, nothing is merged, and that fork stays. Without
--merge all forks stay.`,
		Example: `  amberfs explore 5 --check "make test" --merge first -- ./fix.sh {}
  amberfs explore 8 --jobs 2 --score ./score.sh --merge best -- ./agent`,
		Args: beforeDashCheck(1, 1, "the number of attempts"),
		RunE: func(cmd *cobra.Command, argv []string) (err error) {
			var n []string
			n, req.Command = splitDash(cmd, argv)
			if req.Attempts, err = strconv.Atoi(n[0]); err != nil {
				return errs.Fail(errs.Invalid, "%q is not a number of attempts", n[0])
			}
			return runExplore(cmd.Context(), a, req)
		},
	}

	cmd.Flags().IntVar(&req.Jobs, "jobs", 0, "run `N` attempts at once. Default: all")
	cmd.Flags().StringVar(&req.Check, "check", "", "shell `COMMAND` that decides which attempt passes")
	cmd.Flags().StringVar(&req.Score, "score", "", "shell `COMMAND` that prints a number; the highest is best")
	cmd.Flags().StringVar(&req.Merge, "merge", "", "merge the `first` attempt that passes, or the best")
	cmd.Flags().StringVar(&req.Timeout, "timeout", "", "an attempt longer than `TIME` fails: 30s, 5m")
	cmd.Flags().StringVar(&req.Log, "log", "", "write output to attempt-N.log in `DIR`. Default: a temporary directory")

	return cmd
}

// runExplore runs the attempts in the workspace of the working directory. On a terminal it shows them while they run.
func runExplore(ctx context.Context, a *app, req search.ExploreArgs) error {
	p, err := a.location()
	if err != nil {
		return err
	}

	if req.Log != "" {
		if req.Log, err = a.absPath(req.Log); err != nil {
			return err
		}
	}

	isLive, drawnLines := !a.json && !a.quiet && isTerminal(a.stderr) && env.Get("TERM") != "dumb", 0
	done, err := search.Explore(ctx, searchWorkspace(a, p), req, func(all []*search.Attempt, ended *search.Attempt) {
		if a.json && ended != nil {
			_ = a.printJSON(ended) // endCommand reports a failed write
		} else if isLive {
			var text string
			width, height := terminalSize(a.stderr)
			text, drawnLines = search.AttemptsText(all, drawnLines, width, height)
			fmt.Fprint(a.stderr, text)
		}
	})
	if done == nil {
		return err
	}

	return a.printFailed(done, err, func() { a.printf("%s", search.ExploredText(done)) })
}

// searchWorkspace returns the workspace of a location for a search. The search shows no progress of its calls.
func searchWorkspace(a *app, p locate.Location) search.Workspace {
	root, _ := p.Root()
	w := search.Workspace{Root: root, Call: func(ctx context.Context, fork string, args, result any) error {
		return a.callWithStreams(ctx, p.InFork(fork), args, client.Streams{}, result)
	}}
	if a.verbose {
		w.Output = os.Stderr
	}

	return w
}

// discardForks waits for the end of a search in the directory argv[0], and discards its forks.
func discardForks(ctx context.Context, a *app, argv []string) error {
	a.dir = argv[0]
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	p, err := a.location()
	if err != nil {
		return err
	}

	return searchWorkspace(a, p).DiscardOtherForks(context.WithoutCancel(ctx), argv[1], a.stdin)
}

// beforeDashCheck returns a check of the arguments before --. The check also fails if no COMMAND follows --.
func beforeDashCheck(min, max int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, argv []string) error {
		before, command := splitDash(cmd, argv)
		if len(command) == 0 {
			example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
			return errs.Fail(errs.Invalid, "%s needs -- and a COMMAND after it", cmd.Name()).WithHint("such as: %s", example)
		}

		return argumentCountCheck(min, max, usage+" before --")(cmd, before)
	}
}
