package engine

import (
	"runtime"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// needed finds out from which position on the journal is still referred to. On
// the way it lets the contents that were changed since they were last sealed
// refer to the sealed chunks.
//
// There may be a million of them, so nearly all are looked at without the lock:
// first the present states, frozen for the purpose, and those of snapshots that
// are not sealed; then, with the lock, what came about meanwhile.
type needed struct {
	seen tree.Unsealed
	low  int64
}

// yieldEvery is after how many files the search lets other goroutines run.
const yieldEvery = 256

// frozen looks at a frozen state. It needs no lock.
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
