package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

// maxAttempts bounds how many forks one explore makes.
const maxAttempts = 1000

// exploreArgs are the arguments of explore, for the command line and for MCP.
type exploreArgs struct {
	Attempts int      `json:"attempts" jsonschema:"number of forks"`
	Command  []string `json:"command" jsonschema:"the program and its arguments; {} in them is the attempt's number"`
	Jobs     int      `json:"jobs,omitempty" jsonschema:"how many run at once; all if not given"`
	Check    string   `json:"check,omitempty" jsonschema:"a shell command that decides which attempt passes; if empty, the exit status of the command decides"`
	Score    string   `json:"score,omitempty" jsonschema:"a shell command that prints a number; the highest is best"`
	Merge    string   `json:"merge,omitempty" jsonschema:"first: merge the first attempt that passes, and discard the others; best: the one with the highest score"`
	Timeout  string   `json:"timeout,omitempty" jsonschema:"an attempt that takes longer fails: 30s, 5m"`
	Log      string   `json:"log,omitempty" jsonschema:"directory for the output of each attempt"`
}

// attempt is one fork and what became of it.
type attempt struct {
	Attempt int      `json:"attempt"`
	Fork    string   `json:"fork" jsonschema:"empty if it was discarded"`
	State   string   `json:"state" jsonschema:"passed, failed, timeout or stopped"`
	Status  int      `json:"status" jsonschema:"exit status of the command"`
	Check   *int     `json:"check,omitempty" jsonschema:"exit status of the check"`
	Score   *float64 `json:"score,omitempty"`
	Files   int      `json:"files" jsonschema:"number of files that it changed"`
	Seconds float64  `json:"seconds"`
	Log     string   `json:"log" jsonschema:"file with its output"`

	fork  string
	began time.Time
}

// explored is the result.
type explored struct {
	Attempts  []*attempt `json:"attempts"`
	Merged    int        `json:"merged,omitempty" jsonschema:"the attempt that was merged"`
	Changed   int        `json:"changed,omitempty" jsonschema:"number of files that the merge changed"`
	Conflicts []string   `json:"conflicts,omitempty" jsonschema:"paths that the workspace and the attempt changed; nothing was merged"`
}

func exploreCommand(a *app) *cobra.Command {
	var req exploreArgs
	cmd := &cobra.Command{
		Use:   "explore N [--check COMMAND] [--merge first|best] -- COMMAND [ARGUMENT]...",
		Short: "Run a command in several forks and keep the best",
		Long: `Runs COMMAND in N forks of the present state at once, and --check in each of them
afterwards. An attempt passes if both exit with 0. Each fork is mounted in the place
of the workspace, for COMMAND only. AMBERFS_FORK and AMBERFS_ATTEMPT are set, and {}
in an ARGUMENT is the attempt's number. Output goes to attempt-N.log in the directory
--log.

--merge first merges the first attempt that passes, stops the others, and discards all
forks. --merge best does so with the attempt for which --score prints the highest
number. If the workspace changed the same paths meanwhile, they are listed, nothing is
merged, and that fork stays. Without --merge all forks stay.`,
		Example: `  amberfs explore 5 --check "make test" --merge first -- ./fix.sh {}
  amberfs explore 8 --jobs 2 --score ./score.sh --merge best -- ./agent`,
		Args: func(cmd *cobra.Command, argv []string) error {
			n, command := splitDash(cmd, argv)
			if len(command) == 0 {
				return fail.New(fail.Usage, "explore needs -- and a COMMAND after it").WithHint("such as: amberfs explore 3 -- ./fix.sh")
			}
			return args(1, 1, "the number of attempts before --")(cmd, n)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			var n []string
			var err error
			n, req.Command = splitDash(cmd, argv)
			if req.Attempts, err = strconv.Atoi(n[0]); err != nil {
				return fail.New(fail.Usage, "%q is not a number of attempts", n[0])
			}
			if req.Log != "" {
				if req.Log, err = a.abs(req.Log); err != nil {
					return err
				}
			}
			live := !a.json && !a.quiet && isTerminal(a.stderr)
			drawn := 0
			done, err := a.explore(cmd.Context(), req, func(all []*attempt, ended *attempt) {
				if a.json && ended != nil {
					_ = a.printJSON(ended) // an error of the output is found at the end
				} else if live {
					a.drawAttempts(all, drawn)
					drawn = len(all)
				}
			})
			if done == nil {
				return err
			}
			return a.printFailed(done, err, func() { a.printf("%s", exploredText(done)) })
		},
	}
	cmd.Flags().IntVar(&req.Jobs, "jobs", 0, "run `N` attempts at once. Default: all")
	cmd.Flags().StringVar(&req.Check, "check", "", "shell `COMMAND` that decides which attempt passes")
	cmd.Flags().StringVar(&req.Score, "score", "", "shell `COMMAND` that prints a number; the highest is best")
	cmd.Flags().StringVar(&req.Merge, "merge", "", "merge the `first` attempt that passes, or the best")
	cmd.Flags().StringVar(&req.Timeout, "timeout", "", "an attempt that takes longer than `TIME` fails: 30s, 5m")
	cmd.Flags().StringVar(&req.Log, "log", "", "`DIR` for the output of each attempt. Default: a temporary directory")
	return cmd
}

