package cas

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// A forest has trees of objects: each object refers to some that are older.
type forest struct {
	t       *testing.T
	s       *Store
	blobs   [][]byte
	below   [][]int
	roots   []int // those that are remembered
	present int   // one that is not
	visited int   // objects below which mark looked
}

// grow puts an object above some others, and returns its number.
func (f *forest) grow(r *rand.Rand) int {
	n := len(f.blobs)
	f.blobs = append(f.blobs, blob(uint64(n), 100+r.IntN(6000)))
	var below []int
	for range r.IntN(4) {
		if root := f.roots[r.IntN(len(f.roots))]; r.IntN(2) == 0 {
			below = append(below, root)
		} else {
			below = append(below, f.below[root]...)
		}
	}
	f.below = append(f.below, below)
	for i := range f.reach(n) { // as a seal does
		put(f.t, f.s, f.blobs[i])
	}
	return n
}

func (f *forest) reach(roots ...int) map[int]bool {
	all := map[int]bool{}
	for len(roots) > 0 {
		n := roots[0]
		if roots = roots[1:]; !all[n] {
			all[n] = true
			roots = append(roots, f.below[n]...)
		}
	}
	return all
}

func (f *forest) mark(k *Marker, n int) {
	if len(f.below[n]) == 0 {
		k.MarkLeaf(Sum(f.blobs[n]))
	} else if k.Mark(Sum(f.blobs[n])) {
		f.visited++
		for _, i := range f.below[n] {
			f.mark(k, i)
		}
	}
}

func (f *forest) collect() GCResult {
	f.t.Helper()
	r, err := f.s.BeginCollection(context.Background(), nil)
	must.OK(f.t, err)
	defer r.Close()
	f.visited = 0
	res, err := r.Collect(context.Background(), false, func(k *Marker) error {
		var keys []Hash
		for _, n := range f.roots {
			keys = append(keys, Sum(f.blobs[n]))
		}
		marked, err := k.Resume(keys)
		must.OK(f.t, err)
		for i, n := range f.roots {
			if !marked[keys[i]] {
				f.mark(k, n)
				k.Remember(keys[i : i+1])
			}
		}
		f.mark(k, f.present)
		return nil
	}, nil)
	must.OK(f.t, err)
	return res
}

// check compares the store with what the roots need.
func (f *forest) check(what string) {
	f.t.Helper()
	needed := f.reach(append(slices.Clone(f.roots), f.present)...)
	for n := range f.blobs {
		here, err := f.s.Has(Sum(f.blobs[n]))
		must.OK(f.t, err)
		if here != needed[n] {
			f.t.Fatalf("%s: object %d of %d: needed %v, here %v", what, n, len(f.blobs), needed[n], here)
		}
		if here {
			wantObject(f.t, f.s, f.blobs[n])
		}
	}
	verifyClean(f.t, f.s)
}

// TestGenerations: collections that remember what earlier ones marked leave what is needed and
// nothing else, whatever happens between them.
func TestGenerations(t *testing.T) {
	for seed := range sample(uint64(4), 40) {
		r := rand.New(rand.NewPCG(seed, 65))
		dir, fsys := t.TempDir(), vfstest.NewMem()
		o := memOptions(t, fsys)
		f := &forest{t: t, s: openTest(t, dir, o), roots: []int{0}, below: [][]int{nil}, blobs: [][]byte{blob(0, 100)}}
		put(t, f.s, f.blobs[0])
		for range 12 {
			for range r.IntN(30) {
				f.roots = append(f.roots, f.grow(r))
			}
			for r.IntN(2) == 0 && len(f.roots) > 1 {
				i := 1 + r.IntN(len(f.roots)-1)
				f.roots = slices.Delete(f.roots, i, i+1)
			}
			f.present = f.grow(r)
			switch r.IntN(4) {
			case 0: // an object is found damaged, and put again
				n := f.roots[r.IntN(len(f.roots))]
				l, _, err := f.s.index.find(Sum(f.blobs[n]))
				must.OK(t, err)
				f.s.index.mu.Lock()
				f.s.index.markDamaged(Sum(f.blobs[n]), l)
				f.s.index.mu.Unlock()
				put(t, f.s, f.blobs[n])
			case 1:
				closeTest(t, f.s)
				f.s = openTest(t, dir, o)
			}
			if r.IntN(2) == 0 { // a kill
				fsys = fsys.CrashClone(1, r)
				o = Options{FS: fsys, PackSize: o.PackSize, indexDir: copyDir(t, o.indexDir)}
				if r.IntN(4) == 0 {
					o = memOptions(t, fsys)
				}
				f.s = openTest(t, dir, o)
			}
			f.collect()
			f.check("a collection")
		}
	}
}

// TestNothingNewToMark: a collection looks at new roots only, also in another process, and
// at the old ones that are younger than one that is gone.
func TestNothingNewToMark(t *testing.T) {
	dir, o := t.TempDir(), memOptions(t, vfstest.NewMem())
	r := rand.New(rand.NewPCG(1, 65))
	f := &forest{t: t, s: openTest(t, dir, o), roots: []int{0}, below: [][]int{nil}, blobs: [][]byte{blob(0, 100)}}
	put(t, f.s, f.blobs[0])
	for range 200 {
		f.roots = append(f.roots, f.grow(r))
	}
	f.collect()
	all := f.visited
	if f.collect(); f.visited > 0 || all < 50 {
		t.Errorf("%d objects are looked at again, of %d", f.visited, all)
	}
	closeTest(t, f.s)
	f.s = openTest(t, dir, o)
	if f.collect(); f.visited > 0 {
		t.Errorf("%d objects are looked at again after opening", f.visited)
	}
	f.roots = append(f.roots, f.grow(r))
	if f.collect(); f.visited > 1 {
		t.Errorf("%d objects are looked at for one new", f.visited)
	}
	f.roots = slices.Delete(f.roots, 190, 191)
	if f.collect(); f.visited > all/2 {
		t.Errorf("%d of %d objects are looked at after a young root is gone", f.visited, all)
	}
	f.check("in the end")
}
