package catalogue

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ErrNoFork means that a fork does not exist.
var ErrNoFork = errs.New(errs.NotExist, "no such fork")

// A Catalogue contains every workspace and snapshot of a store. It is guarded by the lock of the
// workspaces' trees (live.Forest), which the caller holds, so that a state is frozen and named in one
// step.
type Catalogue struct {
	Workspaces ByView[Workspace]
	Snapshots  SnapshotSet
	Unsealed   ByView[Snapshot] // the snapshots without an id
	Forgotten  []ForgottenEntry // the contents that users forgot, oldest first
	Bytes      Sum              // sum of Info.Bytes of all snapshots that are not hidden
	Unwritten  UnwrittenRecords

	alteredViews map[uint32]bool // see TakeAlteredViews
}

// New returns an empty catalogue.
func New() *Catalogue {
	return &Catalogue{
		Workspaces: newByView[Workspace](), Snapshots: SnapshotSet{loaded: make(map[uint32]*Snapshot)}, Unsealed: newByView[Snapshot](),
		Unwritten: UnwrittenRecords{keys: make(map[string]uint32)}, alteredViews: make(map[uint32]bool),
	}
}

// A ByView maps views to the workspaces or snapshots of a store. Only this package changes it.
type ByView[T any] struct{ all map[uint32]*T }

func newByView[T any]() ByView[T] { return ByView[T]{make(map[uint32]*T)} }

// At returns the value with a view, nil if there is none.
func (m ByView[T]) At(view uint32) *T { return m.all[view] }

// All yields the values by their views, in no order.
func (m ByView[T]) All() iter.Seq2[uint32, *T] { return maps.All(m.all) }

// Views returns all views, in no order.
func (m ByView[T]) Views() []uint32 { return slices.Collect(maps.Keys(m.all)) }

// TakeAlteredViews returns the views of the workspaces that ended, or whose ChangeCount or ForkChangeCount grew, since
// the last call.
func (c *Catalogue) TakeAlteredViews() []uint32 {
	views := slices.Collect(maps.Keys(c.alteredViews))
	clear(c.alteredViews)
	return views
}

// An UnwrittenRecords lists the records that changed since the last checkpoint, and the trees to which the journal
// refers.
type UnwrittenRecords struct {
	keys  map[string]uint32 // the keys of the changed and removed records, and the view of each
	roots []Root            // trees to which journal records since the last checkpoint refer
}

// Views yields the views of the records that changed or were removed.
func (u *UnwrittenRecords) Views() iter.Seq[uint32] { return maps.Values(u.keys) }

// Roots returns the trees to which journal records since the last checkpoint refer.
func (u *UnwrittenRecords) Roots() []Root { return u.roots }

// TakeKeys is called when a checkpoint begins. It removes and returns the keys and views of the records that
// the checkpoint must write, and returns the number of Roots.
func (u *UnwrittenRecords) TakeKeys() (keys map[string]uint32, roots int) {
	keys, u.keys = u.keys, make(map[string]uint32)
	return keys, len(u.roots)
}

// Keys returns a copy of the keys and views that the next TakeKeys will return.
func (u *UnwrittenRecords) Keys() map[string]uint32 { return maps.Clone(u.keys) }

// PutBackKeys is called if the checkpoint failed. It puts back the keys that TakeKeys removed.
func (u *UnwrittenRecords) PutBackKeys(keys map[string]uint32) { maps.Copy(u.keys, keys) }

// DropRoots drops the given number of the first roots, because a checkpoint now contains their trees.
func (u *UnwrittenRecords) DropRoots(roots int) { u.roots = slices.Delete(u.roots, 0, roots) }

// MarkChanged adds the record of a view. prefix is SnapshotPrefix or WorkspacePrefix.
func (u *UnwrittenRecords) MarkChanged(prefix string, view uint32) { u.keys[Key(prefix, view)] = view }

func (u *UnwrittenRecords) addRoot(r Root) { u.roots = append(u.roots, r) }

// A Workspace is a workspace in the catalogue: its record, its snapshots and its forks.
type Workspace struct {
	WorkspaceRecord       // outdated in the fields that the method Record sets
	Snapshots             List
	ChangeNumberAtCapture uint64 // Views.ChangeNumber at the last capture
	ChangeCount           uint64 // number of changes of the workspace's record and its snapshots' records
	ForkChangeCount       uint64 // number of begins, ends and new expiry times of the forks below

	forks          map[string]*Workspace // by name
	storedChanges  actors.Changes        // the changes between the newest snapshot and the last checkpoint
	keptViews      map[uint32]bool       // the views in Op.Kept of the workspace's operations
	restoreResults []RestoreResult       // the last maxRestoreResults restores, oldest first
}

// A RestoreResult is the state of a workspace right after a restore. The state equals the snapshot except
// for the inode numbers of the files that the restore has created. The next restore compares the present
// state with this state instead of the snapshot. Otherwise it would compare all files with different
// inode numbers, and each restore adds such files. A small restore after a big one takes 0.25 ms,
// without the RestoreResult 64 ms.
type RestoreResult struct {
	View  uint32 // view of the snapshot
	State *tree.State
}

