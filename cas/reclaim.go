package cas

import (
	"cmp"
	"fmt"
	"slices"
)

// Stays is the owner of objects that nobody is to delete.
const Stays = -1

// A held is an object in a pack, and whose it is.
type held struct {
	off, length int64
	owner       int32
}

func (h held) end() int64 { return h.off + h.length }

// Placed is where objects lie that have owners.
type Placed struct {
	packs []placedPack
	size  int64 // of packs
}

type placedPack struct {
	records []held // by offset
	end     int64
}

// Placed finds the objects that have an owner. What the store has besides is taken for
// garbage already. It reads the whole index.
func (s *Store) Placed(owner func(Hash) (int32, bool)) (*Placed, error) {
	if err := s.begin(false); err != nil {
		return nil, err
	}
	defer s.life.done()
	packs := make(map[uint64][]held)
	add := func(h Hash, l loc) {
		if o, ok := owner(h); ok {
			packs[l.pack] = append(packs[l.pack], held{l.off, l.size(), o})
		}
	}
	fresh := s.index.unwritten()
	for h, l := range fresh {
		add(h, l)
	}
	if err := s.index.db.objects(func(h Hash, l loc) {
		if _, ok := fresh[h]; !ok {
			add(h, l)
		}
	}); err != nil {
		return nil, fmt.Errorf("find objects: %w", err)
	}
	placed := &Placed{size: s.o.PackSize}
	for id, records := range packs {
		p := s.packs.get(id)
		if p == nil {
			continue // collected meanwhile
		}
		s.index.mu.Lock()
		end := p.end
		s.index.mu.Unlock()
		slices.SortFunc(records, func(a, b held) int { return cmp.Compare(a.off, b.off) })
		placed.packs = append(placed.packs, placedPack{records, max(end, records[len(records)-1].end())})
	}
	return placed, nil
}

// Reclaimable returns, for each of n owners, the bytes of disk that a collection would
// give back if the objects of this owner were not wanted any more, and all others were.
// Of tells whose an object counts as that has an owner.
//
// It follows the rules of a collection: the dead between two living records give back
// the whole blocks of a hole, and a pack that is not worth it any more goes, after its
// living records have moved.
func (p *Placed) Reclaimable(n int, of func(owner int32) int32) []int64 {
	sums := make([]int64, n)
	for _, pack := range p.packs {
		records := slices.Clone(pack.records)
		for i := range records {
			records[i].owner = of(records[i].owner)
		}
		reclaim(records, pack.end, p.size, sums)
	}
	return sums
}

// reclaim adds to sums what a pack of end bytes would give back for each owner.
func reclaim(records []held, end, packSize int64, sums []int64) {
	all := sweepPlan{limit: end}
	holes := int64(0) // given back already
	last := int64(packHeaderSize)
	for i := 0; i <= len(records); i++ {
		next := end
		if i < len(records) {
			next = records[i].off
			all.live += records[i].length
		}
		hole := holeIn(last, next)
		holes += hole
		all.waste += next - last - hole
		if i < len(records) {
			last = records[i].end()
		}
	}
	plans := make(map[int32]*sweepPlan)
	freed := make(map[int32]int64)
	last = packHeaderSize
	for i := 0; i < len(records); {
		// A run of one owner, with the gaps in it and around it, becomes one gap.
		owner, from, before := records[i].owner, last, holeIn(last, records[i].off)
		waste, dead := records[i].off-last-before, int64(0)
		for ; i < len(records) && records[i].owner == owner; i++ {
			dead += records[i].length
			last = records[i].end()
			next := end
			if i+1 < len(records) {
				next = records[i+1].off
			}
			hole := holeIn(last, next)
			before += hole
			waste += next - last - hole
		}
		if owner == Stays {
			continue
		}
		to := end
		if i < len(records) {
			to = records[i].off
		}
		w := plans[owner]
		if w == nil {
			w = &sweepPlan{limit: all.limit, live: all.live, waste: all.waste}
			plans[owner] = w
		}
		hole := holeIn(from, to)
		freed[owner] += hole - before
		w.live -= dead
		w.waste += to - from - hole - waste
	}
	for owner, w := range plans {
		if w.live == 0 || w.worthMoving(packSize) {
			sums[owner] += end - holes - w.live
		} else {
			sums[owner] += freed[owner]
		}
	}
}

// holeIn is how many bytes of whole blocks a hole gives back between two living
// records: a free record's header stays before it.
func holeIn(from, to int64) int64 {
	if to <= from {
		return 0
	}
	begin := (from + headerSize + punchBlock - 1) / punchBlock * punchBlock
	return max(to/punchBlock*punchBlock-begin, 0)
}
