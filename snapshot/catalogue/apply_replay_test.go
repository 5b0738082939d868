package catalogue

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// views are trees without files: a change of one is a number more of inodes.
type views struct {
	next    uint32
	inodes  uint64
	trees   map[uint32]*tree.State
	changed map[uint32]uint64
	actors  map[uint32][]*actors.Set
	ended   map[uint32]bool
}

func newViews() *views {
	return &views{1, 1, map[uint32]*tree.State{}, map[uint32]uint64{}, map[uint32][]*actors.Set{}, map[uint32]bool{}}
}

func treeOf(inodes int64) *tree.State {
	st := tree.New(1, &tree.Inode{Ino: tree.RootIno, Nlink: 2})
	st.Inodes, st.Bytes = inodes, 10*inodes
	return st
}

func (v *views) State(view uint32) (*tree.State, bool) { st, ok := v.trees[view]; return st, ok }
func (v *views) Freeze(view uint32) *tree.State {
	if st, ok := v.trees[view]; ok {
		return st.Clone()
	}
	return nil
}
func (v *views) WithoutEmpty(st *tree.State, paths []naming.BytePath) *tree.State {
	if len(paths) == 0 {
		return st
	}
	return treeOf(st.Inodes - int64(len(paths)))
}
func (v *views) ChangeNumber(view uint32) uint64 { return v.changed[view] }
func (v *views) NewView() (uint32, error)        { v.next++; return v.next - 1, nil }
func (v *views) AddView(view uint32, st *tree.State) {
	v.trees[view] = st.Clone()
	v.SetCounters(0, view+1)
}
func (v *views) DropView(view uint32) {
	delete(v.trees, view)
	delete(v.changed, view)
	delete(v.actors, view)
	delete(v.ended, view)
}
func (v *views) SetViewEnded(view uint32, ended bool) {
	if v.ended[view] = true; !ended {
		delete(v.ended, view)
	}
}
func (v *views) SetCounters(ino uint64, view uint32) {
	v.inodes, v.next = max(v.inodes, ino), max(v.next, view)
}
func (v *views) ActorSets(view uint32) []*actors.Set { return slices.Clone(v.actors[view]) }
func (v *views) ActorNames(view uint32) []string     { return actors.ChangesOf(v.actors[view]).Names }
func (v *views) EndInterval(view uint32) []*actors.Set {
	sets := v.actors[view]
	delete(v.actors, view)
	return sets
}
func (v *views) AddActorSets(view uint32, sets []*actors.Set) {
	v.actors[view] = append(v.actors[view], sets...)
}
func (v *views) Tree(sn *Snapshot) (*tree.State, error) {
	if st := sn.State.Load(); st != nil {
		return st, nil
	}
	return treeOf(sn.Files + 1), nil
}
func (v *views) LoadPushed(id cas.Hash) (*tree.State, uint64, error) {
	return treeOf(int64(id[0]) + 1), uint64(id[1]), nil
}
func (v *views) MakeEditedCopy(*Edit) error { return nil }
func (v *views) PutEditedCopy(r *Edit)      { v.change(r.WS, r.Time, "editor") }

// change is one of a workspace's files, by an actor.
func (v *views) change(view uint32, by int64, who string) {
	if st, ok := v.trees[view]; ok {
		v.trees[view] = treeOf(st.Inodes + by)
		v.changed[view]++
		set := new(actors.Set)
		set.AddWithoutInodes(who)
		v.actors[view] = append(v.actors[view], set)
	}
}

// A store is a catalogue with its views, and how often something was to be done.
type store struct {
	*Catalogue
	*views
	effects []string
}

func (s *store) apply(t *testing.T, r Record) {
	t.Helper()
	e, err := s.Apply(s.views, r)
	if err != nil {
		t.Fatalf("%T: %v", r, err)
	}
	s.note(e)
}

func (s *store) note(e Effects) {
	line := fmt.Sprint(e.RemovedViews, e.HasGarbage, e.PolicyChanged)
	for _, sn := range e.ToSeal {
		line += " " + sn.Name
	}
	for _, w := range e.NewForks {
		line += " " + w.Name
	}
	s.effects = append(s.effects, line)
}

var birth = time.Unix(1_000_000_000, 0).UTC()

func newStore(t *testing.T) *store {
	s := &store{Catalogue: New(), views: newViews()}
	w := s.addWorkspace(WorkspaceRecord{Name: "main", NextSeq: 1, Policy: policy.Default()})
	s.AddView(w.View, treeOf(1))
	view, _ := s.NewView()
	e, err := s.SetBase(s.views, w, treeOf(1), SnapshotRecord{View: view, Info: info.Info{Name: "base", Kind: info.KindImport, Created: birth}})
	must.OK(t, err)
	s.note(e)
	return s
}

