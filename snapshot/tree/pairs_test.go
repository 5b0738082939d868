package tree

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
)

// TestBeyond: the inodes that only one of two tables has are found, whatever their heights
// and whatever of them is sealed.
func TestBeyond(t *testing.T) {
	f := newTestFS()
	src, z := f.src, &content.Sealer{Src: f.src.Files, Objects: f.store, Workers: 1}
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 200 {
		a, b := &State{}, &State{}
		inA, inB := map[uint64]bool{}, map[uint64]bool{}
		numbers := func() uint64 { return 2 + r.Uint64N(1<<(2+r.Uint64N(30))) }
		put := func(s *State, in map[uint64]bool, epoch, ino uint64) {
			in[ino] = true
			if err := s.Put(src, epoch, &Inode{Ino: ino, Mode: unix.S_IFREG}); err != nil {
				t.Fatal(err)
			}
		}
		for range r.IntN(20) {
			put(a, inA, 1, numbers())
		}
		if r.IntN(2) == 0 {
			b, inB = a.Clone(), maps.Clone(inA)
		}
		if round%3 == 0 && a.Inodes > 0 {
			if _, err := Seal(t.Context(), src, z, a); err != nil {
				t.Fatal(err)
			}
		}
		for range r.IntN(5) {
			put(a, inA, 2, numbers())
			put(b, inB, 3, numbers())
		}
		for ino := range inB {
			if r.IntN(3) == 0 {
				if err := b.Delete(src, 3, ino); err != nil {
					t.Fatal(err)
				}
				delete(inB, ino)
			}
		}
		for ino := range inB {
			delete(inA, ino)
		}
		var got []uint64
		if err := a.EachNotIn(src, b, func(n *Inode) { got = append(got, n.Ino) }); err != nil {
			t.Fatal(err)
		}
		if want := slices.Sorted(maps.Keys(inA)); !slices.Equal(got, want) {
			t.Fatalf("round %d: %v, want %v", round, got, want)
		}
	}
}
