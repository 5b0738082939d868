package content

import (
	"context"
	"errors"
	"math"

	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/tests/must"
)

// version is a Content with what it should hold.
type version struct {
	c *Content
	m *fileModel
}

// world is some files, each with older versions that are kept.
type world struct {
	*bench
	t      *rapid.T
	epoch  uint64
	files  []version
	frozen []version
}

const worldMax = 300 << 10

func (w *world) draw(name string, lo, hi int64) int64 {
	return rapid.Int64Range(lo, hi).Draw(w.t, name)
}

func (w *world) pick() *version { return &w.files[w.draw("file", 0, int64(len(w.files)-1))] }

// between returns a number of [lo, hi]. Unlike draw it does not prefer small ones.
func (w *world) between(lo, hi int64) int64 { return lo + w.rnd.Int64N(hi-lo+1) }

// part returns a part of a file, often on the borders of pages, or on those of
// what exists, or right beside them.
func (w *world) part(m *fileModel, limit int64) (off, n int64) {
	if m.size() > 0 && w.between(0, 2) == 0 {
		edge := func() int64 {
			return max(0, m.run(w.between(0, m.size()-1))+w.between(-1, 1))
		}
		a, b := edge(), edge()
		if a, b = min(a, b, worldMax-1), max(a, b); a < b {
			return a, min(b, worldMax) - a
		}
	}
	step := []int64{1, 4096, 16 << 10}[w.between(0, 2)]
	off = w.between(0, limit/step) * step
	n = w.between(1, []int64{100, 4096, 64 << 10, worldMax / 2}[w.between(0, 3)])
	return off, max(1, min(n, worldMax-off))
}

func (w *world) own(v *version) *Content {
	v.c = v.c.VersionFor(w.epoch)
	return v.c
}

func (w *world) must(err error) {
	must.OK(w.t, err)
}

func (w *world) Write(t *rapid.T) {
	v := w.pick()
	off, n := w.part(v.m, min(v.m.size()+5000, worldMax))
	if rapid.Bool().Draw(t, "append") {
		off = v.m.size()
		n = min(n, worldMax-off)
	}
	if n <= 0 {
		return
	}
	p := w.noise(n)
	w.must(w.own(v).Write(w.src, off, n, w.log.add(p, int(w.between(0, 9))), 0))
	v.m.write(off, p)
}

// Comb makes a file of many short runs: it takes lists to name them all.
func (w *world) Comb(t *rapid.T) {
	v := w.pick()
	off, n := w.part(v.m, min(v.m.size()+5000, worldMax))
	tooth := w.between(1, 50)
	gap := w.between(20, 300)
	c := w.own(v)
	for end := off + n; off+tooth <= end; off += tooth + gap {
		switch w.between(0, 9) {
		case 0:
			w.must(c.Punch(w.src, off, tooth))
			v.m.fill(min(off, v.m.size()), min(off+tooth, v.m.size()), 0)
		case 1:
			w.must(c.Zero(w.src, off, tooth, false))
			v.m.grow(off + tooth)
			v.m.fill(off, off+tooth, 1)
		default:
			p := w.noise(tooth)
			w.must(c.Write(w.src, off, tooth, w.log.add(p, 0), 0))
			v.m.write(off, p)
		}
	}
}

func (w *world) Truncate(t *rapid.T) {
	v := w.pick()
	n := w.between(0, worldMax)
	if n >= v.m.size() && rapid.Bool().Draw(t, "down") {
		n = w.between(0, v.m.size())
	}
	w.must(w.own(v).Truncate(w.src, n))
	v.m.truncate(n)
}

func (w *world) Punch(t *rapid.T) {
	v := w.pick()
	off, n := w.part(v.m, v.m.size())
	w.must(w.own(v).Punch(w.src, off, n))
	v.m.fill(min(off, v.m.size()), min(off+n, v.m.size()), 0)
}

func (w *world) Allocate(t *rapid.T) {
	v := w.pick()
	off, n := w.part(v.m, v.m.size())
	keep := rapid.Bool().Draw(t, "keep")
	w.must(w.own(v).Allocate(w.src, off, n, keep))
	if !keep {
		v.m.grow(off + n)
	}
	v.m.allocate(off, min(off+n, v.m.size()))
}

func (w *world) Zero(t *rapid.T) {
	v := w.pick()
	off, n := w.part(v.m, v.m.size())
	keep := rapid.Bool().Draw(t, "keep")
	w.must(w.own(v).Zero(w.src, off, n, keep))
	if !keep {
		v.m.grow(off + n)
	}
	v.m.fill(off, min(off+n, v.m.size()), 1)
}

func (w *world) Clone(t *rapid.T) {
	from, to := w.pick(), w.pick()
	var off, n, at int64
	switch w.draw("how", 0, 2) {
	case 0:
		n = from.m.size() // cp
		if from != to {
			w.must(w.own(to).Truncate(w.src, 0))
			to.m.truncate(0)
		}
	case 1:
		off, n = w.part(from.m, from.m.size())
		at = w.between(0, to.m.size())
	default:
		off, n = w.part(from.m, from.m.size())
		at = off
	}
	src := from.c
	if from == to {
		src = w.own(to)
	}
	n = max(0, min(n, from.m.size()-off, worldMax-at))
	piece := (&fileModel{from.m.data, from.m.kind}).clone()
	w.must(w.own(to).CloneRange(w.src, at, src, off, n))
	if n > 0 {
		to.m.grow(at + n)
		copy(to.m.data[at:], piece.data[off:off+n])
		copy(to.m.kind[at:], piece.kind[off:off+n])
	}
}

