package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// fileModel is a file as plain bytes, each with what kind of place it is at.
type fileModel struct {
	data []byte
	kind []byte // 0 hole, 1 unwritten, 2 data
}

func (m *fileModel) clone() *fileModel {
	return &fileModel{bytes.Clone(m.data), bytes.Clone(m.kind)}
}

func (m *fileModel) size() int64 { return int64(len(m.data)) }

func (m *fileModel) truncate(n int64) {
	for m.size() < n {
		k := n - m.size()
		m.data = append(m.data, make([]byte, k)...)
		m.kind = append(m.kind, make([]byte, k)...)
	}
	m.data, m.kind = m.data[:n], m.kind[:n]
}

func (m *fileModel) grow(n int64) { m.truncate(max(n, m.size())) }

func (m *fileModel) write(off int64, p []byte) {
	m.grow(off + int64(len(p)))
	copy(m.data[off:], p)
	m.fill(off, off+int64(len(p)), 2)
}

// The model uses the bytes package where it can: loops are slow with -race.

func (m *fileModel) fill(off, end int64, kind byte) {
	if off >= end {
		return
	}
	if kind < 2 {
		clear(m.data[off:end])
	}
	k := m.kind[off:end]
	k[0] = kind
	for n := 1; n < len(k); n *= 2 {
		copy(k[n:], k[:n])
	}
}

// run returns where the run of bytes of one kind that off is in ends.
func (m *fileModel) run(off int64) int64 {
	rest := m.kind[off:]
	return m.size() - int64(len(bytes.TrimLeft(rest, string(rest[:1]))))
}

func (m *fileModel) allocate(off, end int64) {
	for off < end {
		next := min(m.run(off), end)
		if m.kind[off] == 0 {
			m.fill(off, next, 1)
		}
		off = next
	}
}

func (m *fileModel) allocated() int64 { return m.size() - int64(bytes.Count(m.kind, []byte{0})) }

// version is a Content with what it should hold.
type version struct {
	c *Content
	m *fileModel
}

