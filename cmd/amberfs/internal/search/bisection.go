package search

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
)

// A verdict is the result of the tests of a state; "" if it was not tested.
type verdict string

const (
	good    verdict = "good"
	bad     verdict = "bad"
	skipped verdict = "skipped" // the state cannot be tested
)

// A bisection finds the first bad one of several states, with several tests at once. It
// is independent of snapshots: a state is a number. Jobs and Repeat are at least 1.
type bisection struct {
	BisectArgs
	test func(context.Context, int) (verdict, error)
	// reportRound is called with the states that a round tested, and the number of states that
	// are left. Round 0 tests the ends.
	reportRound func(round int, states []int, left int)

	votes    []map[verdict]int // for each state, the number of runs with each verdict
	verdicts []verdict
	rounds   int // the number of rounds, not counting round 0
}

// errWrongEnds means that the first state is not good, or the last one is not bad.
var errWrongEnds = errors.New("the ends are not as named")

// find finds the first bad one of n states, and the last good state before it. The first of the n states must be
// good and the last one bad. Only skipped states can be between lastGood and firstBad. k parallel tests divide the
// interval into k + 1 parts, of which a round leaves one.
//
// If Repeat is more than 1, find finally tests lastGood and firstBad again, unless they are the first or the last of
// the n states. Each of the two gets up to 2 * Repeat runs in all. If this changes a verdict, the search continues.
func (b *bisection) find(ctx context.Context, n int) (lastGood, firstBad int, err error) {
	b.votes, b.verdicts = make([]map[verdict]int, n), make([]verdict, n)
	b.verdicts[0], b.verdicts[n-1] = good, bad
	if !b.TrustEnds {
		if err := b.testStates(ctx, []int{0, n - 1}, b.Repeat); err != nil {
			return 0, 0, err
		}
		if b.verdicts[0] != good || b.verdicts[n-1] != bad {
			return 0, 0, errWrongEnds
		}
	}

	confirmed := map[int]bool{0: true, n - 1: true}

	for {
		lastGood, firstBad = b.boundary()
		states, maxRuns := b.nextStates(lastGood, firstBad), b.Repeat
		if len(states) == 0 && b.Repeat > 1 {
			maxRuns *= 2
			states = slices.DeleteFunc([]int{lastGood, firstBad}, func(i int) bool { return confirmed[i] })
			confirmed[lastGood], confirmed[firstBad] = true, true
		}
		if len(states) == 0 {
			return lastGood, firstBad, nil
		}

		b.rounds++
		if err := b.testStates(ctx, states, maxRuns); err != nil {
			return 0, 0, err
		}
	}
}

// boundary returns the first bad state and the last good state before it. Verdicts of later states do not count, even if
// one of them is good.
func (b *bisection) boundary() (lastGood, firstBad int) {
	firstBad = 1 + slices.Index(b.verdicts[1:], bad)
	for i, v := range b.verdicts[:firstBad] {
		if v == good {
			lastGood = i
		}
	}

	return lastGood, firstBad
}

// nextStates returns up to Jobs untested states between two states, such that they divide the interval evenly. If the
// state at a point of division was tested, nextStates chooses the nearest untested state.
func (b *bisection) nextStates(lastGood, firstBad int) (out []int) {
	var untested []int
	for i := lastGood + 1; i < firstBad; i++ {
		if b.verdicts[i] == "" {
			untested = append(untested, i)
		}
	}

	parts := min(b.Jobs, len(untested)) + 1
	for j := 1; j < parts; j++ {
		wanted := lastGood + (firstBad-lastGood)*j/parts
		nearest, _ := slices.BinarySearch(untested, wanted)
		if nearest == len(untested) || nearest > 0 && wanted-untested[nearest-1] < untested[nearest]-wanted {
			nearest--
		}

		out, untested = append(out, untested[nearest]), slices.Delete(untested, nearest, nearest+1)
	}

	slices.Sort(out)

	return out
}

// testStates tests states in parallel.
func (b *bisection) testStates(ctx context.Context, states []int, maxRuns int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.Jobs)

	for _, i := range states {
		group.Go(func() (err error) {
			b.verdicts[i], err = b.testState(ctx, i, maxRuns)
			return err
		})
	}

	if err := group.Wait(); err != nil {
		return err
	}

	lastGood, firstBad := b.boundary()
	b.reportRound(b.rounds, states, max(0, firstBad-lastGood-1))

	return nil
}

// testState tests one state until it has had maxRuns runs, or until more runs cannot change the majority. It returns the
// verdict of the majority.
func (b *bisection) testState(ctx context.Context, i, maxRuns int) (verdict, error) {
	if b.votes[i] == nil {
		b.votes[i] = map[verdict]int{}
	}

	v := b.votes[i]
	for v[skipped] == 0 && v[good]+v[bad] < maxRuns && 2*max(v[good], v[bad]) <= maxRuns {
		got, err := b.test(ctx, i)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return "", err
		}

		v[got]++
	}

	switch {
	case v[skipped] > 0:
		return skipped, nil
	case v[good] > v[bad]:
		return good, nil
	}

	return bad, nil
}