// Freeze is a snapshot of all files.
func (w *world) Freeze(t *rapid.T) {
	w.epoch++
	for i := range w.files {
		w.frozen = append(w.frozen, version{w.files[i].c, w.files[i].m.clone()})
	}
}

func (w *world) frozenOne() *version {
	if len(w.frozen) == 0 {
		w.Freeze(w.t)
	}
	return &w.frozen[w.draw("version", 0, int64(len(w.frozen)-1))]
}

func (w *world) Seal(t *rapid.T) { w.seal(w.frozenOne()) }

// SealTurn seals a part of a file. What it was can be sealed by others meanwhile, changed,
// collected and forgotten.
func (w *world) SealTurn(t *rapid.T) {
	v := w.frozenOne()
	left := w.draw("work", 1, worldMax)
	z := *w.z
	z.Spend = func(n int64) bool {
		left -= n
		return left < 0
	}
	if _, err := z.Seal(context.Background(), v.c); !errors.Is(err, ErrTurnOver) {
		w.must(err)
	}
}

// Spill takes a file that is not sealed out of the journal.
func (w *world) Spill(t *rapid.T) {
	v := w.frozenOne()
	w.must(w.z.Spill(context.Background(), v.c))
	if v.c.MinJournalPos() != math.MaxInt64 {
		t.Fatal("it needs the journal")
	}
	var e wire.Encoder
	v.c.Encode(&e)
	c, err := Decode(wire.NewDecoder(e.Bytes()), w.epoch)
	w.must(err)
	w.verify(version{c, v.m})
}

// SealAll does what a background sealer does.
func (w *world) SealAll(t *rapid.T) {
	for i := range w.frozen {
		w.seal(&w.frozen[i])
	}
	for _, v := range w.all() {
		v.c.Rebase()
	}
	w.DropJournal(t)
	for len(w.frozen) > 6 {
		w.Forget(t)
	}
}

func (w *world) seal(v *version) {
	base, err := w.z.Seal(context.Background(), v.c)
	w.must(err)
	if base.n != v.m.size() || base.n-base.holeBytes != v.m.allocated() {
		w.t.Fatalf("sealed as %d bytes, %d allocated; want %d, %d", base.n, base.n-base.holeBytes, v.m.size(), v.m.allocated())
	}
	if fresh := w.fresh(v.m); !base.equal(fresh) {
		w.t.Fatalf("sealed step by step as %+v, in one go as %+v", base, fresh)
	}
	if v.c.MinJournalPos() != math.MaxInt64 {
		w.t.Fatal("a sealed content needs the journal")
	}
}

// fresh seals a file of the same content that is made from nothing.
func (w *world) fresh(m *fileModel) *ChunkMap {
	src := NewSource(w.store, &byteLog{b: m.data}, 0)
	c := New(1)
	w.must(c.Truncate(src, m.size()))
	for off := int64(0); off < m.size(); {
		end := m.run(off)
		switch m.kind[off] {
		case 1:
			w.must(c.Allocate(src, off, end-off, true))
		case 2:
			w.must(c.Write(src, off, end-off, off, 0))
		}
		off = end
	}
	z := &Sealer{Src: src, Objects: w.store}
	b, err := z.Seal(context.Background(), c)
	w.must(err)
	return b
}

func (w *world) Rebase(t *rapid.T) {
	for _, v := range w.all() {
		if w.draw("rebase", 0, 3) > 0 {
			v.c.Rebase()
		}
	}
}

func (w *world) Forget(t *rapid.T) {
	w.frozenOne()
	i := w.draw("forget", 0, int64(len(w.frozen)-1))
	w.frozen = append(w.frozen[:i], w.frozen[i+1:]...)
}

// Recode sends a file through a journal record.
func (w *world) Recode(t *rapid.T) {
	v := w.pick()
	var e wire.Encoder
	w.own(v).Encode(&e)
	d := wire.NewDecoder(e.Bytes())
	c, err := Decode(d, w.epoch)
	w.must(err)
	w.must(d.Finish())
	if c.Allocated() != v.c.Allocated() || c.MinJournalPos() != v.c.MinJournalPos() {
		t.Fatalf("allocated %d, lowest %d; want %d, %d", c.Allocated(), c.MinJournalPos(), v.c.Allocated(), v.c.MinJournalPos())
	}
	v.c = c
}

// DropJournal makes garbage of what is not needed by the test's own account.
func (w *world) DropJournal(t *rapid.T) {
	low := int64(math.MaxInt64)
	for _, v := range w.all() {
		low = min(low, v.c.MinJournalPos())
	}
	w.log.dropBefore(low)
}

// Collect removes the objects that are not needed by the test's own account.
func (w *world) Collect(t *rapid.T) {
	kept := make(map[cas.Hash]bool)
	for _, v := range w.all() {
		w.must(v.c.EachObject(w.src, func(h cas.Hash, _ bool) (bool, error) {
			first := !kept[h]
			kept[h] = true
			return first, nil
		}))
	}
	for h := range w.store.objects {
		if !kept[h] {
			delete(w.store.objects, h)
		}
	}
	w.src = NewSource(w.store, w.log, 8<<20)
	w.z.Src = w.src
}
