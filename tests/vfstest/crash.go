package vfstest

import (
	"math/rand/v2"
	"sort"
)

// CrashClone returns the disk as a power cut at this instant would leave it:
// everything synced, and of each change that was not, some with probability
// keep (0 none, 1 all), independently of each other and of their order. A write
// may survive in part, by sectors of 512 bytes. The original goes on unchanged.
// The same rnd state gives the same result.
func (m *Mem) CrashClone(keep float64, rnd *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Mem{dirs: map[string]*memDir{}, capacity: m.capacity}
	for p, d := range m.dirs {
		nd := newMemDir()
		for name, n := range d.durable {
			nd.durable[name] = n
		}
		c.dirs[p] = nd
	}
	for _, op := range m.pending {
		if rnd.Float64() < keep {
			applyNames(c.dirs, op)
		}
	}
	// In a fixed order, so that a failure can be repeated from its seed.
	nodes := map[*memNode]*memNode{}
	paths := make([]string, 0, len(c.dirs))
	for p := range c.dirs {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		d := c.dirs[p]
		names := make([]string, 0, len(d.durable))
		for name := range d.durable {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			old := d.durable[name]
			if nodes[old] == nil {
				nodes[old] = old.crash(c, keep, rnd)
			}
			d.durable[name] = nodes[old]
			d.names[name] = nodes[old]
		}
	}
	return c
}

// LoseUnsynced makes what was not synced look as if it were: it can be read, but
// no later Sync writes it. Linux does that to the pages of a failed fsync.
func (m *Mem) LoseUnsynced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.dirs {
		for _, n := range d.names {
			n.ops = nil
		}
	}
}

func (n *memNode) crash(on *Mem, keep float64, rnd *rand.Rand) *memNode {
	b := append([]byte(nil), n.durable...)
	for _, o := range n.ops {
		if rnd.Float64() < keep {
			b = o.apply(b)
			continue
		}
		if o.bytes == nil || keep == 0 {
			continue
		}
		// The size may have reached the disk, and any of the sectors.
		switch rnd.IntN(3) {
		case 0:
			if end := o.off + int64(len(o.bytes)); end > int64(len(b)) {
				b = resized(b, end)
			}
		case 1:
			b = o.applySectors(b, keep, rnd)
		}
	}
	c := &memNode{fs: on, data: b, durable: append([]byte(nil), b...), blocks: map[int64]struct{}{}}
	for i := range n.blocks {
		if i*memBlock < int64(len(b)) {
			c.blocks[i] = struct{}{}
		}
	}
	on.used += c.allocated()
	return c
}

func (o dataOp) applySectors(b []byte, keep float64, rnd *rand.Rand) []byte {
	end := o.off + int64(len(o.bytes))
	for at := o.off; at < end; {
		next := min((at/memSector+1)*memSector, end)
		if rnd.Float64() < keep {
			b = dataOp{off: at, bytes: o.bytes[at-o.off : next-o.off]}.apply(b)
		}
		at = next
	}
	return b
}
