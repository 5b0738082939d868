package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/info"
)

// BisectArgs are the arguments of bisect, for the command line and for MCP.
type BisectArgs struct {
	Good      string            `json:"good" jsonschema:"a snapshot for which the command succeeds"`
	Bad       string            `json:"bad,omitempty" jsonschema:"a newer snapshot for which it fails; the present state if empty"`
	Command   []string          `json:"command" jsonschema:"the program and its arguments; exit status 0 is good, 125 skips, 1 to 127 is bad, 128 and above ends the search"`
	Jobs      int               `json:"jobs,omitempty" jsonschema:"how many run at once; 1 if not given"`
	Repeat    int               `json:"repeat,omitempty" jsonschema:"run the command so often for each snapshot; most runs decide"`
	Timeout   string            `json:"timeout,omitempty" jsonschema:"a run that takes longer is bad: 30s, 5m"`
	TrustEnds bool              `json:"trust_ends,omitempty" jsonschema:"do not test good and bad first"`
	Kind      string            `json:"kind,omitempty" jsonschema:"only snapshots of this kind"`
	Labels    map[string]string `json:"labels,omitempty" jsonschema:"only snapshots with these labels"`
	Actor     string            `json:"by,omitempty" jsonschema:"only snapshots in which this actor changed something"`
}

// A Round has the results of the tests of one round.
type Round struct {
	Round     int              `json:"round" jsonschema:"0 tests good and bad"`
	Tested    []TestedSnapshot `json:"tested"`
	Remaining int              `json:"left" jsonschema:"number of snapshots that can still be the first bad one"`
}

// TestedSnapshot is a snapshot with the result of its test.
type TestedSnapshot struct {
	Name    string  `json:"name"`
	Verdict verdict `json:"verdict" jsonschema:"good, bad or skipped"`
}

// Text returns a line about the round.
func (r Round) Text() string {
	var tested []string
	for _, t := range r.Tested {
		tested = append(tested, fmt.Sprint(t.Name, " ", t.Verdict))
	}
	return fmt.Sprintf("round %d: %s, %s left", r.Round, strings.Join(tested, ", "), english.Plural(r.Remaining, "snapshot", "snapshots"))
}

// BisectResult is the result of a bisection.
type BisectResult struct {
	FirstBad       *info.Info           `json:"first_bad,omitempty" jsonschema:"missing if the present state is the first that is bad"`
	PresentIsFirst bool                 `json:"now,omitempty" jsonschema:"the present state is the first that is bad"`
	LastGood       string               `json:"last_good"`
	Skipped        []string             `json:"skipped,omitempty" jsonschema:"snapshots between them that were skipped; one of them may be the first bad one"`
	Files          int                  `json:"files" jsonschema:"number of files that changed from the last good to the first bad one"`
	Paths          []service.DiffedFile `json:"paths" jsonschema:"some of these files"`
	Rounds         int                  `json:"rounds"`
	Runs           int                  `json:"runs" jsonschema:"how often the command ran"`
}

// bisectStates returns the snapshots from good to bad, sorted by time. The name of the present
// state is "".
func (f *searchForks) bisectStates(ctx context.Context, r BisectArgs) ([]info.Info, error) {
	var good info.Info
	bad := info.Info{Seq: math.MaxUint64}
	err := f.Call(ctx, "", service.Show{Name: r.Good}, &good)
	if err == nil && r.Bad != "" {
		err = f.Call(ctx, "", service.Show{Name: r.Bad}, &bad)
	}
	if err != nil {
		return nil, err
	}
	if good.Seq >= bad.Seq {
		return nil, errs.Fail(errs.Invalid, "%s is not older than %s", r.Good, r.Bad).WithHint("name the older snapshot first")
	}

	var l service.Snapshots
	if err := f.Call(ctx, "", service.List{Kind: r.Kind, Labels: r.Labels, By: r.Actor}, &l); err != nil {
		return nil, err
	}

	states := slices.DeleteFunc(l.Snapshots, func(i info.Info) bool {
		// Snapshots of forks and remotes are left out, because they belong to other time lines.
		return i.Seq <= good.Seq || i.Seq >= bad.Seq || i.Kind == info.KindFork || i.Kind == info.KindPull
	})
	slices.SortStableFunc(states, func(x, y info.Info) int { return cmp.Compare(x.Seq, y.Seq) })

	return slices.Concat([]info.Info{good}, states, []info.Info{bad}), nil
}

