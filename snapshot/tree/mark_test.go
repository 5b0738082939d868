package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
)

func markAll(t testing.TB, src *Source, marked map[cas.Hash]bool, states ...*State) {
	t.Helper()
	for _, s := range states {
		if err := s.Mark(context.Background(), src, nil, false, func(h cas.Hash) bool {
			first := !marked[h]
			marked[h] = true
			return first
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A state whose pages were prepared for a change, or were about to lose an inode, no
// longer stands for what is stored under its id.
func TestMarkOfAPreparedState(t *testing.T) {
	f := newTestFS()
	f.create(RootIno, "file", unix.S_IFREG|0o644)
	id := f.seal(t, f.freeze())
	src := f.source()
	prepared := f.load(t, src, id)
	if err := prepared.OwnSlot(src, f.epoch+1, RootIno); err != nil {
		t.Fatal(err)
	}
	alone, both := map[cas.Hash]bool{}, map[cas.Hash]bool{}
	markAll(t, src, alone, f.load(t, src, id))
	markAll(t, src, both, prepared, f.load(t, src, id))
	for h := range alone {
		if !both[h] {
			t.Errorf("object %s is not marked behind the prepared state", h)
		}
	}
}

// TestMarkAfterAnother: marking states with one that was marked before finds what marking each
// alone finds, whichever that one is, and asks for fewer objects.
func TestMarkAfterAnother(t *testing.T) {
	asked := [2]int{}
	for seed := range uint64(20) {
		f := newTestFS()
		r := rand.New(rand.NewPCG(seed, 1))
		var states []*State
		for range 12 {
			for range r.IntN(60) {
				randomOp(f, r)
			}
			s := f.freeze()
			if r.IntN(4) > 0 { // else it stays in memory
				s = f.load(t, f.src, f.seal(t, s))
			}
			states = append(states, s)
		}
		r.Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
		alone, together := map[cas.Hash]bool{}, map[cas.Hash]bool{}
		var like *State
		for _, s := range states {
			for i, marked := range []map[cas.Hash]bool{alone, together} {
				before := like
				if i == 0 {
					before = nil
				}
				if err := s.Mark(context.Background(), f.src, before, false, func(h cas.Hash) bool {
					asked[i]++
					first := !marked[h]
					marked[h] = true
					return first
				}); err != nil {
					t.Fatal(err)
				}
			}
			like = s
		}
		if !maps.Equal(alone, together) {
			t.Fatalf("seed %d: %d objects are marked, and %d after another", seed, len(alone), len(together))
		}
	}
	if asked[1] >= asked[0] {
		t.Errorf("it asked for %d objects, and for %d after another", asked[0], asked[1])
	}
}

// TestMarkKeepsEnough drops every object that was not marked and reads all
// states again; and it drops each marked one in turn, to see that it was needed.
func TestMarkKeepsEnough(t *testing.T) {
	f := newTestFS()
	r := rand.New(rand.NewPCG(3, 6))
	var states []*State
	for i := range 4 {
		for range 100 {
			randomOp(f, r)
		}
		d := f.create(RootIno, fmt.Sprint("big", i), unix.S_IFDIR|0o755)
		for j := range 300 {
			f.create(d, testName(j), unix.S_IFREG|0o644)
		}
		s := f.freeze()
		if i == 1 {
			f.seal(t, s) // forgotten below: its own objects are garbage
			continue
		}
		if i < 3 {
			s = f.load(t, f.src, f.seal(t, s))
		}
		states = append(states, s)
	}
	var want []*flat
	for _, s := range states {
		want = append(want, flatten(t, f.src, s))
	}
	marked := make(map[cas.Hash]bool)
	markAll(t, f.source(), marked, states...)
	all := len(f.store.objects)
	maps.DeleteFunc(f.store.objects, func(h cas.Hash, _ []byte) bool { return !marked[h] })
	if len(f.store.objects) == all || len(f.store.objects) != len(marked) {
		t.Errorf("%d objects, %d marked, %d kept", all, len(marked), len(f.store.objects))
	}
	src := f.source()
	for i, s := range states {
		if id, ok := s.ID(); ok {
			s = f.load(t, src, id)
		}
		if d := naiveDiff(want[i], flatten(t, src, s)); len(d) != 0 {
			t.Errorf("state %d after dropping what was not marked: %v", i, d)
		}
	}

	id, _ := states[0].ID()
	marked = make(map[cas.Hash]bool)
	markAll(t, src, marked, states[0])
	for h := range marked {
		b := f.store.objects[h]
		delete(f.store.objects, h)
		src := f.source()
		s, err := Load(src, id)
		if err == nil {
			err = s.Walk(context.Background(), src, WalkOptions{}, func(_ *Path, n *Inode) error {
				if _, err := n.Content.ReadAt(src.Files, make([]byte, n.Size()), 0); n.IsRegular() && err != nil {
					return err
				}
				return nil
			})
		}
		if !errors.Is(err, cas.ErrNotFound) {
			t.Errorf("without object %v: error %v", h, err)
		}
		f.store.objects[h] = b
	}
}

// TestMarkCost checks that a second state costs only what is new in it.
func TestMarkCost(t *testing.T) {
	f := newTestFS()
	for i := range 5000 {
		f.create(RootIno, testName(i), unix.S_IFREG|0o644)
	}
	ida := f.seal(t, f.freeze())
	f.write(f.create(RootIno, "new", unix.S_IFREG|0o644), 0, "new")
	idb := f.seal(t, f.freeze())
	src := f.source()
	a, b := f.load(t, src, ida), f.load(t, src, idb)
	marked := make(map[cas.Hash]bool)
	markAll(t, src, marked, a)
	gets := f.store.gets
	markAll(t, src, marked, b)
	if n := f.store.gets - gets; n > 10 {
		t.Errorf("marking one more file loaded %d objects", n)
	}
	if src.CacheBytes() != 0 {
		t.Error("marking filled the cache")
	}
}

// TestAffected damages one object after the other and compares with what a walk
// can no longer read.
func TestAffected(t *testing.T) {
	f := newTestFS()
	for i := range 3 {
		d := f.create(RootIno, fmt.Sprint("d", i), unix.S_IFDIR|0o755)
		for j := range 60 {
			ino := f.create(d, testName(j), unix.S_IFREG|0o644)
			if j%10 == 0 {
				f.write(ino, 0, fmt.Sprint("content ", i, j))
			}
		}
	}
	d := f.create(RootIno, "big", unix.S_IFDIR|0o755)
	for j := range 200 {
		f.create(d, testName(j), unix.S_IFREG|0o644)
	}
	e, _ := f.lookup(d, testName(7))
	f.link(e.Ino, RootIno, "hard")
	s := f.freeze()
	id := f.seal(t, s)
	marked := make(map[cas.Hash]bool)
	markAll(t, f.src, marked, s)
	delete(marked, id)
	files := flatten(t, f.src, s)
	affected := func(bad func(cas.Hash) bool) []string {
		src := f.source()
		var got []string
		if err := f.load(t, src, id).Affected(context.Background(), src, Damage{ObjectDamaged: bad, LogDamaged: func(int64, int64) bool { return false }}, func(p string) { got = append(got, p) }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := affected(func(cas.Hash) bool { return false }); got != nil {
		t.Errorf("no damage affects %q", got)
	}
	for h := range marked {
		named := affected(func(x cas.Hash) bool { return x == h })
		b := f.store.objects[h]
		delete(f.store.objects, h)
		gone := affected(func(cas.Hash) bool { return false })
		// Every file must be readable, or affected itself, or below a directory
		// that is; and an affected one must not be readable.
		src := f.source()
		s := f.load(t, src, id)
		for path := range files.files {
			ok := readable(src, s, path)
			listed := slices.Contains(named, path)
			covered := listed || slices.ContainsFunc(named, func(d string) bool { return d == "" || strings.HasPrefix(path, d+"/") })
			if !ok && !covered || ok && listed {
				t.Errorf("object %v: %q readable %v, affected %v", h, path, ok, listed)
			}
		}
		f.store.objects[h] = b
		if len(named) == 0 || !slices.IsSortedFunc(named, comparePaths) {
			t.Errorf("object %v affects %q", h, named)
		}
		// A missing chunk shows only when it is read, a missing page also without
		// being named.
		if gone != nil && !slices.Equal(gone, named) {
			t.Errorf("object %v missing: %q, named: %q", h, gone, named)
		}
	}
	hashOf := func(path string) cas.Hash { return *must(s.Resolve(f.src, path)).Dir.root.hash.Load() }
	bad := map[cas.Hash]bool{hashOf("d1"): true, hashOf("big"): true}
	if got := affected(func(h cas.Hash) bool { return bad[h] }); !slices.Equal(got, []string{"big", "d1"}) {
		t.Errorf("affected %q", got)
	}
}

// readable reports whether a file's inode and all its content load.
func readable(src *Source, s *State, path string) bool {
	n, err := s.Resolve(src, path)
	if err != nil {
		return false
	}
	if n.IsDir() {
		_, err = n.Dir.sorted(src)
	} else if n.Content != nil {
		_, err = n.Content.ReadAt(src.Files, make([]byte, n.Size()), 0)
	}
	return err == nil
}
