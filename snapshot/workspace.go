package snapshot

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Workspace is a mutable file tree of a store with its snapshots.
type Workspace struct {
	store    *Store
	ws       *catalogue.Workspace // guarded by the lock of the forest
	sealTurn *semaphore.Weighted  // held by a seal of the tenant, see Tenant; not used if the workspace is in a fork
}

// addWorkspace adds a workspace of the catalogue to the store. The caller holds the lock of the
// forest.
func (p *applyParts) addWorkspace(ws *catalogue.Workspace) {
	p.meter.AddWorkspace(ws)
	p.mem.AddWorkspace(ws)
	p.workspaces.byView[ws.View] = &Workspace{store: p.workspaces.store, ws: ws, sealTurn: semaphore.NewWeighted(1)}
}

// Forks has the operations on the forks of one workspace.
type Forks struct{ w *Workspace }

func (w *Workspace) Forks() Forks { return Forks{w} }

// Snapshots has the operations on the snapshots of one workspace.
type Snapshots struct{ w *Workspace }

func (w *Workspace) Snapshots() Snapshots { return Snapshots{w} }

// Remotes sends snapshots of a workspace to other stores, and adds snapshots of other stores to it.
type Remotes struct{ w *Workspace }

func (w *Workspace) Remotes() Remotes { return Remotes{w} }

// Name returns `main`, or the fork's name.
func (w *Workspace) Name() string {
	defer w.store.forest.ReadLock()()
	return w.ws.Name
}

func (w *Workspace) View() uint32 { return w.ws.View }

func (w *Workspace) Root() live.NodeID { return live.Node(w.ws.View, live.RootIno) }

func (w *Workspace) Store() *Store { return w.store }

func (w *Workspace) IsFork() bool { return w.ws.Fork }

// Parent returns the workspace that this one was forked from, nil for main.
func (w *Workspace) Parent() *Workspace {
	defer w.store.forest.ReadLock()()
	if up := w.store.cat.Parent(w.ws); up != nil {
		return w.store.workspaces.byView[up.View]
	}
	return nil
}

func (w *Workspace) withReadLock(fn func()) {
	w.store.forest.WithReadLock(func(*live.Tx) {
		fn()
	})
}

// Find returns a snapshot. The name is the snapshot's name, cp- with its sequence number, a prefix of its id, or
// one of the words latest, undo and base. The error is catalogue.ErrNotFound if no snapshot matches.
func (w *Workspace) Find(name string) (info.Info, error) {
	defer w.store.forest.ReadLock()()
	sn, err := w.store.cat.Find(w.ws, name)
	if err != nil {
		return info.Info{}, err
	}
	return sn.Info, nil
}

// List returns the snapshots, newest first, without the base.
func (w *Workspace) List() []info.Info {
	return slices.Collect(w.Snapshots().NewestFirst())
}

// ChangeCount returns the number of changes of the workspace's record and of the records of its snapshots. While it
// is unchanged, List and Find return equal results.
func (w *Workspace) ChangeCount() (n uint64) {
	w.withReadLock(func() { n = w.ws.ChangeCount })
	return n
}

// NewestFirst yields the snapshots, newest first. It releases the lock between two snapshots, and leaves out
// snapshots that are made or removed during the iteration.
func (ss Snapshots) NewestFirst() iter.Seq[info.Info] {
	return ss.newestFirst(func(list *catalogue.List, before uint64) (info.Info, bool) {
		if sn := list.NewestBefore(before); sn != nil {
			return sn.Info, true
		}
		return info.Info{}, false
	})
}

// retained yields the snapshots, newest first, with only the fields that retention needs. See
// catalogue.List.RetentionInfoBefore.
func (ss Snapshots) retained() iter.Seq[info.Info] {
	return ss.newestFirst((*catalogue.List).RetentionInfoBefore)
}

func (ss Snapshots) newestFirst(before func(*catalogue.List, uint64) (info.Info, bool)) iter.Seq[info.Info] {
	return func(yield func(info.Info) bool) {
		for seq := uint64(math.MaxUint64); ; {
			var i info.Info
			var ok bool
			ss.w.withReadLock(func() { i, ok = before(&ss.w.ws.Snapshots, seq) })
			if !ok || !yield(i) {
				return
			}
			seq = i.Seq
		}
	}
}

// Head returns the name of the parent of the present state: the newest snapshot or, if a snapshot was restored
// after the newest one was made, the restored snapshot.
func (ss Snapshots) Head() (name string) {
	ss.w.withReadLock(func() { name = ss.w.ws.Head })
	return name
}

// A ListEntry is an entry of .snapshots or .forks.
type ListEntry struct {
	Name string
	Root live.NodeID
	// Position is the sequence number of a snapshot or the view of a fork. It never changes, and later entries
	// have higher positions.
	Position uint64
}