// Bisect finds the first snapshot of w for which a command fails. It calls onRound after each round.
func Bisect(ctx context.Context, w Workspace, r BisectArgs, onRound func(Round)) (_ *BisectResult, err error) {
	limit, err := parseLimits(r.Timeout, r.Jobs, r.Repeat)
	if err != nil {
		return nil, err
	}

	f, err := newSearchForks(w, "bisect")
	if err != nil {
		return nil, err
	}
	defer f.stop()

	states, err := f.bisectStates(ctx, r)
	if err != nil {
		return nil, err
	}

	name := func(i int) string { return cmp.Or(states[i].Name, "now") }
	var runs atomic.Int64
	statuses := make([]int, len(states)) // the exit status of the last run for each state
	test := func(ctx context.Context, i int) (verdict, error) {
		fork, err := f.makeFork(ctx, strconv.FormatInt(runs.Add(1), 10), states[i].Name)
		if err != nil {
			return "", err
		}

		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()

		status, err := f.runInFork(limited, fork, w.Output, []string{"AMBERFS_SNAPSHOT=" + name(i)}, r.Command...)
		if errors.Is(err, context.DeadlineExceeded) {
			status, err = 1, nil // a timeout counts as bad
		}
		if err := errors.Join(err, f.discardFork(ctx, fork)); err != nil {
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
	b := &bisection{BisectArgs: r, test: test}
	b.reportRound = func(round int, tested []int, left int) {
		line := Round{Round: round, Tested: []TestedSnapshot{}, Remaining: left}
		for _, i := range tested {
			line.Tested = append(line.Tested, TestedSnapshot{name(i), b.verdicts[i]})
		}

		onRound(line)
	}

	lastGood, firstBad, err := b.find(ctx, len(states))
	if errors.Is(err, errWrongEnds) {
		last := len(states) - 1
		return nil, errs.Fail(errs.Failed, "%s ended with status %d for %s, which should be good, and with status %d for %s, which should be bad",
			strings.Join(r.Command, " "), statuses[0], name(0), statuses[last], name(last)).WithHint("name other snapshots")
	}
	if err != nil {
		return nil, err
	}

	first := &states[firstBad]
	done := &BisectResult{FirstBad: first, PresentIsFirst: first.Name == "", LastGood: states[lastGood].Name, Rounds: b.rounds, Runs: int(runs.Load())}
	if done.PresentIsFirst {
		done.FirstBad = nil
	}
	for i := lastGood + 1; i < firstBad; i++ {
		done.Skipped = append(done.Skipped, name(i))
	}

	var changed service.Diffed
	if err := f.Call(ctx, "", service.Changes{A: done.LastGood, B: first.Name, Limit: 20}, &changed); err != nil {
		return nil, err
	}

	done.Files, done.Paths = changed.Files, changed.Paths
	return done, nil
}

// BisectedText returns the result of a bisection as text.
func BisectedText(b *BisectResult) string {
	var t strings.Builder
	name, to, fields := "now", "", ""
	if !b.PresentIsFirst {
		name, to, fields = b.FirstBad.Name, ".."+b.FirstBad.Name, service.OpOf(service.Show{}).Text.Text(nil, b.FirstBad)
	}
	if fmt.Fprintf(&t, "the first bad snapshot is %s", name); len(b.Skipped) > 0 {
		fmt.Fprintf(&t, ", or one of those skipped before it: %s", strings.Join(b.Skipped, " "))
	}

	t.WriteString("\n" + fields)
	fmt.Fprintf(&t, "%s changed since %s:\n", english.Plural(b.Files, "file", "files"), b.LastGood)
	for _, p := range b.Paths {
		fmt.Fprintf(&t, "%s\t%s\n", p.Status, gitquote.ReadableName(p.Path))
	}
	if more := b.Files - len(b.Paths); more > 0 {
		fmt.Fprintf(&t, "and %d more\n", more)
	}

	fmt.Fprintf(&t, "look at the changes:  amberfs diff %[1]s%[2]s\nrestore the last good: amberfs restore %[1]s\n", b.LastGood, to)

	return t.String()
}
