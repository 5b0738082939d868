package cas

import "github.com/amberfs/amberfs/internal/vfs"

// A swept record is what gc knows of one during the sweep of its pack.
type swept struct {
	hash   Hash
	off    int64
	length int64
	dead   bool // goes now
	free   bool // went earlier
}

// A sweepPlan is the content of a pack, sorted into what stays and what goes.
type sweepPlan struct {
	p       *pack
	f       vfs.File
	limit   int64
	records []swept
	live    int64 // bytes of records that stay
	moved   int64 // bytes that they take elsewhere
	dead    int64 // number of records that go
	waste   int64 // bytes between the living that no hole can give back
	damaged bool  // holds bytes that no one understands: they stay as they are
}

// A run is a range of dead and free records, at least one of them dead, and the
// whole blocks within, which a hole can give back.
type run struct {
	from, to         int64
	holeFrom, holeTo int64
}

// runs joins the dead and free records, and adds up what is lost between holes.
func (w *sweepPlan) runs() (list []run) {
	w.waste = 0
	for i := 0; i < len(w.records); {
		r, fresh := run{from: w.records[i].off, to: w.records[i].off}, false
		for ; i < len(w.records) && (w.records[i].dead || w.records[i].free) && w.records[i].off == r.to; i++ {
			fresh = fresh || w.records[i].dead
			r.to += w.records[i].length
		}
		if r.from == r.to {
			i++
			continue
		}
		r.holeFrom = (r.from + headerSize + punchBlock - 1) / punchBlock * punchBlock
		r.holeTo = max(r.to/punchBlock*punchBlock, r.holeFrom)
		w.waste += r.to - r.from - (r.holeTo - r.holeFrom)
		if fresh {
			list = append(list, r)
		}
	}
	return list
}

// worthMoving reports whether the living should move to another pack: there are
// few of them, or what lies between is in pieces too small for holes.
func (w *sweepPlan) worthMoving(packSize int64) bool {
	return w.live <= w.limit/4 || w.waste >= packSize/128 && w.waste >= w.live/12
}
