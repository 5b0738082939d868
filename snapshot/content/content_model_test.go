package content

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/tests/must"
)

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
	for _, unit := range []int64{1, SeekBlockSize} {
		must.OK(w.t, checkSeek(w.src, v, unit))
	}
}

// checkSeek goes through a file from border to border, of data in blocks of unit bytes.
func checkSeek(src *Source, v version, unit int64) error {
	size := v.m.size()
	isData := make([]bool, size) // whether a byte is in a block with data
	for i, kind := range v.m.kind[:size] {
		if block := int64(i) - int64(i)%unit; kind == 2 && !isData[i] {
			for k := block; k < min(block+unit, size); k++ {
				isData[k] = true
			}
		}
	}
	next := func(off int64, data bool) int64 {
		for off < size && isData[off] != data {
			off++
		}
		return off
	}
	for off := int64(0); off < size; {
		d, err := v.c.SeekData(src, off, unit)
		want := next(off, true)
		if errors.Is(err, ErrNoData) {
			d, err = size, nil
		}
		if err != nil || d != want {
			return fmt.Errorf("data from %d on is at %d (%v), want %d", off, d, err, want)
		}
		if d == size {
			break
		}
		h, err := v.c.SeekHole(src, d, unit)
		if want = next(d, false); err != nil || h != want {
			return fmt.Errorf("hole from %d on is at %d (%v), want %d", d, h, err, want)
		}
		// Every other time from within the hole, or from within the next data.
		off = h
		if h+1 < size && h%2 == 0 {
			off++
			if g, err := v.c.SeekHole(src, off, unit); err != nil || g != next(off, false) {
				return fmt.Errorf("hole from %d on is at %d (%v), want %d", off, g, err, next(off, false))
			}
		}
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
		w := &world{bench: newBench(), t: t, epoch: 1}
		w.rnd = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 3 {
			w.files = append(w.files, version{New(1), &fileModel{}})
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
