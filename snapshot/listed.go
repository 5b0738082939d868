package snapshot

import (
	"cmp"
	"slices"

	"github.com/amberfs/amberfs/snapshot/live"
)

// A Listed is an entry of .snapshots or .forks. At grows from one to the next, and
// stays what it is.
type Listed struct {
	Name string
	Root live.NodeID
	At   uint64 // sequence number of a snapshot, view of a fork
}

// SnapshotsFrom returns the first n snapshots, or those that there are, from a sequence
// number on.
func (ss Snapshots) From(from uint64, n int) (out []Listed) {
	ss.w.read(func() {
		i, _ := slices.BinarySearchFunc(ss.w.snaps, from, func(sn *snap, from uint64) int { return cmp.Compare(sn.Seq, from) })
		for _, sn := range ss.w.snaps[i:min(i+n, len(ss.w.snaps))] {
			out = append(out, Listed{sn.Name, sn.Node(), sn.Seq})
		}
	})
	return out
}

// ForksFrom is SnapshotsFrom for forks, which it looks at all of.
func (fs Forks) From(from uint64, n int) (out []Listed) {
	fs.w.read(func() {
		for _, f := range fs.w.forks {
			if uint64(f.view) >= from {
				out = append(out, Listed{f.name, f.Root(), uint64(f.view)})
			}
		}
	})
	slices.SortFunc(out, func(a, b Listed) int { return cmp.Compare(a.At, b.At) })
	return out[:min(n, len(out))]
}
