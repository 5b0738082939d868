// Package search finds the first of a row of states that fails a test, with several
// tests at once. It knows nothing of snapshots: a state is a number.
package search

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A Verdict is what one test says of a state.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota
	Good
	Bad
	Skip // it cannot be tested
)

// String returns "good", "bad", "skipped" or "unknown".
func (v Verdict) String() string { return [...]string{"unknown", "good", "bad", "skipped"}[v] }

// Options of a bisection.
type Options struct {
	Jobs      int  // tests at once, at least 1
	Repeat    int  // tests of each state, of which most decide; at least 1
	TrustEnds bool // the first state is good and the last one bad; do not test them
	// Round is called with the states that a round tested and the number of states that
	// are left. Round 0 tests the ends.
	Round func(round int, tested []int, verdicts []Verdict, left int)
}

// ErrEnds is returned if the first state is not good, or the last one not bad.
var ErrEnds = errors.New("the ends are not as named")

// Result of a bisection. First is Good + 1 unless all states between were skipped.
type Result struct {
	Good, First int
	Rounds      int // without that of the ends
}

type bisection struct {
	Options
	n    int
	test func(context.Context, int) (Verdict, error)

	mu      sync.Mutex
	votes   [][Skip + 1]int // of each state
	verdict []Verdict
}

// Bisect finds the first bad of n states, of which the first one is good and the last
// one bad. Of k tests at once each round leaves one of k + 1 parts. A test that the
// verdicts of others make superfluous is cancelled. With Repeat, the two states found
// are tested as often again; if that changes a verdict, the search goes on.
func Bisect(ctx context.Context, n int, o Options, test func(context.Context, int) (Verdict, error)) (Result, error) {
	b := &bisection{Options: o, n: n, test: test, votes: make([][Skip + 1]int, n), verdict: make([]Verdict, n)}
	if o.TrustEnds {
		b.verdict[0], b.verdict[n-1] = Good, Bad
	} else {
		if err := b.round(ctx, 0, []int{0, n - 1}, b.Repeat, false); err != nil {
			return Result{}, err
		}
		if b.verdict[0] != Good || b.verdict[n-1] != Bad {
			return Result{Good: 0, First: n - 1}, ErrEnds
		}
	}
	confirmed := map[int]bool{0: true, n - 1: true}
	for round := 1; ; round++ {
		good, bad := b.ends()
		tries := b.choose(good, bad)
		again := 0
		if len(tries) == 0 && b.Repeat > 1 {
			again = b.Repeat
			for _, i := range []int{good, bad} {
				if !confirmed[i] {
					confirmed[i], tries = true, append(tries, i)
				}
			}
		}
		if len(tries) == 0 {
			return Result{Good: good, First: bad, Rounds: round - 1}, nil
		}
		if err := b.round(ctx, round, tries, b.Repeat+again, again == 0); err != nil {
			return Result{}, err
		}
	}
}

// ends returns the first bad state that is behind a good one, and that good one. If
// verdicts contradict each other, the first change counts.
func (b *bisection) ends() (good, bad int) {
	for i, v := range b.verdict {
		if v == Good {
			good = i
		}
		if v == Bad && i > 0 {
			return good, i
		}
	}
	return good, b.n - 1
}

// choose picks up to Jobs states between good and bad that were not tested, such that
// they divide the rest evenly.
func (b *bisection) choose(good, bad int) []int {
	var open []int
	for i := good + 1; i < bad; i++ {
		if b.verdict[i] == Unknown {
			open = append(open, i)
		}
	}
	var out []int
	for j := range min(b.Jobs, len(open)) {
		// Beside skipped states the nearest one that is open stands for the place.
		place := good + (bad-good)*(j+1)/(min(b.Jobs, len(open))+1)
		at, _ := slices.BinarySearch(open, place)
		if at == len(open) || at > 0 && place-open[at-1] < open[at]-place {
			at--
		}
		out, open = append(out, open[at]), slices.Delete(open, at, at+1)
	}
	slices.Sort(out)
	return out
}

// round tests states at once, each until it has so many verdicts or most of them are
// certain.
func (b *bisection) round(ctx context.Context, round int, tries []int, tests int, between bool) error {
	all, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	running := make(map[int]context.CancelFunc)
	limit := make(chan struct{}, b.Jobs)
	var wg sync.WaitGroup
	for _, i := range tries {
		one, stop := context.WithCancel(all)
		b.mu.Lock()
		running[i] = stop
		b.mu.Unlock()
		wg.Go(func() {
			defer stop()
			limit <- struct{}{}
			defer func() { <-limit }()
			err := b.vote(one, i, tests)
			if err != nil && one.Err() == nil {
				cancel(err)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			for j, stop := range running {
				if between && (b.verdict[i] == Bad && j > i || b.verdict[i] == Good && j < i) {
					stop()
				}
			}
		})
	}
	wg.Wait()
	if all.Err() != nil {
		return context.Cause(all)
	}
	if b.Round != nil {
		tested := slices.DeleteFunc(tries, func(i int) bool { return b.verdict[i] == Unknown })
		var verdicts []Verdict
		for _, i := range tested {
			verdicts = append(verdicts, b.verdict[i])
		}
		good, bad := b.ends()
		b.Round(round, tested, verdicts, bad-good-1)
	}
	return nil
}

// vote tests one state until it has so many verdicts, or most of them are certain.
func (b *bisection) vote(ctx context.Context, i, tests int) error {
	for {
		b.mu.Lock()
		v := &b.votes[i]
		done, lead := v[Good]+v[Bad], v[Good]-v[Bad]
		decided := v[Skip] > 0 || done >= tests || max(lead, -lead) > tests-done
		if decided {
			switch {
			case v[Skip] > 0:
				b.verdict[i] = Skip
			case lead > 0:
				b.verdict[i] = Good
			default:
				b.verdict[i] = Bad
			}
		}
		b.mu.Unlock()
		if decided {
			return nil
		}
		got, err := b.test(ctx, i)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		b.mu.Lock()
		v[got]++
		b.mu.Unlock()
	}
}
