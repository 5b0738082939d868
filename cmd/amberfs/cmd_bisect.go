package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/info"
)

// bisectArgs are the arguments of bisect, for the command line and for MCP.
type bisectArgs struct {
	Good      string            `json:"good" jsonschema:"a snapshot for which the command succeeds"`
	Bad       string            `json:"bad,omitempty" jsonschema:"a newer snapshot for which it fails; the present state if empty"`
	Command   []string          `json:"command" jsonschema:"the program and its arguments; exit status 0 is good, 125 skips, 1 to 127 is bad, 128 and above ends the search"`
	Jobs      int               `json:"jobs,omitempty" jsonschema:"how many run at once; 1 if not given"`
	Repeat    int               `json:"repeat,omitempty" jsonschema:"run the command so often for each snapshot; most runs decide"`
	Timeout   string            `json:"timeout,omitempty" jsonschema:"a run that takes longer is bad: 30s, 5m"`
	TrustEnds bool              `json:"trust_ends,omitempty" jsonschema:"do not test good and bad first"`
	Kind      string            `json:"kind,omitempty" jsonschema:"only snapshots of this kind"`
	Labels    map[string]string `json:"labels,omitempty" jsonschema:"only snapshots with these labels"`
	By        string            `json:"by,omitempty" jsonschema:"only snapshots in which this actor changed something"`
}

type bisectRound struct {
	Round  int            `json:"round" jsonschema:"0 tests good and bad"`
	Tested []bisectTested `json:"tested"`
	Left   int            `json:"left" jsonschema:"number of snapshots that can still be the first bad one"`
}

type bisectTested struct {
	Name    string  `json:"name"`
	Verdict verdict `json:"verdict" jsonschema:"good, bad or skipped"`
}

func (r bisectRound) text() string {
	var tested []string
	for _, t := range r.Tested {
		tested = append(tested, fmt.Sprint(t.Name, " ", t.Verdict))
	}
	return fmt.Sprintf("round %d: %s, %s left", r.Round, strings.Join(tested, ", "), plural(r.Left, "snapshot", "snapshots"))
}

type bisectResult struct {
	FirstBad *info.Info           `json:"first_bad,omitempty" jsonschema:"missing if the present state is the first that is bad"`
	Now      bool                 `json:"now,omitempty" jsonschema:"the present state is the first that is bad"`
	LastGood string               `json:"last_good"`
	Skipped  []string             `json:"skipped,omitempty" jsonschema:"snapshots between them that were skipped; one of them may be the first bad one"`
	Files    int                  `json:"files" jsonschema:"number of files that changed from the last good to the first bad one"`
	Paths    []service.DiffedFile `json:"paths" jsonschema:"some of these files"`
	Rounds   int                  `json:"rounds"`
	Runs     int                  `json:"runs" jsonschema:"how often the command ran"`
}

func bisectCommand(a *app) *cobra.Command {
	var req bisectArgs
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
		Args: beforeDash(1, 2, "GOOD and perhaps BAD"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var names []string
			names, req.Command = splitDash(cmd, argv)
			req.Good = names[0]
			if len(names) > 1 {
				req.Bad = names[1]
			}

			p, err := a.location()
			if err != nil {
				return err
			}

			done, err := runBisect(cmd.Context(), a, p, req, func(r bisectRound) {
				if a.json {
					_ = a.printJSON(r) // finish reports an error of the output
				} else {
					a.printf("%s\n", r.text())
				}
			})
			if err != nil {
				return err
			}
			if err := a.print(done, func() { a.printf("%s", bisectedText(done)) }); err != nil {
				return err
			}
			if len(done.Skipped) > 0 {
				return exitCode(errs.Failed.Exit())
			}

			return nil
		},
	}

	cmd.Flags().IntVarP(&req.Jobs, "jobs", "j", 1, "test `N` snapshots at once")
	cmd.Flags().IntVar(&req.Repeat, "repeat", 1, "run COMMAND `N` times for each snapshot; most runs decide")
	cmd.Flags().StringVar(&req.Timeout, "timeout", "", "a run that takes longer than `TIME` is bad: 30s, 5m")
	cmd.Flags().BoolVar(&req.TrustEnds, "trust-ends", false, "do not test GOOD and BAD first")
	cmd.Flags().StringVar(&req.Kind, "kind", "", "only snapshots of this `KIND`")
	labelFlag(cmd, &req.Labels, "only snapshots with the label `KEY=VALUE`; repeatable")
	cmd.Flags().StringVar(&req.By, "by", "", "only snapshots in which `ACTOR` changed something")

	return cmd
}