// Page returns at most n snapshots in the order of their sequence numbers. It begins with the sequence number from.
func (ss Snapshots) Page(from uint64, n int) (out []ListEntry) {
	ss.w.withReadLock(func() {
		for _, sn := range ss.w.ws.Snapshots.FromSeq(from, n) {
			out = append(out, ListEntry{sn.Name, live.Node(sn.View, live.RootIno), sn.Seq})
		}
	})
	return out
}

// Page returns at most n forks in the order of their views. It begins with the view from. Its cost grows with the
// number of all forks.
func (fs Forks) Page(from uint64, n int) (out []ListEntry) {
	fs.w.withReadLock(func() {
		for f := range fs.w.ws.Forks() {
			if uint64(f.View) >= from {
				out = append(out, ListEntry{f.Name, live.Node(f.View, live.RootIno), uint64(f.View)})
			}
		}
	})

	slices.SortStableFunc(out, func(a, b ListEntry) int { return cmp.Compare(a.Position, b.Position) })
	return out[:min(n, len(out))]
}

// HoldState returns the state of a snapshot, or the present state for "". The state is held: gc keeps its objects
// (see Store.Hold) until release is called. No gc can run between finding and holding the state. After an error,
// release does nothing.
func (w *Workspace) HoldState(name string) (st *tree.State, release func(), err error) {
	return w.holdState(name, nil)
}

// HoldVisible returns the present state as HoldState does, but without the mount points of the caller's sandbox:
// the files that the sandbox created there are hidden from the caller by the mounts.
func (w *Workspace) HoldVisible(c actors.Caller) (st *tree.State, release func(), err error) {
	placeholders, err := w.placeholders(c)
	if err != nil {
		return nil, func() {}, err
	}
	return w.holdState("", placeholders)
}

// holdState does the work of HoldState. It removes the omitted paths from the present state, but not from
// snapshots.
func (w *Workspace) holdState(name string, omitted []naming.BytePath) (st *tree.State, release func(), err error) {
	release = func() {}
	err = w.store.forest.Update(true, func(tx *live.Tx) error {
		if st, err = w.stateOf(tx, name); err != nil {
			return err
		}
		if name == "" {
			st = tx.WithoutEmpty(st, omitted)
		}

		release = w.store.Hold(st)
		return nil
	})

	return st, release, err
}

// stateOf returns the state of a snapshot, or the present state for "".
func (w *Workspace) stateOf(tx *live.Tx, name string) (*tree.State, error) {
	if name == "" {
		return tx.Capture(w.ws.View)
	}
	sn, err := w.store.cat.Find(w.ws, name)
	if err != nil {
		return nil, err
	}

	return sn.Tree(w.store.src)
}

// State returns the present state, which later changes of the workspace do not affect. The state is not held, so
// gc may remove its objects; see HoldState.
func (w *Workspace) State() (st *tree.State, err error) {
	err = w.store.forest.Update(true, func(tx *live.Tx) error {
		st, err = tx.Capture(w.ws.View)
		return err
	})
	return st, err
}

// Tenant returns the workspace whose limits apply to this one: main, or the fork of main that
// contains this fork.
func (w *Workspace) Tenant() (t *Workspace) {
	w.withReadLock(func() { t = w.tenant() })
	return t
}

// tenant does the work of Tenant. The caller holds the lock of the forest.
func (w *Workspace) tenant() *Workspace {
	ws := w.store.cat.UppermostFork(w.ws)
	if up := w.store.workspaces.byView[ws.View]; up != nil && up.ws == ws {
		return up
	}
	return w // the fork has ended
}

// Quota has the operations on the limit of the bytes that a workspace may write.
type Quota struct{ w *Workspace }

func (w *Workspace) Quota() Quota { return Quota{w} }

// Admit returns an error if the disk has no space for n bytes, or if the fork would exceed its limit with them.
// Otherwise the n bytes count against the limit until the bytes of the fork are counted again.
func (q Quota) Admit(n int64) error { return q.w.store.admit(q.w.ws.View, n) }

// ChargeExport charges an export of n bytes to the limit, see engine.Meter.ChargeExport.
func (q Quota) ChargeExport(n int64) error { return q.w.store.meter.ChargeExport(q.w.ws.View, n) }

// Usage returns the bytes that the workspace uses and its limit, see engine.Meter.Usage.
func (q Quota) Usage() (used, limit int64) { return q.w.store.meter.Usage(q.w.ws.View) }

func (s *Store) admit(view uint32, n int64) error {
	if err := s.meter.Admit(view, n); err != nil {
		return err
	}
	return s.room.Admit(n)
}
