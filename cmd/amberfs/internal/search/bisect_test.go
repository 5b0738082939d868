package search

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

func find(t *testing.T, n, first int, o Options, test func(i int) Verdict) (Result, error) {
	t.Helper()
	o.Round = func(int, []int, []Verdict, int) {}
	return Bisect(context.Background(), n, o, func(_ context.Context, i int) (Verdict, error) { return test(i), nil })
}

func TestBisect(t *testing.T) {
	for _, jobs := range []int{1, 2, 3, 7} {
		most := map[int]int{1: 10, 2: 7, 3: 6, 7: 4}[jobs]
		for _, first := range []int{1, 2, 17, 500, 998, 999} {
			for _, trust := range []bool{false, true} {
				r, err := find(t, 1000, first, Options{Jobs: jobs, Repeat: 1, TrustEnds: trust}, func(i int) Verdict {
					if i < first {
						return Good
					}
					return Bad
				})
				if err != nil || r.First != first || r.Good != first-1 || r.Rounds > most {
					t.Errorf("%d jobs, %d: %+v, %v", jobs, first, r, err)
				}
			}
		}
	}
}

// Of 1,000 states every twentieth cannot be tested: the first bad one is found, or is
// among the skipped ones before the one that is found.
func TestBisectSkips(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		first := 1 + random.IntN(998)
		skip := map[int]bool{}
		for range 50 {
			skip[1+random.IntN(998)] = true
		}
		r, err := find(t, 1000, first, Options{Jobs: 1 + random.IntN(4), Repeat: 1}, func(i int) Verdict {
			switch {
			case skip[i]:
				return Skip
			case i < first:
				return Good
			}
			return Bad
		})
		if err != nil || r.Good >= first || r.First < first {
			t.Fatalf("seed %d: %+v, %v, first %d", seed, r, err, first)
		}
		for i := r.Good + 1; i < r.First; i++ {
			if !skip[i] {
				t.Fatalf("seed %d: %d was not tested", seed, i)
			}
		}
	}
}

// Any two runs in a row, or apart, that say the contrary are outvoted.
func TestBisectFlaky(t *testing.T) {
	for first := 1; first < 60; first += 7 {
		for flaky := range 40 {
			for _, apart := range []int{1, 2, 5} {
				var mu sync.Mutex
				run := 0
				r, err := find(t, 60, first, Options{Jobs: 1, Repeat: 3, TrustEnds: true}, func(i int) Verdict {
					mu.Lock()
					defer mu.Unlock()
					run++
					wrong := run == flaky || run == flaky+apart
					if i < first != wrong {
						return Good
					}
					return Bad
				})
				if err != nil || r.First != first {
					t.Fatalf("first %d, flaky runs %d and %d: %+v, %v", first, flaky, flaky+apart, r, err)
				}
			}
		}
	}
}

func TestBisectEnds(t *testing.T) {
	for _, all := range []Verdict{Good, Bad, Skip} {
		if _, err := find(t, 10, 0, Options{Jobs: 3, Repeat: 1}, func(int) Verdict { return all }); !errors.Is(err, ErrEnds) {
			t.Errorf("all %v: %v", all, err)
		}
	}
	stop := errors.New("stop")
	_, err := Bisect(context.Background(), 10, Options{Jobs: 3, Repeat: 1, TrustEnds: true, Round: func(int, []int, []Verdict, int) {}}, func(context.Context, int) (Verdict, error) { return 0, stop })
	if !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
