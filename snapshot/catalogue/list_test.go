package catalogue

import (
	"testing"

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
		var l List
		var all []*Snapshot
		for i, bytes := range []int64{10, 100, 100, 12, 25} {
			all = append(all, &Snapshot{Info: info.Info{Seq: uint64(i + 1), Bytes: bytes}})
			l.Add(all[i])
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
