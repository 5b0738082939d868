package changed_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/internal/changed"
)

func TestSet(t *testing.T) {
	s := changed.New[int](2)
	a, b := s.Add(1), s.Add(2)
	want := func(what string, got []int, want ...int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", what, got, want)
		}
	}
	want("new keys", s.Take(0), 1, 2)
	want("taken", s.For(0))
	want("by one reader", s.For(1), 1, 2)
	b.Change()
	b.Change()
	s.Change(1, 7)
	want("changed again", s.For(0), 1, 2)
	s.Unchanged(0, 2, 7)
	want("unchanged", s.For(0), 1)
	s.Remove(1)
	want("removed", s.For(1), 2)
	c := s.Add(1)
	s.Take(0)
	a.Change() // the mark of the key that was removed
	want("by an old mark", s.For(0))
	c.Change()
	want("by its mark", s.Take(0), 1)
}

// TestChangesAtOnce: every change between two looks is seen by the second.
func TestChangesAtOnce(t *testing.T) {
	s := changed.New[int](1)
	marks := make([]*changed.Mark, 100)
	for i := range marks {
		marks[i] = s.Add(i)
	}
	for range 100 {
		s.Take(0)
		var changes sync.WaitGroup
		for half := range 4 {
			changes.Go(func() {
				for _, m := range marks[half*10 : half*10+40] {
					m.Change()
				}
			})
		}
		changes.Wait()
		if n := len(s.For(0)); n != 70 {
			t.Fatalf("%d of 70 keys", n)
		}
	}
}