// An entry is a record as the journal has it, or without one a change of files.
type entry struct {
	typ     Type
	payload []byte
	view    uint32
	by      int64
	who     string
	seal    bool
}

func (s *store) replay(t *testing.T, log []entry) {
	t.Helper()
	for _, e := range log {
		if e.seal {
			s.sealMost()
			continue
		}
		if e.typ == 0 {
			s.change(e.view, e.by, e.who)
			continue
		}
		r, err := Decode(e.typ, e.payload)
		must.OK(t, err)
		s.apply(t, r)
	}
}

// sealMost seals most snapshots.
func (s *store) sealMost() {
	for view, sn := range s.Catalogue.Snapshots.All() {
		if view%4 > 0 {
			s.SetID(sn, cas.Hash{byte(view), 1}, int64(view))
		}
	}
}

// stored is the store as a checkpoint has it and recovery begins with it.
func (s *store) stored(t *testing.T) *store {
	t.Helper()
	again := &store{Catalogue: New(), views: newViews(), effects: slices.Clone(s.effects)}
	again.views.next, again.views.inodes = s.views.next, s.views.inodes
	again.views.changed, again.views.actors = maps.Clone(s.changed), maps.Clone(s.actors)
	again.ended = maps.Clone(s.ended)
	for view, w := range s.Workspaces.All() {
		again.addWorkspace(recoded(t, w.Record(s.trees[view])))
		again.trees[view] = s.trees[view].Clone()
	}
	records := map[uint32][]byte{}
	was := maps.Collect(s.Catalogue.Snapshots.All())
	states, sets := map[uint32]*tree.State{}, map[uint32][]*actors.Set{}
	for view, sn := range was {
		states[view], sets[view] = sn.State.Load(), sn.changes.Sets
	}
	again.Snapshots.readStored = func(view uint32) (*Snapshot, error) {
		var r SnapshotRecord
		err := decodeSnapshot("", records[view], func(record *SnapshotRecord) error {
			r = *record
			return nil
		})
		must.OK(t, err)
		sn, err := r.Load()
		sn.State.Store(states[view])
		sn.changes.Sets = sets[view] // the store puts them, and has Stored
		return sn, err
	}
	for _, view := range slices.Sorted(maps.Keys(was)) {
		b, err := json.Marshal(s.Catalogue.Snapshots.At(view).Record())
		must.OK(t, err)
		records[view] = b
		if r, ok := scanSnapshot(string(b)); ok && again.addStored(&r) {
			continue
		}
		sn, err := again.Snapshots.readStored(view)
		must.OK(t, err)
		again.add(sn, new([]*Snapshot))
	}
	again.linkAndSort()
	again.Forgotten = recoded(t, s.Forgotten)
	return again
}

func recoded[T any](t *testing.T, v T) (out T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	must.OK(t, err)
	return out
}

// text is all of the store that recovery has to bring back.
func (s *store) text() string {
	type line struct {
		WorkspaceRecord
		Snapshots []string
		Forks     []string
		Present   []string
	}
	var out []any
	for _, view := range slices.Sorted(maps.Keys(s.Workspaces.all)) {
		w := s.Workspaces.At(view)
		l := line{WorkspaceRecord: w.Record(s.trees[view]), Forks: slices.Sorted(maps.Keys(w.forks)), Present: w.PresentActors(s.views)}
		for _, sn := range w.Snapshots.All() {
			l.Snapshots = append(l.Snapshots, sn.Name)
			if w.Snapshots.Named(sn.Name) != sn {
				l.Snapshots = append(l.Snapshots, "not found by its name")
			}
		}
		out = append(out, l)
	}
	for _, view := range slices.Sorted(maps.Keys(maps.Collect(s.Catalogue.Snapshots.All()))) {
		sn := s.Catalogue.Snapshots.At(view)
		st, _ := s.Tree(sn)
		out = append(out, sn.Record(), sn.Undoes, sn.DirState, sn.Claim, len(sn.changes.Sets), st.Inodes)
	}
	out = append(out, s.Forgotten, s.Bytes, s.views.next, s.views.inodes, s.ended, s.effects)
	b, _ := json.MarshalIndent(out, "", " ")
	return string(b)
}