const maxRestoreResults = 4

// addRestoreResult records that st is the state right after a restore of the snapshot with the given view.
func (w *Workspace) addRestoreResult(view uint32, st *tree.State) {
	kept := slices.DeleteFunc(w.restoreResults, func(r RestoreResult) bool { return r.View == view })
	w.restoreResults = append(kept[max(0, len(kept)-maxRestoreResults+1):], RestoreResult{view, st})
}

// RestoreResults returns the last restores of the workspace, oldest first, without those whose snapshot was removed.
func (c *Catalogue) RestoreResults(w *Workspace) []RestoreResult {
	w.restoreResults = slices.DeleteFunc(w.restoreResults, func(r RestoreResult) bool { return c.Snapshots.At(r.View) == nil })
	return w.restoreResults
}

// RestoredState returns the state right after the last restore of a snapshot, nil if it is not known.
func (w *Workspace) RestoredState(view uint32) *tree.State {
	for _, r := range w.restoreResults {
		if r.View == view {
			return r.State
		}
	}
	return nil
}

// Record returns the record of the workspace, with the sizes of its present state st. The caller sets State and
// Exports.
func (w *Workspace) Record(st *tree.State) WorkspaceRecord {
	r := w.WorkspaceRecord
	r.Inodes, r.Bytes = st.Inodes, st.Bytes
	r.Actors, r.ActorSets = w.storedChanges.Names, w.storedChanges.Stored
	return r
}

// Forks yields the forks of the workspace, in no order.
func (w *Workspace) Forks() iter.Seq[*Workspace] { return maps.Values(w.forks) }

// ForkCount returns the number of forks of the workspace.
func (w *Workspace) ForkCount() int { return len(w.forks) }

// StoredSets returns the hashes of the actor sets of the changes between the newest snapshot and the last checkpoint.
func (w *Workspace) StoredSets() []cas.Hash { return w.storedChanges.Stored }

// AddStored adds changes whose actor sets a checkpoint has stored.
func (w *Workspace) AddStored(c actors.Changes) { w.storedChanges.Add(c) }

// ReplaceStored replaces sets, the first of the StoredSets, by their union. It has no effect if the workspace no longer
// has these sets.
func (w *Workspace) ReplaceStored(sets []cas.Hash, union cas.Hash) {
	w.storedChanges.Replace(actors.Changes{Stored: sets}, union)
}

// DropNewestStored removes the last of the StoredSets. The caller has added its changes to the present interval.
func (w *Workspace) DropNewestStored() {
	w.storedChanges.Stored = w.storedChanges.Stored[:len(w.storedChanges.Stored)-1]
}

// TakeOrphans removes and returns the orphans that the last checkpoint has stored, nil if there are none.
func (w *Workspace) TakeOrphans() (orphans *PartlySealedState) {
	orphans, w.Orphans = w.Orphans, nil
	return orphans
}

// WalkFamily calls fn for a workspace and all forks below it, the workspace first.
func (w *Workspace) WalkFamily(fn func(*Workspace)) {
	fn(w)
	for _, f := range w.forks {
		f.WalkFamily(fn)
	}
}

// ForkNamed returns a fork of the workspace. The error is ErrNoFork if it does not exist.
func (w *Workspace) ForkNamed(name string) (*Workspace, error) {
	f, ok := w.forks[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q; see `ls .forks` or `amberfs forks`", ErrNoFork, name)
	}
	return f, nil
}

// addWorkspace adds the workspace of a record.
func (c *Catalogue) addWorkspace(r WorkspaceRecord) *Workspace {
	w := &Workspace{WorkspaceRecord: r, forks: make(map[string]*Workspace), keptViews: make(map[uint32]bool)}
	for i := range w.Ops {
		w.addKeptViews(&w.Ops[i])
	}

	w.Snapshots.set = &c.Snapshots
	w.storedChanges = actors.Changes{Names: r.Actors, Stored: r.ActorSets}
	c.Workspaces.all[r.View] = w
	return w
}

// AddMain adds the workspace main of a new store.
func (c *Catalogue) AddMain() *Workspace {
	return c.addWorkspace(WorkspaceRecord{Name: "main", NextSeq: 1, Policy: policy.Default()})
}

// linkAndSort completes the catalogue after all records of a checkpoint were added in any order: it adds forks
// to their parents and sorts snapshots.
func (c *Catalogue) linkAndSort() {
	for _, w := range c.Workspaces.All() {
		if p := c.Parent(w); p != nil && w.Ended != w.View {
			p.forks[w.Name] = w
		}
		w.Snapshots.Sort()
	}
}

// Parent returns the workspace that a fork belongs to, nil for main.
func (c *Catalogue) Parent(w *Workspace) *Workspace {
	if !w.Fork {
		return nil
	}
	return c.Workspaces.At(w.Parent)
}

