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
	want("new keys", s.TakeChanged(0), 1, 2)
	want("taken", s.Changed(0))
	want("by one reader", s.Changed(1), 1, 2)
	b.MarkChanged()
	b.MarkChanged()
	s.MarkChanged(1, 7)
	want("changed again", s.Changed(0), 1, 2)
	s.ClearChanged(0, 2, 7)
	want("unchanged", s.Changed(0), 1)
	s.Remove(1)
	want("removed", s.Changed(1), 2)
	c := s.Add(1)
	s.TakeChanged(0)
	a.MarkChanged() // the mark of the removed key
	want("by an old mark", s.Changed(0))
	c.MarkChanged()
	want("by its mark", s.TakeChanged(0), 1)
}

// TestChangesAtOnce: Changed returns all keys that were marked, also by several goroutines at once.
func TestChangesAtOnce(t *testing.T) {
	s := changed.New[int](1)
	marks := make([]*changed.Mark, 100)
	for i := range marks {
		marks[i] = s.Add(i)
	}
	for range 100 {
		s.TakeChanged(0)
		var changes sync.WaitGroup
		for half := range 4 {
			changes.Go(func() {
				for _, m := range marks[half*10 : half*10+40] {
					m.MarkChanged()
				}
			})
		}
		changes.Wait()
		if n := len(s.Changed(0)); n != 70 {
			t.Fatalf("%d of 70 keys", n)
		}
	}
}
