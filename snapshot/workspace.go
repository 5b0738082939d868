package snapshot

import (
	"cmp"
	"iter"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/snapshot/usage"
)

// A Workspace is a mutable file tree of a store with its snapshots. Its
// fields are guarded by the lock of the forest.
type Workspace struct {
	store    *Store
	rec      catalogue.WorkspaceRecord // but for what stored sets
	snaps    catalogue.List
	forks    map[string]*Workspace
	at       uint64              // live.Tx.Changed at the last capture
	changes  uint64              // see Changes
	usage    usage.Fork          // of a fork of main
	sealing  *semaphore.Weighted // one seal at a time of main, or of a fork of main
	early    actors.Changes      // of the present interval, from before the last checkpoint
	restored []restored          // of the snapshots that were restored last, oldest first
}

func (c *entries) newWorkspace(r catalogue.WorkspaceRecord) *Workspace {
	w := &Workspace{store: c.Store, rec: r, forks: make(map[string]*Workspace), sealing: semaphore.NewWeighted(1)}
	w.early = actors.Changes{Names: r.Actors, Stored: r.ActorSets}
	w.usage.Exports.Store(r.Exports)
	return w
}

func (c *entries) newMain() *Workspace {
	return c.newWorkspace(catalogue.WorkspaceRecord{View: live.MainView, Name: "main", NextSeq: 1, Policy: policy.Default()})
}

// stored is the catalogue's record of the workspace, but for the id of its state.
// The lock is held.
func (w *Workspace) stored(st *tree.State) catalogue.WorkspaceRecord {
	r := w.rec
	r.Inodes, r.Bytes, r.Exports = st.Inodes, st.Bytes, w.usage.Exports.Load()
	r.Actors, r.ActorSets = w.early.Names, w.early.Stored
	return r
}

// present returns the present state of a workspace that is in the catalogue, which has a view
// for each. The lock is held, and the state is not kept.
func (w *Workspace) present(tx *live.Tx) *tree.State {
	st, _ := tx.State(w.rec.View)
	return st
}

// freeze is present, and the state stays as it is.
func (w *Workspace) freeze(tx *live.Tx) *tree.State {
	st, _ := tx.Capture(w.rec.View)
	return st
}

type Forks struct{ w *Workspace }

func (w *Workspace) Forks() Forks { return Forks{w} }

type Snapshots struct{ w *Workspace }

func (w *Workspace) Snapshots() Snapshots { return Snapshots{w} }

// Remotes are what leads from a workspace's snapshots to those of other stores, and back.
type Remotes struct{ w *Workspace }

func (w *Workspace) Remotes() Remotes { return Remotes{w} }

// Name returns `main`, or the fork's name.
func (w *Workspace) Name() string {
	var name string
	w.read(func() { name = w.rec.Name })
	return name
}

func (w *Workspace) View() uint32 { return w.rec.View }

func (w *Workspace) Root() live.NodeID { return live.Node(w.rec.View, live.RootIno) }

func (w *Workspace) Store() *Store { return w.store }

func (w *Workspace) IsFork() bool { return w.rec.Fork }

// Parent returns the workspace that this one was forked from, nil for main.
func (w *Workspace) Parent() (p *Workspace) {
	w.read(func() { p = w.store.cat.parent(w) })
	return p
}

func (w *Workspace) read(fn func()) {
	w.store.look(func(*live.Tx) {
		fn()
	})
}

// Find returns the snapshot that a name, cp-<seq>, a prefix of an id, latest,
// undo or base means. ErrNotFound when there is none.
func (w *Workspace) Find(name string) (info Info, err error) {
	w.read(func() {
		var sn *snap
		if sn, err = w.store.cat.find(w, name); err == nil {
			info = sn.Info
		}
	})
	return info, err
}

// List returns the snapshots, newest first, without the base.
func (w *Workspace) List() []Info {
	return slices.Collect(w.Snapshots().Newest())
}

// Changes counts the changes of the workspace's record and of those of its snapshots: as
// long as it is the same, List and Find return the same.
func (w *Workspace) Changes() (n uint64) {
	w.read(func() { n = w.changes })
	return n
}

// Newest yields the snapshots, newest first, with the lock held for one at a time only.
// Those that are made or removed meanwhile are left out.
func (ss Snapshots) Newest() iter.Seq[Info] {
	return func(yield func(Info) bool) {
		var all []*snap
		ss.w.read(func() { all = slices.Clone(ss.w.snaps.All()) })
		for _, sn := range slices.Backward(all) {
			var i Info
			var ok bool
			ss.w.read(func() { i, ok = sn.Info, ss.w.store.cat.snaps[sn.View] == sn })
			if ok && !yield(i) {
				return
			}
		}
	}
}

// Head returns the snapshot that the present state continues: the newest one, or the one
// that was restored since.
func (ss Snapshots) Head() (name string) {
	ss.w.read(func() { name = ss.w.rec.Head })
	return name
}

// A Listed is an entry of .snapshots or .forks. At grows from one to the next, and
// stays what it is.
type Listed struct {
	Name string
	Root live.NodeID
	At   uint64 // sequence number of a snapshot, view of a fork
}

// From returns the first n snapshots, or those that there are, from a sequence
// number on.
func (ss Snapshots) From(from uint64, n int) (out []Listed) {
	ss.w.read(func() {
		for _, sn := range ss.w.snaps.From(from, n) {
			out = append(out, Listed{sn.Name, live.Node(sn.View, live.RootIno), sn.Seq})
		}
	})
	return out
}

// From is Snapshots.From for forks, all of which it looks at.
func (fs Forks) From(from uint64, n int) (out []Listed) {
	fs.w.read(func() {
		for _, f := range fs.w.forks {
			if uint64(f.rec.View) >= from {
				out = append(out, Listed{f.rec.Name, f.Root(), uint64(f.rec.View)})
			}
		}
	})
	slices.SortFunc(out, func(a, b Listed) int { return cmp.Compare(a.At, b.At) })
	return out[:min(n, len(out))]
}

func (w *Workspace) StateOf(name string) (st *tree.State, err error) {
	w.read(func() {
		var sn *snap
		if sn, err = w.store.cat.find(w, name); err == nil {
			st, err = sn.Tree(w.store.src)
		}
	})
	return st, err
}

// State returns the present tree, frozen.
func (w *Workspace) State() (st *tree.State, err error) {
	err = w.store.forest.Update(true, func(tx *live.Tx) error {
		st, err = tx.Capture(w.rec.View)
		return err
	})
	return st, err
}