// world is some files, each with older versions that are kept.
type world struct {
	*contentBench
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
// what is there, or right beside them.
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
	v.c = v.c.Own(w.epoch)
	return v.c
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
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
	w.must(w.own(v).Write(w.src, off, n, w.log.add(p, int(w.between(0, 9)))))
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
			w.must(c.Write(w.src, off, tooth, w.log.add(p, 0)))
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

// SealAll does what a background sealer does.
func (w *world) SealAll(t *rapid.T) {
	for i := range w.frozen {
		w.seal(&w.frozen[i])
	}
	for _, v := range w.all() {
		v.c.Rebase(w.src)
	}
	w.DropJournal(t)
	for len(w.frozen) > 6 {
		w.Forget(t)
	}
}

func (w *world) seal(v *version) {
	base, err := w.z.sealContent(context.Background(), v.c)
	w.must(err)
	if base.Size != v.m.size() || base.Alloc != v.m.allocated() {
		w.t.Fatalf("sealed as %d bytes, %d allocated; want %d, %d", base.Size, base.Alloc, v.m.size(), v.m.allocated())
	}
	if fresh := w.fresh(v.m); !base.same(fresh) {
		w.t.Fatalf("sealed step by step as %+v, in one go as %+v", base, fresh)
	}
	if v.c.MinPos() != math.MaxInt64 {
		w.t.Fatal("a sealed content needs the journal")
	}
}

// fresh seals a file of the same content that is made from nothing.
func (w *world) fresh(m *fileModel) *Base {
	src := NewSource(w.store, &byteLog{b: m.data}, 0)
	c := NewContent(1)
	w.must(c.Truncate(src, m.size()))
	for off := int64(0); off < m.size(); {
		end := m.run(off)
		switch m.kind[off] {
		case 1:
			w.must(c.Allocate(src, off, end-off, true))
		case 2:
			w.must(c.Write(src, off, end-off, off))
		}
		off = end
	}
	z := &Sealer{Src: src, Objects: w.store}
	b, err := z.sealContent(context.Background(), c)
	w.must(err)
	return b
}

func (w *world) Rebase(t *rapid.T) {
	for _, v := range w.all() {
		if w.draw("rebase", 0, 3) > 0 {
			v.c.Rebase(w.src)
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
	d := wire.NewDecoder(e.Out())
	c, err := DecodeContent(d, w.epoch)
	w.must(err)
	w.must(d.Finish())
	if c.Allocated() != v.c.Allocated() || c.MinPos() != v.c.MinPos() {
		t.Fatalf("allocated %d, lowest %d; want %d, %d", c.Allocated(), c.MinPos(), v.c.Allocated(), v.c.MinPos())
	}
	v.c = c
}

// DropJournal makes garbage of what nobody needs by his own account.
func (w *world) DropJournal(t *rapid.T) {
	low := int64(math.MaxInt64)
	for _, v := range w.all() {
		low = min(low, v.c.MinPos())
	}
	w.log.dropBefore(low)
}

// Collect removes the objects that nobody needs by his own account.
func (w *world) Collect(t *rapid.T) {
	kept := make(map[cas.Hash]bool)
	for _, v := range w.all() {
		w.must(v.c.eachHash(w.src, func(h cas.Hash, _ bool) (bool, error) {
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

func (w *world) all() []version { return append(append([]version(nil), w.files...), w.frozen...) }

// verify compares a version with its model completely.
func (w *world) verify(v version) {
	if v.c.Size() != v.m.size() {
		w.t.Fatalf("size %d, want %d", v.c.Size(), v.m.size())
	}
	if got, want := v.c.Allocated(), v.m.allocated(); got != want {
		w.t.Fatalf("allocated %d, want %d", got, want)
	}
	got := make([]byte, v.m.size()+10)
	n, err := v.c.ReadAt(w.src, got, 0)
	w.must(err)
	if !bytes.Equal(got[:n], v.m.data) {
		w.t.Fatal("bytes differ")
	}
	if err := checkSeek(w.src, v); err != nil {
		w.t.Fatal(err)
	}
}

// checkSeek goes through a file from border to border.
func checkSeek(src *Source, v version) error {
	next := func(off int64, data bool) int64 {
		for off < v.m.size() && (v.m.kind[off] == 2) != data {
			off = v.m.run(off)
		}
		return off
	}
	for off := int64(0); off < v.m.size(); {
		d, err := v.c.SeekData(src, off)
		want := next(off, true)
		if errors.Is(err, ErrNoData) {
			d, err = v.m.size(), nil
		}
		if err != nil || d != want {
			return fmt.Errorf("data from %d on is at %d (%v), want %d", off, d, err, want)
		}
		if d == v.m.size() {
			break
		}
		h, err := v.c.SeekHole(src, d)
		if want = next(d, false); err != nil || h != want {
			return fmt.Errorf("hole from %d on is at %d (%v), want %d", d, h, err, want)
		}
		off = h
	}
	return nil
}

// Check reads a part of every version, and all of one of them.
func (w *world) Check(t *rapid.T) {
	all := w.all()
	for _, v := range all {
		if v.c.Size() != v.m.size() || v.c.Allocated() != v.m.allocated() {
			t.Fatalf("size %d, allocated %d; want %d, %d", v.c.Size(), v.c.Allocated(), v.m.size(), v.m.allocated())
		}
		off := w.rnd.Int64N(v.m.size() + 10)
		p := make([]byte, w.rnd.IntN(100<<10))
		n, err := v.c.ReadAt(w.src, p, off)
		w.must(err)
		want := v.m.data[min(off, v.m.size()):min(off+int64(len(p)), v.m.size())]
		if !bytes.Equal(p[:n], want) {
			t.Fatalf("bytes at %d differ", off)
		}
	}
	w.verify(all[w.draw("verify", 0, int64(len(all)-1))])
}

func (w *world) Compare(t *rapid.T) {
	all := w.all()
	a, b := all[w.draw("a", 0, int64(len(all)-1))], all[w.draw("b", 0, int64(len(all)-1))]
	same, err := a.c.Equal(w.src, b.c)
	w.must(err)
	if want := bytes.Equal(a.m.data, b.m.data); same != want {
		t.Fatalf("equal: %v, want %v", same, want)
	}
}

// TestContentModel makes random changes to files, keeps old versions, seals,
// rebases, drops the journal and collects, and compares with plain bytes.
func TestContentModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{contentBench: newContentBench(), t: t, epoch: 1}
		w.rnd = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 3 {
			w.files = append(w.files, version{NewContent(1), &fileModel{}})
		}
		// A rapid.Repeat is too short for what takes freezing, sealing, changing
		// and sealing again.
		actions := []func(*rapid.T){
			w.Write, w.Write, w.Write, w.Comb, w.Comb, w.Truncate, w.Punch, w.Allocate, w.Zero, w.Clone, w.Clone,
			w.Freeze, w.Freeze, w.Freeze, w.Seal, w.Seal, w.Seal, w.SealAll, w.Rebase, w.Rebase, w.Forget,
			w.Recode, w.DropJournal, w.Collect, w.Check, w.Compare,
		}
		for range 100 {
			actions[w.draw("action", 0, int64(len(actions)-1))](t)
		}
		for _, v := range w.all() {
			w.verify(v)
		}
	})
}
