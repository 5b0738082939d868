// Package search finds the first of a row of states that fails a test, with several
// tests at once. It knows nothing of snapshots: a state is a number.
package search

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
)

// A Verdict is what one test says of a state.
type Verdict int

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
	// Round is called with the states that a round tested, the verdicts of all states, and
	// the number of states that are left. Round 0 tests the ends.
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
	test func(context.Context, int) (Verdict, error)

	votes   [][Skip + 1]int // of each state
	verdict []Verdict
}

// Bisect finds the first bad of n states, of which the first one is good and the last
// one bad. Of k tests at once each round leaves one of k + 1 parts. With Repeat, the two
// states found are tested as often again; if that changes a verdict, the search goes on.
func Bisect(ctx context.Context, n int, o Options, test func(context.Context, int) (Verdict, error)) (Result, error) {
	b := &bisection{Options: o, test: test, votes: make([][Skip + 1]int, n), verdict: make([]Verdict, n)}
	b.verdict[0], b.verdict[n-1] = Good, Bad
	if !o.TrustEnds {
		if err := b.round(ctx, 0, []int{0, n - 1}, b.Repeat); err != nil {
			return Result{}, err
		}
		if b.verdict[0] != Good || b.verdict[n-1] != Bad {
			return Result{}, ErrEnds
		}
	}
	confirmed := map[int]bool{0: true, n - 1: true}
	for round := 1; ; round++ {
		good, bad := b.ends()
		tries, tests := b.choose(good, bad), b.Repeat
		if len(tries) == 0 && b.Repeat > 1 {
			tests *= 2
			tries = slices.DeleteFunc([]int{good, bad}, func(i int) bool { return confirmed[i] })
			confirmed[good], confirmed[bad] = true, true
		}
		if len(tries) == 0 {
			return Result{Good: good, First: bad, Rounds: round - 1}, nil
		}
		if err := b.round(ctx, round, tries, tests); err != nil {
			return Result{}, err
		}
	}
}

// ends returns the first bad state that is behind a good one, and that good one. If
// verdicts contradict each other, the first change counts.
func (b *bisection) ends() (good, bad int) {
	bad = 1 + slices.Index(b.verdict[1:], Bad)
	for i, v := range b.verdict[:bad] {
		if v == Good {
			good = i
		}
	}
	return good, bad
}

// choose picks up to Jobs states between good and bad that were not tested, such that
// they divide the rest evenly. Beside skipped states the nearest one stands for a place.
func (b *bisection) choose(good, bad int) (out []int) {
	var open []int
	for i := good + 1; i < bad; i++ {
		if b.verdict[i] == Unknown {
			open = append(open, i)
		}
	}
	parts := min(b.Jobs, len(open)) + 1
	for j := 1; j < parts; j++ {
		place := good + (bad-good)*j/parts
		at, _ := slices.BinarySearch(open, place)
		if at == len(open) || at > 0 && place-open[at-1] < open[at]-place {
			at--
		}
		out, open = append(out, open[at]), slices.Delete(open, at, at+1)
	}
	slices.Sort(out)
	return out
}

// round tests states at once, each until it has so many verdicts or most are certain.
func (b *bisection) round(ctx context.Context, round int, tries []int, tests int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.Jobs)
	for _, i := range tries {
		group.Go(func() (err error) {
			b.verdict[i], err = b.vote(ctx, i, tests)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	good, bad := b.ends()
	b.Round(round, tries, b.verdict, max(0, bad-good-1))
	return nil
}

// vote tests one state until it has so many verdicts, or most of them are certain.
func (b *bisection) vote(ctx context.Context, i, tests int) (Verdict, error) {
	v := &b.votes[i]
	for v[Skip] == 0 && v[Good]+v[Bad] < tests && 2*max(v[Good], v[Bad]) <= tests {
		got, err := b.test(ctx, i)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return Unknown, err
		}
		v[got]++
	}
	switch {
	case v[Skip] > 0:
		return Skip, nil
	case v[Good] > v[Bad]:
		return Good, nil
	}
	return Bad, nil
}
