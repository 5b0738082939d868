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
	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

func testName(i int) string { return fmt.Sprintf("some-file-%d.txt", i) }

// TestDirAgainstMap makes random changes to a directory in several epochs and
// compares every version with a map.
func TestDirAgainstMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		src := NewSource(newCountingStore(), &sliceLog{}, 1<<20)
		var d Dir
		model := map[string]uint64{}
		type version struct {
			d Dir
			m map[string]uint64
		}
		var old []version
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		names := rapid.IntRange(1, 600).Draw(rt, "names")
		for epoch := uint64(1); epoch < 5; epoch++ {
			grow := r.IntN(4)
			for range r.IntN(1500) {
				name := testName(r.IntN(names))
				if r.IntN(4) <= grow {
					ino := uint64(1 + r.IntN(1000))
					check(d.Insert(src, epoch, Dirent{name, ino, unix.S_IFREG}))
					model[name] = ino
					continue
				}
				err := d.Remove(src, epoch, name)
				if _, ok := model[name]; ok != (err == nil) || !ok && err != ErrNotExist {
					rt.Fatalf("Remove(%q) = %v", name, err)
				}
				delete(model, name)
			}
			m := make(map[string]uint64)
			for k, v := range model {
				m[k] = v
			}
			old = append(old, version{d, m})
		}
		for i, v := range old {
			if v.d.Len() != len(v.m) {
				rt.Fatalf("version %d: Len %d, want %d", i, v.d.Len(), len(v.m))
			}
			for name, ino := range v.m {
				if e, ok, err := v.d.Lookup(src, name); err != nil || !ok || e.Ino != ino || e.Name != name {
					rt.Fatalf("version %d: Lookup(%q) = %v, %v, %v, want %d", i, name, e, ok, err, ino)
				}
			}
			got := must(v.d.sorted(src))
			if len(got) != len(v.m) {
				rt.Fatalf("version %d: %d entries, want %d", i, len(got), len(v.m))
			}
		}
	})
}

// TestDirShape checks that what became of a directory depends on its entries,
// not on the way there.
func TestDirShape(t *testing.T) {
	ids := make(map[string]bool)
	for _, way := range []string{"up", "down", "detour"} {
		f := newTestFS()
		n := f.own(RootIno)
		put := func(i int) { check(n.Dir.Insert(f.src, f.epoch, Dirent{testName(i), uint64(i + 2), unix.S_IFREG})) }
		for i := range 300 {
			switch way {
			case "up":
				put(i)
			case "down":
				put(299 - i)
			}
		}
		if way == "detour" {
			for i := range 5000 {
				put(i)
			}
			f.seal(t, f.freeze())
			n = f.own(RootIno)
			for i := 4999; i >= 300; i-- {
				check(n.Dir.Remove(f.src, f.epoch, testName(i)))
			}
		}
		n.Mtime = 1
		ids[f.seal(t, f.freeze()).String()] = true

		// Down to one leaf and to nothing.
		n = f.own(RootIno)
		for i := range 300 - maxDirLeaf {
			check(n.Dir.Remove(f.src, f.epoch, testName(i)))
		}
		if b := must(n.Dir.root.loadDir(f.src, triePos{}, true)); b.kind != wire.KindDirLeaf {
			t.Errorf("%s: %d entries are not one leaf", way, n.Dir.Len())
		}
		for i := 300 - maxDirLeaf; i < 300; i++ {
			check(n.Dir.Remove(f.src, f.epoch, testName(i)))
		}
		if n.Dir.root != nil {
			t.Errorf("%s: an empty directory has a page", way)
		}
	}
	if len(ids) != 1 {
		t.Errorf("%d ids for one directory", len(ids))
	}
}

// TestList lists in small steps while entries come and go.
func TestList(t *testing.T) {
	for _, size := range []int{0, 1, 100, 3000} {
		src := NewSource(newCountingStore(), &sliceLog{}, 1<<20)
		var d Dir
		for i := range size {
			check(d.Insert(src, 1, Dirent{testName(i), uint64(i + 2), unix.S_IFREG}))
		}
		r := rand.New(rand.NewPCG(uint64(size), 3))
		seen := make(map[string]int)
		gone := make(map[string]bool)
		var after uint64
		for epoch := uint64(1); ; epoch++ {
			left := 1 + r.IntN(40)
			more := false
			check(d.List(src, after, func(e Dirent, cookie uint64) bool {
				if cookie < firstCookie || cookie >= 1<<63 || cookie <= after {
					t.Fatalf("cookie %d after %d", cookie, after)
				}
				if left == 0 {
					more = true
					return false
				}
				left--
				after = cookie
				seen[e.Name]++
				return true
			}))
			if !more {
				break
			}
			for range 30 {
				name := testName(r.IntN(size))
				if r.IntN(2) == 0 {
					check(d.Insert(src, epoch, Dirent{fmt.Sprint("new", r.IntN(1000)), 7, unix.S_IFREG}))
				} else if d.Remove(src, epoch, name) == nil {
					gone[name] = true
				}
			}
		}
		for i := range size {
			if name := testName(i); seen[name] != 1 && !(gone[name] && seen[name] == 0) {
				t.Errorf("%d entries: %q listed %d times", size, name, seen[name])
			}
		}
	}
}

