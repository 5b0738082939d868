package engine

import (
	"runtime"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A journalScan finds the lowest journal position that unsealed contents reference. When it visits a
// content, it first replaces references to the journal by references to sealed chunks where possible.
//
// There may be a million contents. So the caller first visits frozen states and unsealed snapshots
// without the lock of the forest. With the lock it visits only contents that changed in that time.
type journalScan struct {
	seen      tree.UnsealedContents
	lowestPos int64
}

// filesPerYield is the number of files after which the scan lets other goroutines run.
const filesPerYield = 256

// visitFrozen visits a frozen state. It needs no lock.
func (d *journalScan) visitFrozen(s *tree.State) {
	n := 0
	d.seen.Each(s, true, func(c *content.Content) {
		d.visit(c)
		if n++; n%filesPerYield == 0 {
			runtime.Gosched()
		}
	})
}

// lowest returns the lowest journal position that the states in frozen, the present views and the
// orphans reference. It skips pages that were visited before. The caller holds the lock of the forest.
func (d *journalScan) lowest(tx *live.Tx, frozen []*tree.State) int64 {
	d.lowestPos = min(d.lowestPos, tx.LowestUnreferencedPos())
	for _, s := range frozen {
		d.seen.Each(s, true, d.visit)
	}
	tx.EachContent(&d.seen, d.visit)
	return d.lowestPos
}

func (d *journalScan) visit(c *content.Content) {
	c.Rebase()
	d.lowestPos = min(d.lowestPos, c.MinJournalPos())
}