func (r exploreArgs) check() (limit time.Duration, err error) {
	switch {
	case r.Attempts < 1 || r.Attempts > maxAttempts:
		return 0, fail.New(fail.Usage, "the number of attempts is 1 to %d, not %d", maxAttempts, r.Attempts)
	case r.Merge != "" && r.Merge != "first" && r.Merge != "best":
		return 0, fail.New(fail.Usage, "merge is first or best, not %q", r.Merge)
	case (r.Merge == "best") != (r.Score != "") && r.Merge != "":
		return 0, fail.New(fail.Usage, "merge best and score belong together")
	case r.Jobs < 0:
		return 0, fail.New(fail.Usage, "jobs must be at least 1")
	}
	return timeoutOf(r.Timeout)
}

// errPassed ends the other attempts.
var errPassed = errors.New("another attempt passed")

// explore runs the attempts. each is called five times a second, and with each attempt
// that has ended.
func (a *app) explore(ctx context.Context, r exploreArgs, each func(all []*attempt, ended *attempt)) (_ *explored, err error) {
	limit, err := r.check()
	if err != nil {
		return nil, err
	}
	if r.Log == "" {
		r.Log, err = os.MkdirTemp("", "amberfs-explore-")
	} else {
		err = os.MkdirAll(r.Log, 0o777)
	}
	if err != nil {
		return nil, err
	}
	f, err := newSearchForks(a, "explore")
	if err != nil {
		return nil, err
	}
	keep := false
	defer func() { f.end(keep) }()
	done := &explored{}
	for n := range r.Attempts {
		number := strconv.Itoa(n + 1)
		t := &attempt{Attempt: n + 1, State: "waiting", Status: -1, Log: filepath.Join(r.Log, "attempt-"+number+".log")}
		if t.fork, err = f.new(ctx, number, ""); err != nil {
			return nil, err
		}
		t.Fork = t.fork
		done.Attempts = append(done.Attempts, t)
	}
	best, err := f.attempts(ctx, r, done.Attempts, limit, each)
	if err != nil {
		return nil, err
	}
	f.countFiles(ctx, done.Attempts)
	keep = true
	if r.Merge == "" {
		return done, nil
	}
	if best == nil {
		return done, fail.New(fail.Failed, "no attempt passed; nothing was merged, and the forks stay")
	}
	var merged service.Merged
	failed := f.ask(ctx, service.Merge{Fork: best.fork}, &merged)
	for _, t := range done.Attempts {
		if failed != nil && t == best {
			continue
		}
		if derr := f.discard(ctx, t.fork); derr != nil {
			err = errors.Join(err, derr)
			continue
		}
		t.Fork = ""
	}
	if done.Conflicts = merged.Conflicts; len(merged.Conflicts) > 0 {
		failed = fail.New(fail.KindOf(failed), "attempt %d passed, but the workspace changed the same files meanwhile; nothing was merged", best.Attempt).
			WithHint("see `amberfs diff --fork %s`, and merge it with `amberfs merge %s --ours` or --theirs", best.fork, best.fork)
	} else if failed == nil {
		done.Merged, done.Changed = best.Attempt, merged.Changed
	}
	return done, errors.Join(failed, err)
}

// attempts runs all of them and returns the one to merge, nil if none passed.
func (f *searchForks) attempts(ctx context.Context, r exploreArgs, all []*attempt, limit time.Duration, each func(all []*attempt, ended *attempt)) (best *attempt, err error) {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	show := func(t *attempt, state string) {
		mu.Lock()
		defer mu.Unlock()
		if t.State = state; t.began.IsZero() {
			t.began = time.Now()
		}
	}
	var group errgroup.Group
	group.SetLimit(cmp.Or(r.Jobs, r.Attempts))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, t := range all {
			group.Go(func() error {
				show(t, "running")
				state, err := f.attempt(running, r, t, limit, show)
				mu.Lock()
				defer mu.Unlock()
				t.State, t.Seconds = state, time.Since(t.began).Seconds()
				switch {
				case err != nil && running.Err() == nil:
					stop(err)
				case state == "passed" && (best == nil || r.Merge == "best" && *t.Score > *best.Score):
					if best = t; r.Merge == "first" {
						stop(errPassed)
					}
				}
				each(all, t)
				return nil
			})
		}
		_ = group.Wait() // the context has the error
	}()
	tick := time.NewTicker(time.Second / 5)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			each(all, nil)
			if err := context.Cause(running); err != nil && !errors.Is(err, errPassed) {
				return nil, err
			}
			return best, nil
		case <-tick.C:
			mu.Lock()
			each(all, nil)
			mu.Unlock()
		}
	}
}

