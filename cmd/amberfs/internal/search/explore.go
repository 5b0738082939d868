package search

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// maxAttempts is the maximum number of forks that one explore makes.
const maxAttempts = 1000

// ExploreArgs are the arguments of explore, for the command line and for MCP.
type ExploreArgs struct {
	Attempts int      `json:"attempts" jsonschema:"number of forks"`
	Command  []string `json:"command" jsonschema:"the program and its arguments; {} in them, in check and in score is the attempt's number"`
	Jobs     int      `json:"jobs,omitempty" jsonschema:"how many run at once; all if not given"`
	Check    string   `json:"check,omitempty" jsonschema:"a shell command that decides which attempt passes; if empty, the exit status of the command decides"`
	Score    string   `json:"score,omitempty" jsonschema:"a shell command that prints a number; the highest is best"`
	Merge    string   `json:"merge,omitempty" jsonschema:"first: merge the first attempt that passes, and discard the others; best: the one with the highest score"`
	Timeout  string   `json:"timeout,omitempty" jsonschema:"an attempt that takes longer fails: 30s, 5m"`
	Log      string   `json:"log,omitempty" jsonschema:"directory for the output of each attempt"`
}

// An Attempt is one fork, and the result of the command in it.
type Attempt struct {
	Attempt int      `json:"attempt"`
	Fork    string   `json:"fork" jsonschema:"empty if it was discarded"`
	State   string   `json:"state" jsonschema:"passed, failed, timeout or stopped"`
	Status  int      `json:"status" jsonschema:"exit status of the command"`
	Check   *int     `json:"check,omitempty" jsonschema:"exit status of the check"`
	Score   *float64 `json:"score,omitempty"`
	Files   int      `json:"files" jsonschema:"number of files that it changed"`
	Seconds float64  `json:"seconds"`
	Log     string   `json:"log" jsonschema:"file with its output"`

	startedAt time.Time
	log       *os.File
}

// ExploreResult is the result of all attempts.
type ExploreResult struct {
	Attempts  []*Attempt `json:"attempts"`
	Merged    int        `json:"merged,omitempty" jsonschema:"the attempt that was merged"`
	Changed   int        `json:"changed,omitempty" jsonschema:"number of files that the merge changed"`
	Conflicts []string   `json:"conflicts,omitempty" jsonschema:"paths that the workspace and the attempt changed; nothing was merged"`
}

func (r ExploreArgs) validate() error {
	switch {
	case r.Attempts < 1 || r.Attempts > maxAttempts:
		return errs.Fail(errs.Invalid, "the number of attempts is 1 to %d, not %d", maxAttempts, r.Attempts)
	case r.Merge != "" && r.Merge != "first" && r.Merge != "best":
		return errs.Fail(errs.Invalid, "merge is first or best, not %q", r.Merge)
	case r.Merge == "best" && r.Score == "" || r.Merge == "first" && r.Score != "":
		return errs.Fail(errs.Invalid, "merge best and score belong together")
	}
	return nil
}

var errOtherPassed = errors.New("another attempt passed")

