package sealing

import (
	"testing"

	"github.com/amberfs/amberfs/snapshot/history"
)

// TestSealQueue: what is sealed leaves a queue at the same cost however long that is,
// after a mount with very many forks, for one.
func TestSealQueue(t *testing.T) {
	const runs = 1000
	q := New(Parts{})
	all := make([]*history.Snapshot, 2*runs+2)
	for i := range all {
		all[i] = &history.Snapshot{Done: make(chan struct{})}
		q.Push(all[i])
	}
	if n := testing.AllocsPerRun(runs, func() { q.done(q.next(nil)) }); n > 0 {
		t.Errorf("%v allocations for each", n)
	}
	left := q.Len()
	q.done(all[len(all)-1])
	q.done(all[0]) // it is gone already, and sealed
	if q.Len() != left-1 || q.next(nil) != all[len(all)-left] {
		t.Errorf("%d are left, or others", q.Len())
	}
}
