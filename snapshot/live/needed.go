package live

import (
	"math"
	"runtime"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// NoPos is a position that nothing in the journal lies behind.
const NoPos = int64(math.MaxInt64)

// Needed finds out from which position on the journal is still referred to. On
// the way it lets the contents that were changed since they were last sealed
// refer to the sealed chunks.
//
// There may be a million of them, so nearly all are looked at without the lock:
// first the present states, frozen for the purpose, and those of snapshots that
// are not sealed; then, with the lock, what came about meanwhile.
type Needed struct {
	seen tree.Unsealed
	low  int64
}

// Needed returns one that has seen nothing yet.
func (f *Forest) Needed() *Needed { return &Needed{low: NoPos} }

// yieldEvery is after how many files the search lets other goroutines run.
const yieldEvery = 256

// Frozen looks at a frozen state. It needs no lock.
func (d *Needed) Frozen(s *tree.State) {
	n := 0
	d.seen.Each(s, true, func(c *content.Content) {
		d.look(c)
		if n++; n%yieldEvery == 0 {
			runtime.Gosched()
		}
	})
}

// Lowest returns the lowest journal position referenced by frozen, by the present views
// and by orphans. Pages seen earlier are skipped.
func (d *Needed) Lowest(tx *Tx, frozen []*tree.State) int64 {
	d.low = min(d.low, tx.Unjournaled(), tx.orphaned())
	for _, s := range frozen {
		d.seen.Each(s, true, d.look)
	}
	for _, v := range tx.f.mu.views {
		d.seen.Each(v.state, false, d.look)
	}
	return d.low
}

func (d *Needed) look(c *content.Content) {
	c.Rebase()
	d.low = min(d.low, c.MinPos())
}
