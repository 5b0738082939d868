package snapshot

import "testing"

// TestSealQueue: what is sealed leaves a queue at the same cost however long that is,
// after a mount with very many forks, for one.
func TestSealQueue(t *testing.T) {
	const runs = 1000
	q := sealer{signal: newWake()}
	all := make([]*snap, 2*runs+2)
	for i := range all {
		all[i] = &snap{}
		q.push(all[i])
	}
	if n := testing.AllocsPerRun(runs, func() { q.done(q.first()) }); n > 0 {
		t.Errorf("%v allocations for each", n)
	}
	left := q.len()
	q.done(all[len(all)-1])
	q.done(all[0]) // it is gone already
	if q.len() != left-1 || q.first() != all[len(all)-left] {
		t.Errorf("%d are left, or others", q.len())
	}
}
