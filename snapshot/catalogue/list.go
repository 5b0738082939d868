package catalogue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ErrNotFound means that a snapshot does not exist.
var ErrNotFound = errs.New(errs.NotExist, "no such snapshot")

// A Snapshot is a snapshot in the catalogue. It is guarded by the lock of the workspaces' trees, except
// for State, Retry and Added.
type Snapshot struct {
	info.Info
	WS     uint32  // the view of its workspace
	Dir    string  // see WorkspaceRecord
	Undoes *Undone // set if the snapshot was taken right after an undo of an actor
	Hash   cas.Hash
	State  atomic.Pointer[tree.State] // nil for a sealed snapshot that was not loaded yet
	Done   chan struct{}              // closed when the snapshot is sealed
	// Wanted means that a running checkpoint must seal the snapshot even if it is removed: journal
	// records after the checkpoint may restore the snapshot. If the checkpoint begins again, Wanted is
	// reset.
	Wanted bool
	// Retry is the time at which the sealer in the background tries again after an error. The sealer
	// guards it.
	Retry time.Time
	// Added is the number of bytes that the seal has added to the store so far. The sealer guards it.
	Added int64
	// Text is the result of textBytes for its message and labels, 0 if it was not computed yet.
	Text int64
	// Changes are the changes since the previous snapshot.
	Changes actors.Changes
}

// hasID reports whether the id of the snapshot, or one of its earlier ids, begins with prefix.
func (s *Snapshot) hasID(prefix string) bool {
	has := func(id string) bool { return strings.HasPrefix(id, prefix) }
	return has(s.ID) || slices.ContainsFunc(s.FormerIDs, has)
}

// Record returns the record of the snapshot.
func (s *Snapshot) Record() SnapshotRecord {
	return SnapshotRecord{View: s.View, WS: s.WS, Info: s.Info, ActorSets: s.Changes.Stored, Lineage: s.Lineage, Dir: s.Dir, Undoes: s.Undoes}
}

// Tree returns the state of the snapshot. It loads a sealed state at the first call.
func (s *Snapshot) Tree(src *tree.Source) (*tree.State, error) {
	if st := s.State.Load(); st != nil {
		return st, nil
	}

	st, err := tree.Load(src, s.Hash)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", s.Name, err)
	}

	s.State.Store(st)

	return st, nil
}

// Root returns the state of a snapshot as a Root.
func (s *Snapshot) Root() Root {
	if s.Sealed {
		return Root{ID: s.Hash}
	}
	return Root{State: s.State.Load()}
}

// InOrder returns all snapshots, also bases and bookmarks, by workspace and age.
func (c *Catalogue) InOrder() []*Snapshot {
	all := slices.Collect(maps.Values(c.Snapshots.all))
	slices.SortFunc(all, func(a, b *Snapshot) int {
		return cmp.Or(cmp.Compare(a.WS, b.WS), bySeq(a, b), cmp.Compare(a.View, b.View))
	})
	return all
}

// A Root is a state that a gc must keep: the state itself, or the id of a sealed state.
type Root struct {
	State *tree.State // nil if ID is set
	ID    cas.Hash
}

// Load returns the state.
func (r Root) Load(src *tree.Source) (*tree.State, error) {
	if r.State != nil {
		return r.State, nil
	}
	return tree.Load(src, r.ID)
}

// A List contains the snapshots of a workspace except for the base. The zero value is an empty list.
type List struct {
	all    []*Snapshot // by sequence number
	byName map[string]*Snapshot
}

// All returns the snapshots, oldest first. The slice is valid until the list changes.
func (l *List) All() []*Snapshot { return l.all }

// Len returns the number of snapshots.
func (l *List) Len() int { return len(l.all) }

// Newest returns the newest snapshot, nil if the list is empty.
func (l *List) Newest() *Snapshot {
	return l.Last(func(*Snapshot) bool { return true })
}

// Last returns the newest snapshot for which match returns true, or nil.
func (l *List) Last(match func(*Snapshot) bool) *Snapshot {
	for _, s := range slices.Backward(l.all) {
		if match(s) {
			return s
		}
	}
	return nil
}

// From returns the n oldest snapshots that have at least the sequence number seq.
func (l *List) From(seq uint64, n int) []*Snapshot {
	i, _ := l.index(seq)
	return l.all[i:min(i+n, len(l.all))]
}

// index returns the index of the snapshot with a sequence number. If no snapshot has the number, it
// returns the index at which such a snapshot would be inserted, and false.
func (l *List) index(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(l.all, seq, func(s *Snapshot, seq uint64) int { return cmp.Compare(s.Seq, seq) })
}

