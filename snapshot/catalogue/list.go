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

// ErrNotFound means that a snapshot does not exist.
var ErrNotFound = errs.New(errs.NotExist, "no such snapshot")

// A Snapshot is a snapshot in the catalogue. It is guarded by the lock of the workspaces' trees, except
// for State, RetryAt and AddedBytes.
type Snapshot struct {
	info.Info
	WS           uint32                     // the view of its workspace
	DirState     string                     // see WorkspaceRecord
	Undoes       *ActorUndo                 // set if the snapshot was taken right after an undo of an actor
	Hash         cas.Hash                   // the ID, parsed
	State        atomic.Pointer[tree.State] // nil for a sealed snapshot that was not loaded yet
	SealedSignal chan struct{}              // closed when the snapshot is sealed
	// RetryAt is the time at which the sealer in the background tries again after an error. It is guarded
	// by engine.Sealer.
	RetryAt time.Time
	// AddedBytes is the number of bytes that the seal has added to the store so far. It is guarded by
	// engine.Sealer.
	AddedBytes int64
	// TextBytes is the result of textBytes for its message and labels, 0 if it was not computed yet.
	TextBytes int64

	changes            actors.Changes // see Changes
	neededByCheckpoint bool           // see NeedForCheckpoint
}

// Changes returns the changes since the previous snapshot.
func (s *Snapshot) Changes() actors.Changes { return s.changes }

// ReplaceSets replaces the actor sets of old, the first of Changes, by the object with their union, see
// actors.Changes.Replace.
func (s *Snapshot) ReplaceSets(old actors.Changes, union cas.Hash) { s.changes.Replace(old, union) }

// NeedForCheckpoint records whether a running checkpoint must seal the snapshot even if it is removed, because journal
// records after the checkpoint may restore the snapshot.
func (s *Snapshot) NeedForCheckpoint(needed bool) { s.neededByCheckpoint = needed }

// MustSeal reports whether a snapshot without an id still must be sealed: it was not removed, or a running checkpoint
// needs it.
func (c *Catalogue) MustSeal(s *Snapshot) bool {
	return c.Snapshots.At(s.View) == s || s.neededByCheckpoint
}

// hasID reports whether the id of the snapshot, or one of its earlier ids, begins with prefix.
func (s *Snapshot) hasID(prefix string) bool {
	has := func(id string) bool { return strings.HasPrefix(id, prefix) }
	return has(s.ID) || slices.ContainsFunc(s.FormerIDs, has)
}