// bisectStates returns the snapshots from good to bad, sorted by time. The name of the present
// state is "".
func (f *searchForks) bisectStates(ctx context.Context, r bisectArgs) ([]info.Info, error) {
	var good info.Info
	bad := info.Info{Seq: math.MaxUint64}
	err := f.ask(ctx, service.Show{Name: r.Good}, &good)
	if err == nil && r.Bad != "" {
		err = f.ask(ctx, service.Show{Name: r.Bad}, &bad)
	}
	if err != nil {
		return nil, err
	}
	if good.Seq >= bad.Seq {
		return nil, errs.Fail(errs.Invalid, "%s is not older than %s", r.Good, r.Bad).WithHint("name the older snapshot first")
	}

	var l service.Snapshots
	if err := f.ask(ctx, service.List{Kind: r.Kind, Labels: r.Labels, By: r.By}, &l); err != nil {
		return nil, err
	}

	states := slices.DeleteFunc(l.Snapshots, func(i info.Info) bool {
		// Snapshots of forks and remotes belong to other time lines.
		return i.Seq <= good.Seq || i.Seq >= bad.Seq || i.Kind == info.KindFork || i.Kind == info.KindPull
	})
	slices.SortFunc(states, func(x, y info.Info) int { return cmp.Compare(x.Seq, y.Seq) })

	return slices.Concat([]info.Info{good}, states, []info.Info{bad}), nil
}

// runBisect runs a bisection of snapshots. It calls each after each round.
func runBisect(ctx context.Context, a *app, p locate.Location, r bisectArgs, each func(bisectRound)) (_ *bisectResult, err error) {
	limit, err := limitOf(r.Timeout, r.Jobs, r.Repeat)
	if err != nil {
		return nil, err
	}

	f, err := newSearchForks(a, p, "bisect")
	if err != nil {
		return nil, err
	}
	defer f.end()

	states, err := f.bisectStates(ctx, r)
	if err != nil {
		return nil, err
	}

	name := func(i int) string { return cmp.Or(states[i].Name, "now") }
	var runs atomic.Int64
	statuses := make([]int, len(states)) // the exit status of the last run for each state
	var out *os.File
	if a.verbose {
		out = os.Stderr
	}

	test := func(ctx context.Context, i int) (verdict, error) {
		fork, err := f.new(ctx, strconv.FormatInt(runs.Add(1), 10), states[i].Name)
		if err != nil {
			return "", err
		}

		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()

		status, err := f.run(limited, fork, out, []string{"AMBERFS_SNAPSHOT=" + name(i)}, r.Command...)
		if errors.Is(err, context.DeadlineExceeded) {
			status, err = 1, nil // a timeout counts as bad
		}
		if err := errors.Join(err, f.discard(ctx, fork)); err != nil {
			return "", err
		}

		statuses[i] = status
		switch {
		case status > 127:
			return "", errs.Fail(errs.Failed, "the search ends, because %s ended with status %d for %s", r.Command[0], status, name(i))
		case status == 0:
			return good, nil
		case status == 125:
			return skipped, nil
		}

		return bad, nil
	}

	r.Jobs, r.Repeat = max(1, r.Jobs), max(1, r.Repeat)
	b := &bisection{bisectArgs: r, test: test}
	b.tested = func(round int, tested []int, left int) {
		line := bisectRound{Round: round, Tested: []bisectTested{}, Left: left}
		for _, i := range tested {
			line.Tested = append(line.Tested, bisectTested{name(i), b.verdicts[i]})
		}

		each(line)
	}

	lastGood, firstBad, err := b.find(ctx, len(states))
	if errors.Is(err, errEnds) {
		last := len(states) - 1
		return nil, errs.Fail(errs.Failed, "%s ended with status %d for %s, which should be good, and with status %d for %s, which should be bad",
			strings.Join(r.Command, " "), statuses[0], name(0), statuses[last], name(last)).WithHint("name other snapshots")
	}
	if err != nil {
		return nil, err
	}

	first := &states[firstBad]
	done := &bisectResult{FirstBad: first, Now: first.Name == "", LastGood: states[lastGood].Name, Rounds: b.rounds, Runs: int(runs.Load())}
	if done.Now {
		done.FirstBad = nil
	}
	for i := lastGood + 1; i < firstBad; i++ {
		done.Skipped = append(done.Skipped, name(i))
	}

	var changed service.Diffed
	if err := f.ask(ctx, service.Changes{A: done.LastGood, B: first.Name, Limit: 20}, &changed); err != nil {
		return nil, err
	}

	done.Files, done.Paths = changed.Files, changed.Paths
	return done, nil
}

func bisectedText(b *bisectResult) string {
	var t strings.Builder
	name, to, fields := "now", "", ""
	if !b.Now {
		name, to, fields = b.FirstBad.Name, ".."+b.FirstBad.Name, service.OpOf(service.Show{}).Text.Text(nil, b.FirstBad)
	}
	if fmt.Fprintf(&t, "the first bad snapshot is %s", name); len(b.Skipped) > 0 {
		fmt.Fprintf(&t, ", or one of those skipped before it: %s", strings.Join(b.Skipped, " "))
	}

	t.WriteString("\n" + fields)
	fmt.Fprintf(&t, "%s changed since %s:\n", plural(b.Files, "file", "files"), b.LastGood)
	for _, p := range b.Paths {
		fmt.Fprintf(&t, "%s\t%s\n", p.Status, quote(p.Path))
	}
	if more := b.Files - len(b.Paths); more > 0 {
		fmt.Fprintf(&t, "and %d more\n", more)
	}

	fmt.Fprintf(&t, "look at the changes:  amberfs diff %[1]s%[2]s\nrestore the last good: amberfs restore %[1]s\n", b.LastGood, to)

	return t.String()
}
