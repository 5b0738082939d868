package engine

import (
	"runtime"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// needed finds the lowest position of the journal that unsealed contents refer to. Before, it has
// contents refer to sealed chunks where they can.
//
// There may be a million of them, so nearly all are visited without the lock: the frozen present
// states, and the states of unsealed snapshots. What changed meanwhile is visited with the lock.
type needed struct {
	seen tree.Unsealed
	low  int64
}

// yieldEvery is after how many files the search lets other goroutines run.
const yieldEvery = 256

// frozen visits a frozen state. It needs no lock.
func (d *needed) frozen(s *tree.State) {
	n := 0
	d.seen.Each(s, true, func(c *content.Content) {
		d.look(c)
		if n++; n%yieldEvery == 0 {
			runtime.Gosched()
		}
	})
}

// lowest returns the lowest journal position referenced by frozen, by the present views
// and by orphans. Pages seen earlier are skipped.
func (d *needed) lowest(tx *live.Tx, frozen []*tree.State) int64 {
	d.low = min(d.low, tx.Unjournaled())
	for _, s := range frozen {
		d.seen.Each(s, true, d.look)
	}
	tx.EachContent(&d.seen, d.look)
	return d.low
}

func (d *needed) look(c *content.Content) {
	c.Rebase()
	d.low = min(d.low, c.MinPos())
}
