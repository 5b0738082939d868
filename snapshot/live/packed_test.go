package live

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// TestSteps: a list gives back what was added, from either end, with one Path for each
// directory.
func TestSteps(t *testing.T) {
	for _, n := range []int{0, 1, packedItems, 3*packedItems + 7} {
		list, want := new(Steps), []Step(nil)
		add := func(s Step) {
			list.Add(s)
			want = append(want, s)
		}
		var dir *tree.Path
		for i := range n {
			path := dir.Entry(fmt.Sprint("name ", i))
			s := Step{Path: path, A: uint64(i % 5), B: uint64(i+1) << 30, Size: int64(i) << 20, What: tree.Added, linked: i%3 == 0}
			switch {
			case i%100 == 50:
				s.BDir, s.ADir, s.linked = true, i%200 == 50, false
				dir = path
			case i%7 == 0:
				s.With = &tree.Inode{Ino: uint64(i)}
			case i%150 == 149:
				dir = nil
			}
			add(s)
		}
		if n > 0 {
			add(Step{A: tree.RootIno, B: tree.RootIno, ADir: true, BDir: true, What: tree.Mtime})
		}
		check := func(got []Step) {
			t.Helper()
			if len(got) != len(want) || list.Len() != len(want) {
				t.Fatalf("%d steps, %d counted, %d added", len(got), list.Len(), len(want))
			}
			for i := range got {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("step %d is %+v, was %+v", i, got[i], want[i])
				}
				if want[i].BDir && got[i].Path != want[i].Path {
					t.Fatalf("step %d: a directory has two paths", i)
				}
			}
		}
		var there, back []Step
		for s := range list.All() {
			there = append(there, *s)
		}
		for s := range list.Backward() {
			back = append(back, *s)
		}
		slices.Reverse(back)
		check(there)
		check(back)
	}
}

func TestEntries(t *testing.T) {
	var want []Entry
	for i := range packedItems + 10 {
		e := Entry{Parent: Node(uint32(i), 1<<30), Name: fmt.Sprint("name ", i)}
		if i%2 == 0 {
			e.Was, e.WasDir = Node(uint32(i), 77), i%4 == 0
		}
		if i%6 == 0 {
			e.Gone = e.Was
		}
		want = append(want, e)
	}
	list := EntriesOf(want...)
	for _, i := range []int{2, packedItems, packedItems + 2} {
		list.isGone(i)
		want[i].Gone = want[i].Was
	}
	if got := slices.Collect(list.All()); !slices.Equal(got, want) || list.Len() != len(want) {
		t.Errorf("%d entries are other ones", list.Len())
	}
	if n := len((Invalidation{Entries: list}).Gone(1 << 20)); n != (packedItems+10)/6+1+2 {
		t.Errorf("%d entries are gone", n)
	}
	var none *Entries
	if none.Len() != 0 || slices.Collect(none.All()) != nil {
		t.Error("no list has entries")
	}
}

// TestMemoryOfSteps: what a change of a restore takes until it is answered.
func TestMemoryOfSteps(t *testing.T) {
	const n, most = 200_000, 30
	before := heapInUse()
	steps, entries := new(Steps), new(Entries)
	for i := range n {
		name := fmt.Sprintf("f%07d", i)
		steps.Add(Step{Path: (*tree.Path)(nil).Entry(name), A: uint64(i + 2), B: uint64(n + i), Size: int64(i), What: tree.Data})
		entries.Add(Entry{Parent: Node(MainView, RootIno), Name: name, Was: Node(MainView, uint64(i+2))})
	}
	each := (heapInUse() - before) / n
	t.Logf("%d bytes a change", each)
	if each > most || steps.Len()+entries.Len() != 2*n {
		t.Errorf("a change takes %d bytes, more than %d", each, most)
	}
}