// Explore runs a command in several forks of w. It calls onProgress when an attempt has ended, with this attempt as the
// argument ended. It also calls onProgress five times a second, with nil as this argument.
func Explore(ctx context.Context, w Workspace, r ExploreArgs, onProgress func(all []*Attempt, ended *Attempt)) (_ *ExploreResult, err error) {
	limit, err := parseLimits(r.Timeout, r.Jobs)
	if err = errors.Join(err, r.validate()); err != nil {
		return nil, err
	}

	f, err := newSearchForks(w, "explore")
	if err != nil {
		return nil, err
	}
	defer f.stop()

	if r.Log == "" {
		r.Log, err = os.MkdirTemp("", "amberfs-explore-")
	}
	if err = errors.Join(err, os.MkdirAll(r.Log, 0o777)); err != nil {
		return nil, err
	}

	done := &ExploreResult{}

	for n := range r.Attempts {
		number := strconv.Itoa(n + 1)
		t := &Attempt{Attempt: n + 1, State: "waiting", Status: -1, Log: filepath.Join(r.Log, "attempt-"+number+".log")}
		t.log, err = os.OpenFile(t.Log, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, os.ErrExist) {
			return nil, errs.Fail(errs.Exist, "the file %s exists", t.Log).WithHint("choose another directory after --log")
		}
		if err != nil {
			return nil, err
		}
		defer t.log.Close()

		if t.Fork, err = f.makeFork(ctx, number, ""); err != nil {
			return nil, err
		}

		done.Attempts = append(done.Attempts, t)
	}

	best, err := f.runAttempts(ctx, r, limit, done.Attempts, onProgress)
	if err != nil {
		return nil, err
	}

	var l service.ForkList
	if err := f.Call(ctx, "", service.Forks{}, &l); err != nil {
		return nil, err
	}

	for _, s := range l.Forks {
		for _, t := range done.Attempts {
			if t.Fork == s.Name {
				t.Files = s.Changed
			}
		}
	}

	if r.Merge == "" || best == nil {
		for _, t := range done.Attempts {
			err = errors.Join(err, f.keepAttempt(ctx, t))
		}
	}
	if r.Merge == "" || err != nil {
		return done, err
	}
	if best == nil {
		return done, errs.Fail(errs.Failed, "no attempt passed; nothing was merged, and the forks stay")
	}

	var merged snapshot.PromoteResult
	mergeErr := f.Call(ctx, "", snapshot.MergeOptions{Fork: best.Fork}, &merged)
	if done.Conflicts = merged.Conflicts; len(done.Conflicts) > 0 {
		mergeErr = errs.Fail(errs.ScriptKind(mergeErr), "attempt %d passed, but the workspace changed the same files meanwhile; nothing was merged", best.Attempt).
			WithHint("see `amberfs diff --fork %s`, and merge it with `amberfs merge %s --ours` or --theirs", best.Fork, best.Fork)
	}

	if mergeErr == nil {
		done.Merged, done.Changed = best.Attempt, merged.Changed
	} else {
		mergeErr = errors.Join(mergeErr, f.keepAttempt(ctx, best))
	}

	for _, t := range done.Attempts {
		if t != best || mergeErr == nil { // the fork of the best attempt is kept if its merge failed
			if err := f.discardFork(ctx, t.Fork); err != nil {
				return done, err
			}
			t.Fork = ""
		}
	}

	return done, mergeErr
}

// keepAttempt keeps the fork of an attempt, and takes a snapshot with the result in it.
func (f *searchForks) keepAttempt(ctx context.Context, t *Attempt) error {
	f.keepFork(t.Fork)
	result := snapshot.CaptureOptions{Message: fmt.Sprintf("attempt %d", t.Attempt), Labels: map[string]string{"check": t.State}}
	return f.Call(ctx, t.Fork, result, nil)
}

// runAttempts runs all attempts, and returns the one to merge, nil if none passed.
func (f *searchForks) runAttempts(ctx context.Context, r ExploreArgs, limit time.Duration, attempts []*Attempt, onProgress func(attempts []*Attempt, ended *Attempt)) (best *Attempt, _ error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	changes := make(chan func()) // functions that change attempts; only this goroutine calls them, because it also reads the attempts
	go func() {
		defer close(changes)

		var group errgroup.Group
		group.SetLimit(cmp.Or(r.Jobs, r.Attempts))

		for _, t := range attempts {
			group.Go(func() error {
				changes <- func() { t.startedAt = time.Now() }
				state, err := f.runAttempt(ctx, r, t, limit, func(state string) { changes <- func() { t.State = state } })
				changes <- func() {
					t.State, t.Seconds = state, time.Since(t.startedAt).Seconds()
					if err != nil {
						stop(err)
					} else if state == "passed" && (best == nil || r.Merge == "best" && *t.Score > *best.Score) {
						if best = t; r.Merge == "first" {
							stop(errOtherPassed)
						}
					}

					onProgress(attempts, t)
				}

				return nil
			})
		}

		_ = group.Wait() // the error is the cause of ctx
	}()

	for tick := time.Tick(time.Second / 5); ; {
		select {
		case change, more := <-changes:
			if more {
				change()
			} else if err := context.Cause(ctx); err != nil && !errors.Is(err, errOtherPassed) {
				return nil, err
			} else {
				return best, nil
			}

		case <-tick:
			onProgress(attempts, nil)
		}
	}
}