// random makes one more record that the present state allows, or a change; nil if it does not.
func (s *store) random(rnd *rand.Rand, n int) (Record, error) {
	all := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Workspaces.all)), func(view uint32) bool { return s.Workspaces.At(view).Ended != 0 })
	w := s.Workspaces.At(all[rnd.IntN(len(all))])
	now := birth.Add(time.Duration(n) * time.Minute)
	name := fmt.Sprint("n", rnd.IntN(12))
	of := func(kind string) SnapshotRecord {
		return SnapshotRecord{Info: info.Info{Name: fmt.Sprint("s", n), Kind: kind, Created: now, Process: info.Process{UID: 7}, Message: name}}
	}
	var fork *Workspace
	for _, f := range slices.Sorted(maps.Keys(w.forks)) {
		fork = w.forks[f]
	}
	var some []string
	for _, sn := range w.Snapshots.All() {
		if rnd.IntN(3) == 0 {
			some = append(some, sn.Name)
		}
	}
	op := func(name string, kept ...uint32) *Op {
		return &Op{Number: w.NextOpNumber(), Name: name, Target: name, Time: now, UID: 7, Kept: kept[:len(kept)*min(1, n%3)]}
	}
	switch k := rnd.IntN(19); {
	case k < 2:
		r := &Capture{SnapshotRecord: of(info.KindManual)}
		if err := w.CheckCapture(&r.SnapshotRecord); err != nil {
			return nil, err
		}
		return r, r.PlaceNext(s.Catalogue, s.views, w)
	case k == 2:
		r := &Edit{WS: w.View, Time: int64(rnd.IntN(5) + 1)}
		r.Pre.Created, r.Post = now, of(info.KindImport)
		if w.Snapshots.Len() > 0 && rnd.IntN(2) == 0 {
			r.RestoredView = w.Snapshots.All()[rnd.IntN(w.Snapshots.Len())].View
		}
		err := r.PlaceSnapshots(s.Catalogue, s.views, w, true, []string{"editor"}, &ActorUndo{By: "x"})
		r.Op = op("restore", 0)
		r.Op.BeforeView = r.Pre.View
		for i := range r.Op.Kept {
			r.Op.Kept[i], _ = s.NewView()
		}
		return r, err
	case k == 3:
		r := &Fork{Name: name, Claim: name, Expires: &now, Discard: n%7 == 0}
		from := []string{"", "base", "latest"}[rnd.IntN(3)]
		if fork != nil && n%3 == 0 {
			from = fork.Name + "/"
		}
		return r, r.StartFrom(s.Catalogue, s.views, w, from)
	case k == 4 && fork != nil && rnd.IntN(2) == 0:
		r, err := NewDiscard(s.Catalogue, w, fork, actors.Caller{}, now)
		r.Op = op(OpEndFork, fork.View)
		return r, err
	case k == 4 && fork != nil:
		if err := s.CheckEnd(w, fork, actors.Caller{}, now); err != nil {
			return nil, err
		}
		r, err := NewEnd(s.Catalogue, w, s.views, fork, s.Catalogue.Snapshots.At(fork.BookmarkView), of(""))
		if r.Op = op(OpEndFork, fork.View); r.LastState != nil {
			r.Op.ResultView = r.LastState.View
		}
		return r, err
	case k == 5 && fork != nil:
		r, err := w.NewRenameFork(fork.Name, name)
		if err == nil {
			r.Op = op(OpRenameFork)
			r.Op.NewName, r.Op.Target, r.Op.View = name, fork.Name, fork.View
		}
		return r, err
	case k == 6 && len(some) > 0:
		r, _, err := NewDelete(s.Catalogue, w, some, actors.Caller{}, now)
		if err == nil && n%4 > 0 {
			r.Op = op(OpRemove, r.Views...)
		}
		return r, err
	case k == 7 && len(some) > 0:
		r, err := NewRename(s.Catalogue, w, some[0], name, actors.Caller{ViaSocket: true})
		if err == nil {
			r.Op = op(OpRename)
			r.Op.NewName, r.Op.Target, r.Op.View = name, some[0], r.View
		}
		return r, err
	case k == 8 && len(some) > 0:
		r := w.Snapshots.Named(some[0]).Record()
		r.Pinned, r.Labels = n%5 == 0, map[string]string{"k": name}
		return &Amend{SnapshotRecord{View: r.View, WS: r.WS, Info: r.Info}}, nil
	case k == 9:
		r, err := w.NewSetPolicy(fmt.Appendf(nil, `{"manual_limit":%d}`, 20+rnd.IntN(9)), actors.Caller{ViaSocket: true})
		if err == nil {
			err = r.Describe(w, op(OpPolicy))
		}
		return r, err
	case k == 10 && rnd.IntN(20) == 0:
		return w.NewBeginFromTree(s.views, cas.Hash{byte(n), 9}, info.Info{Created: now})
	case k == 10:
		return w.NewBookmark(s.views, now)
	case k == 11 && len(some) > 1 && s.CheckCompact(w, name, named(w, some), actors.Caller{}, now) == nil:
		i := of(info.KindManual)
		i.Name, i.ID = name, cas.Hash{1, byte(n)}.String()
		r, _, _, err := NewCompacted(s.Catalogue, s.views, w, i, treeOf(5), 80, named(w, some))
		r.Op = op(OpCompact, r.DeletedViews...)
		r.Op.ResultView = r.Snapshot.View
		return r, err
	case k == 11 && w.CheckPull(of("").Info) == nil:
		r := NewPull(of("").Info, cas.Hash{3, byte(n)}, treeOf(4), uint64(n))
		return r, r.Place(s.views, w)
	case k == 12:
		return &Lease{View: w.View, Expires: &now}, nil
	case k == 18:
		r := &Forget{Forgotten: ForgottenEntry{Number: s.NextForgottenNumber(), Time: now, Receipt: cas.Hash{5}, Erased: n%2 == 0}, Trees: map[string]string{}}
		for _, id := range s.Catalogue.TreeIDs() {
			r.Trees[id] = cas.Hash{6, byte(n)}.String()
		}
		for _, view := range slices.Sorted(maps.Keys(s.Workspaces.all)) {
			switch w := s.Workspaces.At(view); {
			case rnd.IntN(4) > 0:
			case w.Ended != 0:
				r.Edits = append(r.Edits, Edit{WS: view, State: cas.Hash{8, byte(n)}.String()})
			default:
				r.Edits = append(r.Edits, Edit{WS: view, Time: int64(n % 5)})
			}
		}
		hidden := slices.DeleteFunc(s.InOrder(), func(sn *Snapshot) bool { return !s.IsHidden(sn) })
		for _, sn := range append(named(w, some), hidden...) {
			r.Snapshots = append(r.Snapshots, RewrittenSnapshot{View: sn.View, OldID: sn.ID, ID: cas.Hash{7, byte(n)}.String(), Files: 3, Bytes: int64(n)})
		}
		return r, nil
	case k == 13:
		id := cas.Hash{4, byte(n)}.String()
		op := Op{Number: w.NextOpNumber(), Name: "apply", Target: "/d", Time: now, Apply: &DirApply{FilledStore: n%2 == 0, Dir: w.DirState, Before: id, AppliedState: id}}
		if last := len(w.Ops) - 1; last >= 0 && n%3 != 0 && w.Ops[last].Apply != nil {
			op.Number = w.Ops[last].Number
		}
		return &LogOp{WS: w.View, Op: op, RemoveOp: n%7 == 0, ResetDir: n%5 == 0}, nil
	case k == 14 && n%5 == 0:
		r, _ := w.NewForgetOps(now.Add(-30 * time.Minute))
		return r, nil
	case k >= 14 && len(w.Ops) > 0:
		undo := op("")
		undo.Undoes = w.Ops[rnd.IntN(len(w.Ops))].Number
		if o, err := s.UndoableOp(w, undo.Undoes); err == nil && o.BeforeView == 0 {
			return NewUndo(s.Catalogue, w, *undo, actors.Caller{ViaSocket: true}, now)
		}
	}
	return nil, nil
}

