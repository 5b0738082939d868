package search

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// bisect runs a bisection of n states, and returns the last good and the first bad state.
func bisect(n int, r BisectArgs, test func(i int) (verdict, error)) (b *bisection, lastGood, firstBad int, err error) {
	b = &bisection{BisectArgs: r, reportRound: func(int, []int, int) {}}
	b.test = func(_ context.Context, i int) (verdict, error) { return test(i) }
	lastGood, firstBad, err = b.find(context.Background(), n)
	return b, lastGood, firstBad, err
}

func TestBisect(t *testing.T) {
	for _, jobs := range []int{1, 2, 3, 7} {
		most := map[int]int{1: 10, 2: 7, 3: 6, 7: 4}[jobs]
		for _, first := range []int{1, 2, 17, 500, 998, 999} {
			for _, trust := range []bool{false, true} {
				b, lastGood, firstBad, err := bisect(1000, BisectArgs{Jobs: jobs, Repeat: 1, TrustEnds: trust}, func(i int) (verdict, error) {
					if i < first {
						return good, nil
					}
					return bad, nil
				})
				if err != nil || firstBad != first || lastGood != first-1 || b.rounds > most {
					t.Errorf("%d jobs, %d: %d, %d, %d rounds, %v", jobs, first, lastGood, firstBad, b.rounds, err)
				}
			}
		}
	}
}

// TestBisectSkips: about every twentieth of 1,000 states cannot be tested. Then the bisection finds the first bad
// state, or only skipped states are between it and the state that was found.
func TestBisectSkips(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		first := 1 + random.IntN(998)
		skip := map[int]bool{}
		for range 50 {
			skip[1+random.IntN(998)] = true
		}
		_, lastGood, firstBad, err := bisect(1000, BisectArgs{Jobs: 1 + random.IntN(4), Repeat: 1}, func(i int) (verdict, error) {
			switch {
			case skip[i]:
				return skipped, nil
			case i < first:
				return good, nil
			}
			return bad, nil
		})
		if err != nil || lastGood >= first || firstBad < first {
			t.Fatalf("seed %d: %d, %d, %v, first %d", seed, lastGood, firstBad, err, first)
		}
		for i := lastGood + 1; i < firstBad; i++ {
			if !skip[i] {
				t.Fatalf("seed %d: %d was not tested", seed, i)
			}
		}
	}
}

// TestBisectFlaky: two wrong runs do not change the result, because each of the last two states gets more runs.
func TestBisectFlaky(t *testing.T) {
	for first := 1; first < 60; first += 7 {
		for flaky := range 40 {
			for _, apart := range []int{1, 2, 5} {
				var mu sync.Mutex
				run := 0
				_, _, firstBad, err := bisect(60, BisectArgs{Jobs: 1, Repeat: 3, TrustEnds: true}, func(i int) (verdict, error) {
					mu.Lock()
					defer mu.Unlock()
					run++
					wrong := run == flaky || run == flaky+apart
					if i < first != wrong {
						return good, nil
					}
					return bad, nil
				})
				if err != nil || firstBad != first {
					t.Fatalf("first %d, flaky runs %d and %d: %d, %v", first, flaky, flaky+apart, firstBad, err)
				}
			}
		}
	}
}

func TestBisectEnds(t *testing.T) {
	for _, all := range []verdict{good, bad, skipped} {
		if _, _, _, err := bisect(10, BisectArgs{Jobs: 3, Repeat: 1}, func(int) (verdict, error) { return all, nil }); !errors.Is(err, errWrongEnds) {
			t.Errorf("all %v: %v", all, err)
		}
	}
	stop := errors.New("stop")
	_, _, _, err := bisect(10, BisectArgs{Jobs: 3, Repeat: 1, TrustEnds: true}, func(int) (verdict, error) { return "", stop })
	if !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
