package catalogue

import (
	"cmp"
	"fmt"
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

// ErrNotFound is for a snapshot that there is not.
var ErrNotFound = errs.New(errs.NotExist, "no such snapshot")

// A Snapshot is a snapshot of the catalogue, guarded by the lock of the forest but for
// State and Retry.
type Snapshot struct {
	info.Info
	WS  uint32 // view of its workspace
	Dir string // see WorkspaceRecord
	// Undoes is nil but after an undo of an actor.
	Undoes *Undone
	Hash   cas.Hash
	State  atomic.Pointer[tree.State] // nil until a reader looks into a sealed one
	Done   chan struct{}              // closed when sealed
	// Wanted by a checkpoint: it is sealed even when it is removed meanwhile, unless the
	// checkpoint begins anew without it,
	// since the journal after the checkpoint may still restore it.
	Wanted bool
	// Retry is when the background seals it again after it failed, guarded by the sealer.
	Retry time.Time
	// Added is how many bytes its seal has added so far, guarded by the sealer.
	Added int64
	// Text is how many bytes its message and labels have, 0 if not counted yet.
	Text int64
	// Changes are those since the snapshot before.
	Changes actors.Changes
}

func (s *Snapshot) Record() SnapshotRecord {
	return SnapshotRecord{View: s.View, WS: s.WS, Info: s.Info, ActorSets: s.Changes.Stored, Lineage: s.Lineage, Dir: s.Dir, Undoes: s.Undoes}
}

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

// Root leads to the state of a snapshot.
func (s *Snapshot) Root() Root {
	if s.Sealed {
		return Root{ID: s.Hash}
	}
	return Root{State: s.State.Load()}
}

// A Root is a state, or the id of one that need not stay in memory.
type Root struct {
	State *tree.State
	ID    cas.Hash
}

func (r Root) Load(src *tree.Source) (*tree.State, error) {
	if r.State != nil {
		return r.State, nil
	}
	return tree.Load(src, r.ID)
}

// A List is the snapshots of a workspace without the base. Its zero value is empty.
type List struct {
	all    []*Snapshot
	byName map[string]*Snapshot
}

// All returns the snapshots, oldest first. It is good until the list changes.
func (l *List) All() []*Snapshot { return l.all }

func (l *List) Len() int { return len(l.all) }

// Newest returns the newest snapshot, nil if there is none.
func (l *List) Newest() *Snapshot {
	return l.Last(func(*Snapshot) bool { return true })
}

// Last returns the newest snapshot of which is reports true, nil if there is none.
func (l *List) Last(is func(*Snapshot) bool) *Snapshot {
	for _, s := range slices.Backward(l.all) {
		if is(s) {
			return s
		}
	}
	return nil
}

// From returns the first n snapshots from a sequence number on.
func (l *List) From(seq uint64, n int) []*Snapshot {
	i, _ := l.index(seq)
	return l.all[i:min(i+n, len(l.all))]
}

// index returns where the snapshot of a sequence number is, or would be.
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

// Sort brings snapshots into order that were not added so.
func (l *List) Sort() { slices.SortFunc(l.all, bySeq) }

func bySeq(a, b *Snapshot) int { return cmp.Compare(a.Seq, b.Seq) }

func (l *List) Rename(s *Snapshot, name string) {
	delete(l.byName, s.Name)
	l.byName[name] = s
	s.Name = name
}

// Remove removes snapshots, of which some may not be in the list. It goes through the list
// once however many they are. It returns about how many bytes only they had: what storing them
// added, and by how much they were larger than those that stay beside them, of which the first
// and the last have so many bytes.
func (l *List) Remove(gone []*Snapshot, before, after int64) (own int64) {
	for _, s := range gone {
		if l.byName[s.Name] == s {
			delete(l.byName, s.Name)
		}
	}
	slices.SortFunc(gone, bySeq)
	first, _ := l.index(gone[0].Seq)
	kept := l.all[:first]
	if first > 0 {
		before = l.all[first-1].Bytes
	}
	var largest int64 // of those that go between two that stay
	stays := func(bytes int64) {
		own += max(0, largest-max(before, bytes))
		largest, before = 0, bytes
	}
	for _, s := range l.all[first:] {
		for len(gone) > 0 && gone[0].Seq < s.Seq {
			gone = gone[1:] // it was not in the list
		}
		if len(gone) > 0 && gone[0] == s {
			gone = gone[1:]
			own += s.UniqueBytes
			largest = max(largest, s.Bytes)
			continue
		}
		stays(s.Bytes)
		kept = append(kept, s)
	}
	stays(after)
	clear(l.all[len(kept):])
	l.all = kept
	return own
}

// PassOn gives the changes of snapshots that are to be removed to the next newer one, each,
// or to the present. It returns what the present gets, and the others that got any.
func (l *List) PassOn(gone []*Snapshot) (present []actors.Changes, heirs []*Snapshot) {
	going := make(map[*Snapshot]bool, len(gone))
	for _, s := range gone {
		going[s] = s.Past()
	}
	first, _ := l.index(slices.MinFunc(gone, bySeq).Seq)
	var heir *Snapshot
	for _, s := range slices.Backward(l.all[first:]) {
		switch {
		case !s.Past(), going[s] && len(s.Changes.Names) == 0:
		case going[s] && heir == nil:
			present = append(present, s.Changes)
		case going[s]:
			heir.Changes.Take(s.Changes)
			heir.Actors = heir.Changes.Names
			heirs = append(heirs, heir)
		default:
			heir = s
		}
	}
	return present, heirs
}

// Named returns the snapshot of a name, nil if there is none.
func (l *List) Named(name string) *Snapshot { return l.byName[name] }

// Find resolves a name, cp-<seq>, a prefix of an id, or label:KEY=VALUE for the newest with
// that label.
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
		s := l.Last(func(s *Snapshot) bool { return strings.HasPrefix(s.ID, name) })
		if s != nil && l.Last(func(o *Snapshot) bool { return strings.HasPrefix(o.ID, name) && o.ID != s.ID }) != nil {
			return nil, fmt.Errorf("%w: id %s… is not unique; give more digits", ErrNotFound, name)
		}
		if s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: %q; see .snapshots/list or `amberfs list`", ErrNotFound, name)
}