// UppermostFork returns the fork of main that is w or contains w. w is a fork.
func (c *Catalogue) UppermostFork(w *Workspace) *Workspace {
	for {
		up := c.Parent(w)
		if up == nil || !up.Fork {
			return w
		}
		w = up
	}
}

// CheckAlive returns an ErrNoFork error if the workspace is a fork that has ended.
func (w *Workspace) CheckAlive() error {
	if w.Ended != 0 {
		return fmt.Errorf("%w: %q was deleted", ErrNoFork, w.Name)
	}
	return nil
}

// SnapshotsWithBase returns the base of a workspace and then its snapshots, oldest first.
func (c *Catalogue) SnapshotsWithBase(w *Workspace) []*Snapshot {
	all := w.Snapshots.All()
	if o := c.Snapshots.At(w.Base); o != nil {
		all = slices.Insert(all, 0, o)
	}
	return all
}

// Find returns the snapshot that a user names by its name, cp-<seq>, a prefix of its id, latest, undo,
// base, or label:KEY=VALUE (the newest snapshot with the label). The error is ErrNotFound.
func (c *Catalogue) Find(w *Workspace, name string) (*Snapshot, error) {
	switch name {
	case "latest":
		if sn := w.Snapshots.Newest(); sn != nil {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: there is no snapshot yet", ErrNotFound)

	case "undo":
		if sn := c.Snapshots.At(w.UndoView); sn != nil && w.UndoView != 0 {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: there is no restore to undo", ErrNotFound)

	case "base":
		if sn := c.Snapshots.At(w.Base); sn != nil {
			return sn, nil
		}
		return nil, fmt.Errorf("%w: this workspace has no base", ErrNotFound)
	}
	return w.Snapshots.Find(name)
}

// DeletedError returns the ErrNotFound error of an operation whose snapshot was deleted after the
// operation began.
func DeletedError(i info.Info) error {
	return fmt.Errorf("%w: snapshot %s was deleted meanwhile", ErrNotFound, i.Name)
}

// TouchSnapshot records that the record of a snapshot changed.
func (c *Catalogue) TouchSnapshot(view uint32) {
	sn := c.Snapshots.At(view)
	if sn == nil {
		return
	}

	c.Unwritten.MarkChanged(SnapshotPrefix, view)
	if w := c.Workspaces.At(sn.WS); w != nil {
		c.addChange(w)
	}
}

// addChange counts a change of the workspace's record, or of the record of one of its snapshots.
func (c *Catalogue) addChange(w *Workspace) {
	w.ChangeCount++
	c.alteredViews[w.View] = true
}

// TouchWorkspace records that the record of a workspace changed.
func (c *Catalogue) TouchWorkspace(w *Workspace) {
	c.Unwritten.MarkChanged(WorkspacePrefix, w.View)
	c.addChange(w)
}

// add adds a snapshot to the catalogue, and to toSeal if the caller must pass it to the sealer.
func (c *Catalogue) add(s *Snapshot, toSeal *[]*Snapshot) {
	c.Snapshots.put(s)
	c.Unwritten.MarkChanged(SnapshotPrefix, s.View)
	if !s.Sealed {
		c.Unsealed.all[s.View] = s
	}

	w := c.Workspaces.At(s.WS)
	hidden := w != nil && w.keptViews[s.View]
	if !hidden {
		c.Bytes.Add(s.Bytes)
	}
	if w == nil {
		return
	}

	c.addChange(w)
	if s.View == w.BookmarkView || hidden {
		return // only a checkpoint seals bookmarks and the snapshots that are kept for undo
	}

	c.Unwritten.MarkChanged(WorkspacePrefix, w.View)
	w.NextSeq = max(w.NextSeq, s.Seq+1)
	if s.View != w.Base {
		w.Snapshots.add(row{seq: s.Seq, view: s.View}, s.Name)
	}

	*toSeal = append(*toSeal, s)
}

// SetID sets the id of a snapshot that was sealed. added is the number of bytes that sealing added to
// the store.
func (c *Catalogue) SetID(sn *Snapshot, id cas.Hash, added int64) {
	if sn.Sealed {
		return
	}
	sn.Hash, sn.ID, sn.Sealed, sn.UniqueBytes = id, id.String(), true, added
	c.dropUnsealed(sn)
	c.TouchSnapshot(sn.View)
}

// dropUnsealed is called when a snapshot was sealed or removed. It removes the snapshot from Unsealed. It keeps
// another snapshot that has the same view number: a view number may be reused after a removal.
func (c *Catalogue) dropUnsealed(sn *Snapshot) {
	if c.Unsealed.At(sn.View) == sn {
		delete(c.Unsealed.all, sn.View)
	}
}

// LeafObjects returns the objects that a gc must keep and that refer to no other objects: the actor sets of
// workspaces, and the receipts of forgotten contents.
func (c *Catalogue) LeafObjects() (out []cas.Hash) {
	for i := range c.Forgotten {
		out = append(out, c.Forgotten[i].Receipt)
	}
	for _, w := range c.Workspaces.All() {
		out = append(out, w.storedChanges.Stored...)
	}

	return out
}
