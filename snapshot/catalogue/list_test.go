package catalogue

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/info"
)

// TestRemovedBytes: what is removed had what storing it added, and what makes it larger than
// those that stay beside it.
func TestRemovedBytes(t *testing.T) {
	const base, present = 10, 20
	for name, c := range map[string]struct {
		gone []int
		own  int64
	}{
		"one that nothing was added for":        {[]int{0}, 0},
		"what storing it added":                 {[]int{3}, 7},
		"one of two with a large file":          {[]int{1}, 0},
		"both":                                  {[]int{2, 1}, 100 - 12},
		"the last one, larger than the present": {[]int{4}, 5},
		"all":                                   {[]int{0, 1, 2, 3, 4}, 100 - present + 7},
	} {
		cat := New()
		l := List{set: &cat.Snapshots}
		var all []*Snapshot
		for i, bytes := range []int64{10, 100, 100, 12, 25} {
			all = append(all, &Snapshot{Info: info.Info{Seq: uint64(i + 1), View: uint32(i + 1), Bytes: bytes}})
			cat.Snapshots.put(all[i])
			l.add(row{seq: all[i].Seq, view: all[i].View}, all[i].Name)
		}
		all[3].UniqueBytes = 7
		var gone []*Snapshot
		for _, i := range c.gone {
			gone = append(gone, all[i])
		}
		if own := l.Remove(gone, base, present); own != c.own || l.Len() != len(all)-len(gone) {
			t.Errorf("%s: %d bytes of their own, want %d; %d are left", name, own, c.own, l.Len())
		}
	}
}

// TestUnsealed: the list of snapshots without an id has these and no other, whatever is sealed or
// removed, also when a number is given again.
func TestUnsealed(t *testing.T) {
	s := newStore(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var removed []*Snapshot
	sealed := 0
	for n := range 400 {
		if r, err := s.random(rnd, n); err == nil && r != nil && !reflect.ValueOf(r).IsNil() {
			before := maps.Clone(s.Catalogue.Snapshots.loaded)
			s.apply(t, r)
			for view, sn := range before {
				if s.Catalogue.Snapshots.At(view) == nil {
					removed = append(removed, sn)
				}
			}
		}
		for view, sn := range s.Catalogue.Snapshots.All() {
			if n%4 == 0 && view%3 != 0 && !sn.Sealed {
				s.SetID(sn, cas.Hash{1}, 1)
				sealed++
			}
		}
		if n%10 == 0 && len(removed) > 0 { // sealed all the same, when another one has its number
			old := removed[len(removed)-1]
			if s.add(&Snapshot{Info: info.Info{View: old.View, Name: "again"}, WS: 1 << 20}, new([]*Snapshot)); !old.Sealed {
				s.SetID(old, cas.Hash{2}, 1)
			}
		}
		unsealed := maps.Clone(s.Catalogue.Snapshots.loaded)
		maps.DeleteFunc(unsealed, func(_ uint32, sn *Snapshot) bool { return sn.Sealed })
		if !maps.Equal(unsealed, s.Unsealed.all) {
			t.Fatalf("step %d: %d snapshots are listed as unsealed, and %d are", n, len(s.Unsealed.all), len(unsealed))
		}
	}
	if sealed == 0 || len(removed) == 0 || len(s.Unsealed.all) == 0 {
		t.Errorf("%d sealed, %d removed, %d unsealed", sealed, len(removed), len(s.Unsealed.all))
	}
}