// Add adds a snapshot as the newest.
func (l *List) Add(s *Snapshot) {
	if l.byName == nil {
		l.byName = make(map[string]*Snapshot)
	}
	l.all = append(l.all, s)
	l.byName[s.Name] = s
}

// Sort sorts the list after snapshots were added in another order.
func (l *List) Sort() { slices.SortFunc(l.all, bySeq) }

func bySeq(a, b *Snapshot) int { return cmp.Compare(a.Seq, b.Seq) }

// Rename changes the name of a snapshot in the list.
func (l *List) Rename(s *Snapshot, name string) {
	delete(l.byName, s.Name)
	l.byName[name] = s
	s.Name = name
}

// Remove removes snapshots, some of which may not be in the list. It reads the list once, even for many
// snapshots.
//
// It returns the approximate number of bytes that only the removed snapshots used. This is the number of
// bytes that their seals added to the store, plus for each run of neighbouring removed snapshots the
// difference between the size of the largest of them and the sizes of the states before and after the
// run. before and after are the sizes of the states before and after the whole list.
func (l *List) Remove(removed []*Snapshot, before, after int64) (own int64) {
	for _, s := range removed {
		if l.byName[s.Name] == s {
			delete(l.byName, s.Name)
		}
	}

	slices.SortFunc(removed, bySeq)
	first, _ := l.index(removed[0].Seq)
	kept := l.all[:first]
	if first > 0 {
		before = l.all[first-1].Bytes
	}

	var largest int64 // in the present run of removed snapshots
	endRun := func(bytes int64) {
		own += max(0, largest-max(before, bytes))
		largest, before = 0, bytes
	}

	for _, s := range l.all[first:] {
		for len(removed) > 0 && removed[0].Seq < s.Seq {
			removed = removed[1:] // not in the list
		}

		if len(removed) > 0 && removed[0] == s {
			removed = removed[1:]
			own += s.UniqueBytes
			largest = max(largest, s.Bytes)
			continue
		}

		endRun(s.Bytes)
		kept = append(kept, s)
	}

	endRun(after)

	clear(l.all[len(kept):])
	l.all = kept

	return own
}

// PassOn is called before snapshots are removed. It adds the changes of each of them to the next newer
// snapshot, the heir. It returns the heirs, and in present the changes of snapshots without an heir,
// which belong to the present interval.
func (l *List) PassOn(removed []*Snapshot) (present []actors.Changes, heirs []*Snapshot) {
	passes := make(map[*Snapshot]bool, len(removed)) // whether the snapshot has changes to pass on
	for _, s := range removed {
		passes[s] = s.IsPastState()
	}

	first, _ := l.index(slices.MinFunc(removed, bySeq).Seq)
	var heir *Snapshot

	for _, s := range slices.Backward(l.all[first:]) {
		switch {
		case !s.IsPastState(), passes[s] && len(s.Changes.Names) == 0:
		case passes[s] && heir == nil:
			present = append(present, s.Changes)
		case passes[s]:
			heir.Changes.Add(s.Changes)
			heir.Actors = heir.Changes.Names
			heirs = append(heirs, heir)
		default:
			heir = s
		}
	}

	return present, heirs
}

// Named returns the snapshot with a name, nil if there is none.
func (l *List) Named(name string) *Snapshot { return l.byName[name] }

// Find returns the snapshot for a name, cp-<seq>, a prefix of an id, or label:KEY=VALUE for the newest
// snapshot with that label. The error is ErrNotFound.
func (l *List) Find(name string) (*Snapshot, error) {
	if s := l.byName[name]; s != nil {
		return s, nil
	}

	if digits, ok := strings.CutPrefix(name, "cp-"); ok {
		if seq, err := strconv.ParseUint(digits, 10, 64); err == nil {
			if i, found := l.index(seq); found {
				return l.all[i], nil
			}
		}
	}

	if label, ok := strings.CutPrefix(name, "label:"); ok {
		key, value, _ := strings.Cut(label, "=")
		if s := l.Last(func(s *Snapshot) bool { v, ok := s.Labels[key]; return ok && v == value }); s != nil {
			return s, nil
		}
	}

	if len(name) >= 8 && len(name) <= 64 && strings.Trim(name, "0123456789abcdef") == "" {
		s := l.Last(func(s *Snapshot) bool { return s.hasID(name) })
		if s != nil && l.Last(func(o *Snapshot) bool { return o.hasID(name) && o.ID != s.ID }) != nil {
			return nil, fmt.Errorf("%w: id %s… is not unique; give more digits", ErrNotFound, name)
		}
		if s != nil {
			return s, nil
		}
	}

	return nil, fmt.Errorf("%w: %q; see .snapshots/list or `amberfs list`", ErrNotFound, name)
}
