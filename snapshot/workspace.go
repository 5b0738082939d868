package snapshot

import (
	"cmp"
	"iter"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Workspace is a mutable file tree of a store with its snapshots.
type Workspace struct {
	store   *Store
	ws      *catalogue.Workspace // guarded by the lock of the forest
	sealing *semaphore.Weighted  // one seal at a time of main, or of a fork of main
}

// connect makes a workspace of the catalogue one of the store. The lock is held.
func (s entries) connect(ws *catalogue.Workspace) *Workspace {
	w := &Workspace{store: s.Store, ws: ws, sealing: semaphore.NewWeighted(1)}
	s.meter.Add(ws)
	s.mem.Add(ws)
	s.workspaces[ws.View] = w
	return w
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
	w.read(func() { name = w.ws.Name })
	return name
}

func (w *Workspace) View() uint32 { return w.ws.View }

func (w *Workspace) Root() live.NodeID { return live.Node(w.ws.View, live.RootIno) }

func (w *Workspace) Store() *Store { return w.store }

func (w *Workspace) IsFork() bool { return w.ws.Fork }

// Parent returns the workspace that this one was forked from, nil for main.
func (w *Workspace) Parent() (p *Workspace) {
	w.read(func() {
		if up := w.store.cat.Parent(w.ws); up != nil {
			p = w.store.workspaces[up.View]
		}
	})
	return p
}

func (w *Workspace) read(fn func()) {
	w.store.look(func(*live.Tx) {
		fn()
	})
}

// Find returns the snapshot that a name, cp-<seq>, a prefix of an id, latest,
// undo or base means. ErrNotFound when there is none.
func (w *Workspace) Find(name string) (info info.Info, err error) {
	w.read(func() {
		var sn *catalogue.Snapshot
		if sn, err = w.store.cat.Find(w.ws, name); err == nil {
			info = sn.Info
		}
	})
	return info, err
}

// List returns the snapshots, newest first, without the base.
func (w *Workspace) List() []info.Info {
	return slices.Collect(w.Snapshots().Newest())
}

// Changes counts the changes of the workspace's record and of those of its snapshots: as
// long as it is the same, List and Find return the same.
func (w *Workspace) Changes() (n uint64) {
	w.read(func() { n = w.ws.Changes })
	return n
}

// Newest yields the snapshots, newest first, with the lock held for one at a time only.
// Those that are made or removed meanwhile are left out.
func (ss Snapshots) Newest() iter.Seq[info.Info] {
	return func(yield func(info.Info) bool) {
		var all []*catalogue.Snapshot
		ss.w.read(func() { all = slices.Clone(ss.w.ws.Snapshots.All()) })
		for _, sn := range slices.Backward(all) {
			var i info.Info
			var ok bool
			ss.w.read(func() { i, ok = sn.Info, ss.w.store.cat.Snapshots[sn.View] == sn })
			if ok && !yield(i) {
				return
			}
		}
	}
}

// Head returns the snapshot that the present state continues: the newest one, or the one
// that was restored since.
func (ss Snapshots) Head() (name string) {
	ss.w.read(func() { name = ss.w.ws.Head })
	return name
}

// A Listed is an entry of .snapshots or .forks. At is larger for later entries, and never
// changes.
type Listed struct {
	Name string
	Root live.NodeID
	At   uint64 // sequence number of a snapshot, view of a fork
}

// From returns the first n snapshots, or those that there are, from a sequence
// number on.
func (ss Snapshots) From(from uint64, n int) (out []Listed) {
	ss.w.read(func() {
		for _, sn := range ss.w.ws.Snapshots.From(from, n) {
			out = append(out, Listed{sn.Name, live.Node(sn.View, live.RootIno), sn.Seq})
		}
	})
	return out
}

// From is Snapshots.From for forks, all of which it looks at.
func (fs Forks) From(from uint64, n int) (out []Listed) {
	fs.w.read(func() {
		for _, f := range fs.w.ws.Forks {
			if uint64(f.View) >= from {
				out = append(out, Listed{f.Name, live.Node(f.View, live.RootIno), uint64(f.View)})
			}
		}
	})
	slices.SortFunc(out, func(a, b Listed) int { return cmp.Compare(a.At, b.At) })
	return out[:min(n, len(out))]
}

// Held returns the state of a snapshot, or the present one for "", and keeps what it refers to until
// release is called. Both are one step: no collection comes between them.
func (w *Workspace) Held(name string) (st *tree.State, release func(), err error) {
	release = func() {}
	err = w.store.forest.Update(true, func(tx *live.Tx) error {
		if name == "" {
			st, err = tx.Capture(w.ws.View)
		} else {
			var sn *catalogue.Snapshot
			if sn, err = w.store.cat.Find(w.ws, name); err == nil {
				st, err = sn.Tree(w.store.src)
			}
		}
		if err == nil {
			release = w.store.Hold(st)
		}
		return err
	})
	return st, release, err
}

// State returns the present tree, frozen.
func (w *Workspace) State() (st *tree.State, err error) {
	err = w.store.forest.Update(true, func(tx *live.Tx) error {
		st, err = tx.Capture(w.ws.View)
		return err
	})
	return st, err
}

// Tenant is the workspace whose limits count: main or a fork of main.
func (w *Workspace) Tenant() (t *Workspace) {
	w.read(func() { t = w.uppermost() })
	return t
}

// uppermost is the fork of main in which a fork is, or the workspace itself. The lock is held.
func (w *Workspace) uppermost() *Workspace {
	ws := w.store.cat.Uppermost(w.ws)
	if up := w.store.workspaces[ws.View]; up != nil && up.ws == ws {
		return up
	}
	return w // it has ended
}

// A Quota is how many bytes a workspace may write.
type Quota struct{ w *Workspace }

func (w *Workspace) Quota() Quota { return Quota{w} }

// Admit refuses n bytes if the disk has no room for them or they exceed the limit of a fork. They
// count against the limit until the bytes of the fork are counted again.
func (q Quota) Admit(n int64) error { return q.w.store.admit(q.w.ws.View, n) }

// ChargeExport is engine.Meter.ChargeExport.
func (q Quota) ChargeExport(n int64) error { return q.w.store.meter.ChargeExport(q.w.ws.View, n) }

// Usage is engine.Meter.Usage.
func (q Quota) Usage() (used, limit int64) { return q.w.store.meter.Usage(q.w.ws.View) }

func (s *Store) admit(view uint32, n int64) error {
	if err := s.meter.Admit(view, n); err != nil {
		return err
	}
	return s.room.Admit(n)
}