// attempt runs the command, the check and the score, and returns the state that the
// attempt ends in.
func (f *searchForks) attempt(ctx context.Context, r exploreArgs, t *attempt, limit time.Duration, show func(*attempt, string)) (string, error) {
	log, err := os.OpenFile(t.Log, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return "failed", err
	}
	defer log.Close()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	number := strconv.Itoa(t.Attempt)
	run := func(argv ...string) (int, error) {
		return f.run(ctx, t.fork, log, []string{"AMBERFS_ATTEMPT=" + number}, argv...)
	}
	var argv []string
	for _, arg := range r.Command {
		argv = append(argv, strings.ReplaceAll(arg, "{}", number))
	}
	t.Status, err = run(argv...)
	passed := t.Status == 0
	if err == nil && r.Check != "" {
		show(t, "checking")
		var check int
		check, err = run("sh", "-c", r.Check)
		t.Check, passed = &check, check == 0
	}
	if err == nil && passed && r.Score != "" {
		err = t.score(log, func() (int, error) { return run("sh", "-c", r.Score) })
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout", nil
	case err != nil:
		return "stopped", err
	case passed:
		return "passed", nil
	}
	return "failed", nil
}

// score runs a command, whose last line is a number.
func (t *attempt) score(log *os.File, run func() (int, error)) error {
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	status, err := run()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(log, from, 1<<20))
	if err != nil {
		return err
	}
	score, err := strconv.ParseFloat(lastLine(text), 64)
	if status != 0 || err != nil {
		return fail.New(fail.Failed, "the score of attempt %d is not a number: %q, exit status %d", t.Attempt, lastLine(text), status)
	}
	t.Score = &score
	return nil
}

// countFiles asks what the attempts changed. It is left at 0 where that is not known.
func (f *searchForks) countFiles(ctx context.Context, attempts []*attempt) {
	var l service.ForkList
	if f.ask(ctx, service.Forks{}, &l) != nil {
		return
	}
	for _, i := range l.Forks {
		for _, t := range attempts {
			if t.fork == i.Name {
				t.Files = i.Changed
			}
		}
	}
}

func lastLine(text []byte) string {
	text = bytes.TrimRight(text, "\n")
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// exploredText is the result for a person.
func exploredText(e *explored) string {
	rows := [][]string{{"attempt", "fork", "state", "exit", "check", "score", "changed", "time"}}
	kept := ""
	for _, t := range e.Attempts {
		exit, check, score := "-", "-", "-"
		if t.Status >= 0 {
			exit = strconv.Itoa(t.Status)
		}
		if t.Check != nil {
			check = strconv.Itoa(*t.Check)
		}
		if t.Score != nil {
			score = strconv.FormatFloat(*t.Score, 'g', -1, 64)
		}
		if kept == "" {
			kept = t.Fork
		}
		rows = append(rows, []string{strconv.Itoa(t.Attempt), cmp.Or(t.Fork, "-"), t.State, exit, check, score,
			plural(t.Files, "file", "files"), fmt.Sprintf("%.1fs", t.Seconds)})
	}
	text := joinRows(rows) + "output: " + quote(filepath.Dir(e.Attempts[0].Log)) + "\n"
	for _, c := range e.Conflicts {
		text += "conflict: " + quote(c) + "\n"
	}
	switch {
	case e.Merged > 0:
		text += fmt.Sprintf("merged attempt %d (%d file(s) changed)\n", e.Merged, e.Changed)
	case kept != "" && len(e.Conflicts) == 0:
		text += fmt.Sprintf("compare:  amberfs diff --fork %s\nmerge:    amberfs merge %s\ndiscard:  amberfs fork --discard %s\n", kept, kept, kept)
	}
	return text
}

// drawAttempts writes a line for each attempt over those that it wrote before.
func (a *app) drawAttempts(all []*attempt, drawn int) {
	var b strings.Builder
	if drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", drawn)
	}
	for _, t := range all {
		last := ""
		if log, err := os.Open(t.Log); err == nil {
			size, _ := log.Seek(0, io.SeekEnd) // 0 if it fails
			text, _ := io.ReadAll(io.NewSectionReader(log, max(0, size-500), 500))
			last = lastLine(text)
			log.Close()
		}
		took := t.Seconds
		if took == 0 && !t.began.IsZero() {
			took = time.Since(t.began).Seconds()
		}
		line := fmt.Sprintf("%3d  %-8s %6.1fs  %s", t.Attempt, t.State, took, quote(last))
		fmt.Fprintf(&b, "\x1b[K%s\n", line[:min(len(line), a.width()-1)])
	}
	fmt.Fprint(a.stderr, b.String())
}