// runAttempt runs the command, the check and the score of an attempt, and returns its final state. It calls onState
// with each earlier state.
func (f *searchForks) runAttempt(ctx context.Context, r ExploreArgs, t *Attempt, limit time.Duration, onState func(string)) (string, error) {
	var err error
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	number := strconv.Itoa(t.Attempt)
	run := func(state string, argv ...string) (status int, ran bool) {
		if err == nil {
			onState(state)
			status, err = f.runInFork(ctx, t.Fork, t.log, []string{"AMBERFS_ATTEMPT=" + number}, argv...)
		}
		return status, err == nil
	}

	argv := slices.Clone(r.Command)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "{}", number)
	}

	t.Status, _ = run("running", argv...)
	passed := t.Status == 0
	if r.Check != "" {
		if check, ran := run("checking", "sh", "-c", strings.ReplaceAll(r.Check, "{}", number)); ran {
			t.Check, passed = &check, check == 0
		}
	}

	if passed && r.Score != "" {
		scoreOffset, _ := t.log.Seek(0, io.SeekCurrent) // Seek does not fail for a file
		if status, ran := run("scoring", "sh", "-c", strings.ReplaceAll(r.Score, "{}", number)); ran {
			text := lastLine(t.log, scoreOffset)
			score, notNumber := strconv.ParseFloat(text, 64)
			if notNumber != nil || status != 0 || math.IsNaN(score) || math.IsInf(score, 0) {
				return "failed", errs.Fail(errs.Failed, "the score of attempt %d is not a number: %q, exit status %d", t.Attempt, text, status)
			}
			t.Score = &score
		}
	}

	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout", nil
	case err != nil && ctx.Err() != nil:
		return "stopped", nil
	case err == nil && passed:
		return "passed", nil
	}

	return "failed", err
}

// lastLine returns the last line of an output after an offset, "" if it cannot be read.
func lastLine(log *os.File, offset int64) string {
	if st, err := log.Stat(); err == nil {
		offset = max(offset, st.Size()-500)
	}
	text, _ := io.ReadAll(io.NewSectionReader(log, offset, 500))
	text = bytes.TrimRight(text, "\n")
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// ExploredText returns the result of all attempts as text.
func ExploredText(e *ExploreResult) string {
	var b strings.Builder
	rows := [][]string{{"attempt", "fork", "state", "exit", "check", "score", "changed", "time"}}
	kept := ""

	for _, t := range e.Attempts {
		exit := &t.Status
		if *exit < 0 {
			exit = nil
		}

		kept = cmp.Or(kept, t.Fork)
		rows = append(rows, []string{
			orDash(&t.Attempt), cmp.Or(t.Fork, "-"), t.State, orDash(exit), orDash(t.Check), orDash(t.Score),
			english.Plural(t.Files, "file", "files"), fmt.Sprintf("%.1fs", t.Seconds),
		})
	}

	b.WriteString(service.AlignColumns(rows))
	fmt.Fprintf(&b, "output: %s\n", gitquote.ReadableName(filepath.Dir(e.Attempts[0].Log)))
	for _, path := range e.Conflicts {
		fmt.Fprintf(&b, "conflict: %s\n", gitquote.ReadableName(path))
	}

	if e.Merged > 0 {
		fmt.Fprintf(&b, "merged attempt %d (%s changed)\n", e.Merged, english.Plural(e.Changed, "file", "files"))
	} else if len(e.Conflicts) == 0 {
		fmt.Fprintf(&b, "compare: amberfs diff --fork %[1]s\nmerge:   amberfs merge %[1]s\ndiscard: amberfs fork --discard %[1]s\n", kept)
	}

	return b.String()
}

func orDash[T any](number *T) string {
	if number == nil {
		return "-"
	}
	return fmt.Sprint(*number)
}