func TestInsertRefuses(t *testing.T) {
	src := NewSource(newCountingStore(), &sliceLog{}, 1<<20)
	var d Dir
	for _, name := range []string{"", ".", "a/b", strings.Repeat("x", 256)} {
		if err := d.Insert(src, 1, Dirent{name, 2, unix.S_IFREG}); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	long := strings.Repeat("x", 255)
	check(d.Insert(src, 1, Dirent{long, 2, unix.S_IFREG}))
	if e, ok, err := d.Lookup(src, long); !ok || err != nil || e != (Dirent{long, 2, unix.S_IFREG}) || d.Len() != 1 {
		t.Errorf("%+v, %v, %v", e, ok, err)
	}
}

// TestEqualHashes builds a leaf whose names all have one hash, as only an attacker
// who looks for it could.
func TestEqualHashes(t *testing.T) {
	src := NewSource(newCountingStore(), &sliceLog{}, 1<<20)
	var d Dir
	const hash = 0x123456789abcde
	insert := func(name string) error {
		_, err := insertBelow(src, 1, &d.root, triePos{}, hash, Dirent{name, 2, unix.S_IFREG})
		return err
	}
	remove := func(name string) { check(removeBelow(src, 1, &d.root, triePos{}, hash, name)) }
	for i := range maxCollisions {
		check(insert(testName(i)))
	}
	if err := insert("one more"); err != ErrDirFull {
		t.Errorf("error %v, want ErrDirFull", err)
	}
	// Names of other hashes push the full leaf down to the lowest level.
	for i := range 500 {
		check(d.Insert(src, 1, Dirent{fmt.Sprint("other", i), 3, unix.S_IFREG}))
	}
	cookies := func() map[string]uint64 {
		m := make(map[string]uint64)
		var last uint64
		check(d.List(src, 0, func(e Dirent, c uint64) bool {
			if c <= last {
				t.Errorf("%q: cookie %d after %d", e.Name, c, last)
			}
			last = c
			m[e.Name] = c
			return true
		}))
		return m
	}
	before := cookies()
	remove(testName(3))
	remove(testName(5))
	check(insert("in the gap"))
	after := cookies()
	for name, c := range after {
		if old, ok := before[name]; ok && old != c {
			t.Errorf("%q: cookie went from %d to %d", name, old, c)
		}
	}
	if after["in the gap"] != before[testName(3)] {
		t.Error("the free slot was not used again")
	}
	if d.Len() != len(after) || d.Len() != 500+maxCollisions-1 {
		t.Errorf("Len %d, %d listed", d.Len(), len(after))
	}
}

func TestWalkOrder(t *testing.T) {
	f := newTestFS()
	d := f.create(RootIno, "a", unix.S_IFDIR|0o755)
	f.create(d, "z", unix.S_IFREG|0o644)
	f.create(RootIno, "a.b", unix.S_IFREG|0o644)
	f.create(RootIno, "a-", unix.S_IFREG|0o644)
	var got []string
	check(f.s.Walk(context.Background(), f.src, WalkOptions{}, func(at *Path, n *Inode) error {
		got = append(got, at.String())
		return nil
	}))
	if want := []string{"", "a", "a/z", "a-", "a.b"}; !slices.Equal(got, want) {
		t.Errorf("walked %q, want %q", got, want)
	}
	if !slices.IsSortedFunc(got, comparePaths) {
		t.Errorf("comparePaths has another order than Walk")
	}
}

// TestCompareDirs compares directories of all sizes, related or not.
func TestCompareDirs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newTestFS()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 7))
		sizes := []int{0, 1, 100, 128, 129, 500, 3000}
		n := f.own(RootIno)
		names := 1 + sizes[r.IntN(len(sizes))]
		fill := func(d *Dir, m map[string]uint64, changes int) {
			for range changes {
				name, ino := testName(r.IntN(names)), 2+r.Uint64N(3)
				if _, ok := m[name]; ok && r.IntN(2) == 0 {
					check(d.Remove(f.src, f.epoch, name))
					delete(m, name)
				} else {
					check(d.Insert(f.src, f.epoch, Dirent{name, ino, unix.S_IFREG}))
					m[name] = ino
				}
			}
		}
		mb := make(map[string]uint64)
		fill(&n.Dir, mb, sizes[r.IntN(len(sizes))])
		a, ma := n.Dir, maps.Clone(mb)
		s := f.freeze()
		if r.IntN(2) == 0 {
			f.seal(t, s)
		}
		n = f.own(RootIno)
		if r.IntN(4) == 0 {
			n.Dir, mb = Dir{}, make(map[string]uint64)
		}
		fill(&n.Dir, mb, sizes[r.IntN(len(sizes))])

		want := make(map[string]int)
		for name, ino := range ma {
			if mb[name] != ino {
				want[name] = 1
			}
		}
		for name := range mb {
			if _, ok := ma[name]; !ok {
				want[name] = 1
			}
		}
		got := make(map[string]int)
		check(compareDirs(f.src, dirPart{page: a.root}, dirPart{page: n.Dir.root}, triePos{}, func(name string) { got[name]++ }))
		if !maps.Equal(got, want) {
			rt.Fatalf("%d names differ, want %d", len(got), len(want))
		}
	})
}

// TestDirectoryIsFull: a directory gets no more entries than can be read.
func TestDirectoryIsFull(t *testing.T) {
	src := NewSource(newCountingStore(), &sliceLog{}, 1<<20)
	var d Dir
	if err := d.Insert(src, 1, Dirent{"a", 2, 0}); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]error{maxEntries - 1: nil, maxEntries: ErrDirFull} {
		d.root.n = n
		if err := d.OwnEntry(src, 1, "b"); !errors.Is(err, want) {
			t.Errorf("with %d entries: %v", n, err)
		}
	}
}