// Record returns the fields of the snapshot that the catalogue stores.
func (s *Snapshot) Record() SnapshotRecord {
	return SnapshotRecord{View: s.View, WS: s.WS, Info: s.Info, ActorSets: s.changes.Stored, Lineage: s.Lineage, DirState: s.DirState, Undoes: s.Undoes}
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

func (s *Snapshot) Root() Root {
	if s.Sealed {
		return Root{ID: s.Hash}
	}
	return Root{State: s.State.Load()}
}

// InOrder returns all snapshots, also bases and bookmarks, by workspace and age.
func (c *Catalogue) InOrder() []*Snapshot {
	var all []*Snapshot
	for _, s := range c.Snapshots.All() {
		all = append(all, s)
	}

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

// A List contains the snapshots of a workspace except for the base.
type List struct {
	set       *SnapshotSet      // the snapshots of the store
	rows      []row             // by sequence number
	seqByName map[string]uint64 // the sequence numbers of the snapshots that are not called cp-<seq>
}

// defaultName returns the name that a snapshot gets if its user gives none.
func defaultName(seq uint64) string { return "cp-" + strconv.FormatUint(seq, 10) }

// All returns the snapshots, oldest first.
func (l *List) All() []*Snapshot { return l.load(l.rows) }

func (l *List) load(rows []row) []*Snapshot {
	out := make([]*Snapshot, 0, len(rows))
	for i := range rows {
		if s := l.set.At(rows[i].view); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// Len returns the number of snapshots.
func (l *List) Len() int { return len(l.rows) }

// Newest returns the newest snapshot, nil if the list is empty.
func (l *List) Newest() *Snapshot {
	if len(l.rows) == 0 {
		return nil
	}
	return l.set.At(l.rows[len(l.rows)-1].view)
}

// newestMatching returns the newest snapshot for which match returns true, or nil. A snapshot that is not in memory
// is only read if mayMatch returns true for its row.
func (l *List) newestMatching(mayMatch func(*row) bool, match func(*Snapshot) bool) *Snapshot {
	for i := len(l.rows) - 1; i >= 0; i-- {
		s := l.set.inMemory(l.rows[i].view)
		if s == nil && mayMatch(&l.rows[i]) {
			s = l.set.Peek(l.rows[i].view)
		}
		if s != nil && match(s) {
			return l.set.At(s.View)
		}
	}
	return nil
}

// FromSeq returns the n oldest snapshots that have at least the sequence number seq, with only their names, views and
// numbers.
func (l *List) FromSeq(seq uint64, n int) (out []info.Info) {
	i, _ := l.index(seq)
	for _, r := range l.rows[i:min(i+n, len(l.rows))] {
		out = append(out, info.Info{Name: cmp.Or(r.name, defaultName(r.seq)), View: r.view, Seq: r.seq})
	}
	return out
}

// NewestBefore returns the newest snapshot with a lower sequence number than seq. If it is not in memory, the result
// is temporary, see SnapshotSet.Peek.
func (l *List) NewestBefore(seq uint64) *Snapshot {
	i, _ := l.index(seq)
	if i == 0 {
		return nil
	}
	return l.set.Peek(l.rows[i-1].view)
}

// RetentionInfoBefore returns the newest snapshot with a lower sequence number than seq. i has only the fields that
// retention needs: number, view, kind, times, and whether the snapshot is pinned. ok is false if there is no such
// snapshot.
func (l *List) RetentionInfoBefore(seq uint64) (i info.Info, ok bool) {
	at, _ := l.index(seq)
	if at == 0 {
		return info.Info{}, false
	}
	return l.info(&l.rows[at-1]), true
}

// info returns the description of the snapshot of a row. If the snapshot is not in memory, the description has only
// the fields of the row.
func (l *List) info(r *row) info.Info {
	if s := l.set.inMemory(r.view); s != nil {
		return s.Info
	}
	return r.info()
}

// index returns the index of the snapshot with a sequence number. If no snapshot has the number, it
// returns the index at which such a snapshot would be inserted, and false.
func (l *List) index(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(l.rows, seq, func(r row, seq uint64) int { return cmp.Compare(r.seq, seq) })
}

// add adds a snapshot of the store as the newest.
func (l *List) add(r row, name string) {
	l.rows = append(l.rows, r)
	l.setName(&l.rows[len(l.rows)-1], name)
}

func (l *List) setName(r *row, name string) {
	if r.name = name; name == defaultName(r.seq) {
		r.name = ""
		return
	}
	if l.seqByName == nil {
		l.seqByName = make(map[string]uint64)
	}
	l.seqByName[name] = r.seq
}

func (l *List) dropName(r *row) {
	if l.seqByName[r.name] == r.seq {
		delete(l.seqByName, r.name)
	}
}

// Sort sorts the list after snapshots were added in another order.
func (l *List) Sort() {
	slices.SortFunc(l.rows, func(a, b row) int { return cmp.Compare(a.seq, b.seq) })
}

func bySeq(a, b *Snapshot) int { return cmp.Compare(a.Seq, b.Seq) }

// Rename changes the name of a snapshot, which may be in the list.
func (l *List) Rename(s *Snapshot, name string) {
	if i, ok := l.index(s.Seq); ok && l.rows[i].view == s.View {
		l.dropName(&l.rows[i])
		l.setName(&l.rows[i], name)
	}
	s.Name = name
}

// Remove removes snapshots, some of which may not be in the list. It reads the list once, even for many
// snapshots.
//
// It returns the approximate number of bytes that only the removed snapshots used. This is the sum of:
//   - the bytes that their seals added to the store,
//   - for each run of neighbouring removed snapshots, the size of the largest of them minus the larger of the
//     sizes of the states before and after the run, if this is positive.
//
// before and after are the sizes of the states before and after the whole list.
func (l *List) Remove(removed []*Snapshot, before, after int64) (own int64) {
	slices.SortFunc(removed, bySeq)
	first, _ := l.index(removed[0].Seq)
	kept := l.rows[:first]
	if first > 0 {
		before = l.info(&l.rows[first-1]).Bytes
	}

	var largest int64 // size of the largest snapshot in the present run of removed snapshots
	endRun := func(bytes int64) {
		own += max(0, largest-max(before, bytes))
		largest, before = 0, bytes
	}

	for i := range l.rows[first:] {
		r := l.rows[first+i]
		for len(removed) > 0 && removed[0].Seq < r.seq {
			removed = removed[1:] // skip a snapshot that is not in the list
		}

		if len(removed) > 0 && removed[0].View == r.view {
			own += removed[0].UniqueBytes
			largest = max(largest, removed[0].Bytes)
			removed = removed[1:]
			l.dropName(&r)
			continue
		}

		endRun(l.info(&r).Bytes)
		kept = append(kept, r)
	}

	endRun(after)

	clear(l.rows[len(kept):])
	l.rows = kept

	return own
}

// PassOnChanges is called before snapshots are removed. It adds the changes of each of them to the next newer
// snapshot, the heir. It returns the heirs, and in present the changes of snapshots without an heir,
// which belong to the present interval.
func (l *List) PassOnChanges(removed []*Snapshot) (present []actors.Changes, heirs []*Snapshot) {
	passes := make(map[uint32]*Snapshot, len(removed)) // by view: the removed snapshots whose changes must be passed on
	for _, s := range removed {
		if s.IsPastState() {
			passes[s.View] = s
		}
	}

	first, _ := l.index(slices.MinFunc(removed, bySeq).Seq)
	heir := -1 // the index of the heir's row, or -1

	for i := len(l.rows) - 1; i >= first; i-- {
		r := &l.rows[i]
		s := passes[r.view]
		switch {
		case s == nil:
			if past := l.info(r); past.IsPastState() {
				heir = i
			}
		case len(s.changes.Names) == 0:
		case heir < 0:
			present = append(present, s.changes)
		default:
			h := l.set.At(l.rows[heir].view)
			h.changes.Add(s.changes)
			h.Actors = h.changes.Names
			heirs = append(heirs, h)
		}
	}

	return present, heirs
}

// Named returns the snapshot with a name, nil if there is none.
func (l *List) Named(name string) *Snapshot {
	seq, ok := l.seqByName[name]
	digits, isDefault := strings.CutPrefix(name, "cp-")
	if !ok && isDefault {
		seq, _ = strconv.ParseUint(digits, 10, 64)
	}

	if i, found := l.index(seq); found && (ok || l.rows[i].name == "" && name == defaultName(seq)) {
		return l.set.At(l.rows[i].view)
	}
	return nil
}

// Find returns the snapshot for a name, cp-<seq>, a prefix of an id, or label:KEY=VALUE for the newest
// snapshot with that label. The error is ErrNotFound.
func (l *List) Find(name string) (*Snapshot, error) {
	if s := l.Named(name); s != nil {
		return s, nil
	}

	if digits, ok := strings.CutPrefix(name, "cp-"); ok {
		if seq, err := strconv.ParseUint(digits, 10, 64); err == nil {
			if i, found := l.index(seq); found {
				return l.set.At(l.rows[i].view), nil
			}
		}
	}

	if label, ok := strings.CutPrefix(name, "label:"); ok {
		key, value, _ := strings.Cut(label, "=")
		hasLabel := func(s *Snapshot) bool { v, ok := s.Labels[key]; return ok && v == value }
		if s := l.newestMatching(func(r *row) bool { return r.labelled }, hasLabel); s != nil {
			return s, nil
		}
	}

	if len(name) >= 8 && len(name) <= 64 && strings.Trim(name, "0123456789abcdef") == "" {
		may := rowIDMatcher(name)
		s := l.newestMatching(may, func(s *Snapshot) bool { return s.hasID(name) })
		if s != nil && l.newestMatching(may, func(o *Snapshot) bool { return o.hasID(name) && o.ID != s.ID }) != nil {
			return nil, fmt.Errorf("%w: id %s… is not unique; give more digits", ErrNotFound, name)
		}
		if s != nil {
			return s, nil
		}
	}

	return nil, fmt.Errorf("%w: %q; see .snapshots/list or `amberfs list`", ErrNotFound, name)
}