func named(w *Workspace, names []string) (out []*Snapshot) {
	for _, n := range names {
		out = append(out, w.Snapshots.Named(n))
	}
	return out
}

// TestReplay: whatever was done, recovery comes to the same catalogue and asks for the same work,
// from the first record on and from a checkpoint on.
func TestReplay(t *testing.T) {
	seen := map[Type]bool{}
	unread := 0 // snapshots that recovery did not need
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(1, seed))
		s, again := newStore(t), newStore(t)
		var log []entry
		checkpoint, at := again.stored(t), 0
		for n := range 120 {
			if n == 60 {
				log = append(log, entry{seal: true})
				s.sealMost()
				checkpoint, at = s.stored(t), len(log)
			}
			all := slices.Sorted(maps.Keys(s.Workspaces.all))
			e := entry{view: all[rnd.IntN(len(all))], by: int64(rnd.IntN(3)), who: fmt.Sprint("a", rnd.IntN(3))}
			s.change(e.view, e.by, e.who)
			log = append(log, e)
			r, err := s.random(rnd, n)
			if err != nil || r == nil || reflect.ValueOf(r).IsNil() {
				continue // refused
			}
			b, err := json.Marshal(r)
			must.OK(t, err)
			log = append(log, entry{typ: r.Type(), payload: b})
			seen[r.Type()] = true
			s.apply(t, r)
		}
		want := s.text()
		if again.replay(t, log); again.text() != want {
			t.Fatalf("seed %d: recovery has\n%s\nnot\n%s", seed, again.text(), want)
		}
		checkpoint.replay(t, log[at:])
		unread += len(checkpoint.Snapshots.onlyStored())
		if checkpoint.text() != want {
			t.Fatalf("seed %d: recovery from a checkpoint has\n%s\nnot\n%s", seed, checkpoint.text(), want)
		}
	}
	if unread == 0 {
		t.Error("all snapshots were read")
	}
	if len(seen) != len(recordConstructors) {
		t.Errorf("only records %v were made", slices.Sorted(maps.Keys(seen)))
	}
}
