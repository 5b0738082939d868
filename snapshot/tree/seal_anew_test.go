package tree

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
)

// anew makes a state from nothing that has what s has.
func (f *testFS) anew(t *testing.T, s *State) *State {
	t.Helper()
	const epoch = 1
	copied := func(n *Inode) *Inode {
		c := *n
		c.Dir, c.Content, c.Links, c.epoch = Dir{}, nil, slices.Clone(n.Links), 0
		for _, e := range must(n.Dir.sorted(f.src)) {
			check(c.Dir.Insert(f.src, epoch, e))
		}
		if data := readAll(t, f.src, n); n.Content != nil {
			c.Content = content.New(epoch)
			if data != "" {
				check(c.Content.Write(f.src.Files, 0, int64(len(data)), f.log.add(data), 0))
			}
		}
		return &c
	}
	out := New(epoch, copied(must(s.Get(f.src, RootIno))))
	seen := map[uint64]bool{RootIno: true}
	check(s.Walk(context.Background(), f.src, WalkOptions{}, func(_ *Path, n *Inode) error {
		if !seen[n.Ino] {
			seen[n.Ino] = true
			check(out.Put(f.src, epoch, copied(n)))
		}
		return nil
	}))
	out.Bytes, out.Depth = s.Bytes, s.Depth
	return out
}

// TestSealStepByStep: a tree that was sealed after each few of very many random changes has
// the id of the same tree that is sealed in one go.
func TestSealStepByStep(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 40))
		f := newTestFS()
		dirs := []uint64{RootIno}
		type name struct {
			dir uint64
			is  string
		}
		var names []name
		free := func(dir uint64) (string, bool) {
			is := fmt.Sprint("n", r.IntN(300), strings.Repeat("x", r.IntN(40)))
			_, taken := f.lookup(dir, is)
			return is, !taken
		}
		for round := range 12 {
			for range 120 {
				dir := dirs[r.IntN(len(dirs))]
				is, ok := free(dir)
				switch k := r.IntN(10); {
				case !ok:
				case k == 0 && len(dirs) < 12:
					dirs = append(dirs, f.create(dir, is, unix.S_IFDIR|0o755))
				case k < 5 || len(names) == 0:
					f.create(dir, is, unix.S_IFREG|0o644)
					names = append(names, name{dir, is})
				case k < 7:
					i := r.IntN(len(names))
					e, _ := f.lookup(names[i].dir, names[i].is)
					size := must(f.s.Get(f.src, e.Ino)).Size()
					f.write(e.Ino, r.Int64N(size+1), strings.Repeat(fmt.Sprint(r.IntN(100)), r.IntN(3000)+1))
				case k == 7:
					i := r.IntN(len(names))
					e, _ := f.lookup(names[i].dir, names[i].is)
					f.link(e.Ino, dir, is)
					names = append(names, name{dir, is})
				case k == 8:
					i := r.IntN(len(names))
					f.rename(names[i].dir, names[i].is, dir, is)
					names[i] = name{dir, is}
				default:
					i := r.IntN(len(names))
					f.unlink(names[i].dir, names[i].is)
					names = slices.Delete(names, i, i+1)
				}
				if r.IntN(20) == 0 {
					f.freeze()
				}
			}
			s := f.freeze()
			stepwise := f.seal(t, s)
			if whole := f.seal(t, f.anew(t, f.load(t, f.source(), stepwise))); whole != stepwise {
				t.Fatalf("seed %d, round %d: sealed step by step as %v, in one go as %v", seed, round, stepwise, whole)
			}
		}
	}
}

// TestEpochsOfTwoOwners: a state that is loaded from the pages of another owner, whose epoch had
// the same number, changes alone.
func TestEpochsOfTwoOwners(t *testing.T) {
	f := newTestFS()
	for i := range 500 {
		f.create(RootIno, fmt.Sprint("f", i), unix.S_IFREG|0o644)
	}
	epoch := f.epoch
	id := f.seal(t, f.freeze())
	listed := func(s *State) (n int) {
		t.Helper()
		check(s.Walk(context.Background(), f.src, WalkOptions{}, func(*Path, *Inode) error { n++; return nil }))
		return n
	}
	s := f.load(t, f.src, id)
	want := listed(s)
	root := must(s.Own(f.src, epoch, RootIno))
	for i := range 500 {
		e, _, err := root.Dir.Lookup(f.src, fmt.Sprint("f", i))
		check(err)
		check(root.Dir.Remove(f.src, epoch, e.Name))
		check(s.Delete(f.src, epoch, e.Ino))
	}
	if got := listed(f.load(t, f.src, id)); got != want || listed(s) != 1 {
		t.Errorf("the sealed state has %d files, had %d; without all there are %d", got, want, listed(s))
	}
	f.load(t, f.src, f.seal(t, s))
}
