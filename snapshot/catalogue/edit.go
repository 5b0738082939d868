package catalogue

import (
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Edit is the record of a change of many files of a workspace at once: a restore, a merge, a refresh, an undo of
// an actor or an import. It has either the steps of the change (Steps, Time, Depth) or the resulting state (State).
type Edit struct {
	WS  uint32         `json:"ws"`
	Pre SnapshotRecord `json:"pre"` // the snapshot of the state before the edit; if Pre has no name, no snapshot is taken
	// Placeholders are left out of Pre, as in a Capture.
	Placeholders []naming.BytePath `json:"placeholders,omitempty"`
	// Post is the snapshot of the state after an import of an image or after an undo of an actor.
	Post SnapshotRecord `json:"post,omitzero"`

	Steps []graft.JournalSpan `json:"steps,omitempty"` // the places of the steps in the journal
	Time  int64               `json:"now,omitempty"`   // the time of the steps
	Depth int                 `json:"depth,omitempty"` // State.Depth of the workspace after the edit

	State   string `json:"state,omitempty"` // the id of the workspace's state after the edit
	NextIno uint64 `json:"next_ino,omitempty"`

	// Actors is the encoded set of the actors that made the changes of the edit.
	Actors []byte `json:"actors,omitempty"`

	// RestoredView is the view of the snapshot to which the whole workspace was restored.
	RestoredView uint32 `json:"restored,omitempty"`

	// DirState is the id of the directory's state after a refresh, see WorkspaceRecord.DirState.
	DirState string `json:"dir,omitempty"`

	// Answer is set if a request of the kernel waits for the edit. If this daemon dies, the next
	// daemon sends this answer.
	Answer *EditAnswer `json:"answer,omitempty"`
	Op     *Op         `json:"op,omitempty"` // set if Pre is set; the operation keeps the state after the edit, see Op.Kept
}

// An EditAnswer is the result of an edit.
type EditAnswer struct {
	Target  string             `json:"of"` // the snapshot, fork or actor
	Changed int                `json:"changed"`
	Paths   []graft.PathChange `json:"paths,omitempty"` // the first changed paths, at most MaxAnswerPaths
	More    bool               `json:"more,omitempty"`
	Kept    []string           `json:"kept,omitempty"`
}

// MaxAnswerPaths is the largest number of paths in an EditAnswer.
const MaxAnswerPaths = 100

func (*Edit) Type() Type { return TypeEdit }

// maxActorsBytes is the largest size of Edit.Actors in bytes.
const maxActorsBytes = 4 << 20

// SetActors sets the actors that made the changes of the edit.
func (r *Edit) SetActors(set *actors.Set) {
	r.Actors = set.EncodeWithin(maxActorsBytes)
}

// PlaceSnapshots completes the descriptions in Pre and, with hasPost set, in Post, see SnapshotRecord.PlaceNext. The
// snapshots are those before and after the edit. actorNames are the actors of the edit. undoes is set if the edit is
// an undo of an actor.
func (r *Edit) PlaceSnapshots(c *Catalogue, v Views, w *Workspace, hasPost bool, actorNames []string, undoes *ActorUndo) error {
	r.Pre.Kind = info.KindPreRestore
	if err := r.Pre.PlaceNext(c, v, w); err != nil || !hasPost {
		return err
	}
	if err := r.Post.PlaceNext(c, v, w); err != nil {
		return err
	}

	r.Post.Seq, r.Post.Parent, r.Post.Actors = r.Pre.Seq+1, r.Pre.Name, actorNames
	r.Post.Name = defaultName(r.Post.Seq)
	if undoes != nil {
		undoes.From = r.Pre.View
		r.Post.Undoes = undoes
	}

	return nil
}

func (r *Edit) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return fmt.Errorf("%w: a change of a deleted fork", ErrNoFork)
	}
	if err := a.trees.MakeEditedCopy(r); err != nil {
		return err
	}

	a.cat.TouchWorkspace(w)

	if r.Pre.Name != "" {
		if err := (&Capture{SnapshotRecord: r.Pre, Placeholders: r.Placeholders}).apply(a); err != nil {
			return err
		}
		w.UndoView = r.Pre.View
	}

	a.trees.PutEditedCopy(r)
	st := a.trees.Freeze(w.View)
	a.cat.Unwritten.addRoot(Root{State: st})
	if err := r.logOp(a, w, st); err != nil {
		return err
	}

	if r.Post.Name != "" {
		r.Post.Files, r.Post.Bytes = st.Inodes-1, st.Bytes
		if err := (&Capture{SnapshotRecord: r.Post}).apply(a); err != nil {
			return err
		}
	}

	if r.DirState != "" {
		w.DirState = r.DirState
		if err := a.addRoots(r.DirState); err != nil {
			return err
		}
	}

	if sn := a.cat.Snapshots.At(r.RestoredView); sn != nil && r.RestoredView != 0 {
		w.Head, w.DirState = sn.Name, sn.DirState
		w.addRestoreResult(sn.View, st)
	}

	return nil
}

// logOp adds the operation r.Op to w. The operation keeps the states before and after the edit.
func (r *Edit) logOp(a *applyRun, w *Workspace, st *tree.State) error {
	if r.Op == nil {
		return nil
	}
	if err := a.logOp(w, r.Op); err != nil || len(r.Op.Kept) == 0 {
		return err
	}

	return a.addState(SnapshotRecord{View: r.Op.Kept[0], WS: w.View, Info: info.Info{
		Name: "after", Kind: info.KindAuto, Created: r.Op.Time, Files: st.Inodes - 1, Bytes: st.Bytes,
	}}, st, actors.Changes{})
}

// BeginFromTree is a record that makes a sealed tree the state and the base of a workspace, and removes its
// snapshots.
type BeginFromTree struct {
	SnapshotRecord
	State string `json:"state"` // the id of the tree
}

func (*BeginFromTree) Type() Type { return TypeBeginFromTree }

// NewBeginFromTree returns the record that begins a workspace with the tree with the given id. base contains the
// time and the user's process.
func (w *Workspace) NewBeginFromTree(v Views, id cas.Hash, base info.Info) (*BeginFromTree, error) {
	if err := w.CheckAlive(); err != nil {
		return nil, err
	}
	base.Name, base.Kind = "base", info.KindImport
	view, err := v.NewView()
	return &BeginFromTree{SnapshotRecord{View: view, WS: w.View, Info: base}, id.String()}, err
}

func (r *BeginFromTree) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return nil
	}

	st, highest, err := a.loadPushed(r.State)
	if err != nil {
		return err
	}

	a.trees.SetCounters(highest+1, 0)
	a.trees.AddView(r.WS, st)
	st = a.trees.Freeze(w.View)

	for i := range w.Ops {
		if err := a.dropKept(w, &w.Ops[i]); err != nil {
			return err
		}
	}

	a.removeSnapshots(a.cat.SnapshotsWithBase(w)...)
	w.NextSeq, w.UndoView, w.Head = 1, 0, ""
	w.endInterval(a.trees)
	w.ChangeNumberAtCapture = a.trees.ChangeNumber(w.View)
	return a.setBase(w, st, r.SnapshotRecord)
}

// A Pull is the record of a new snapshot whose tree was made in another store, or was compacted from snapshots of
// this store.
type Pull struct {
	Snapshot SnapshotRecord `json:"snapshot"`
	NextIno  uint64         `json:"next_ino"`
	// CompactedViews are the views of the snapshots that were compacted into the new snapshot.
	CompactedViews []uint32 `json:"of,omitempty"`
	// DeletedViews are those of CompactedViews that the compaction deletes.
	DeletedViews []uint32 `json:"gone,omitempty"`
	Op           *Op      `json:"op,omitempty"` // the operation, if the record is of a compaction
}

func (*Pull) Type() Type { return TypePull }

// NewPull returns the record of a snapshot from another store. st is its tree, id the tree's id, and
// highest the tree's highest inode number. The caller calls Pull.Place before it applies the record.
func NewPull(i info.Info, id cas.Hash, st *tree.State, highest uint64) *Pull {
	return &Pull{NextIno: highest + 1, Snapshot: SnapshotRecord{Lineage: i.Lineage, Info: info.Info{
		Name: i.Name, Message: i.Message, Labels: i.Labels, Created: i.Created, Kind: info.KindPull,
		ID: id.String(), Files: st.Inodes - 1, Bytes: st.Bytes,
	}}}
}

// Place sets the workspace, the sequence number and the view of the snapshot.
func (r *Pull) Place(v Views, w *Workspace) (err error) {
	r.Snapshot.WS, r.Snapshot.Seq = w.View, w.NextSeq
	r.Snapshot.View, err = v.NewView()
	return err
}

// CheckPulledInfo returns an error if this store does not allow the name, message, labels or actors of a
// snapshot from another store.
func CheckPulledInfo(i info.Info) error {
	if err := naming.Check(i.Name); err != nil {
		return err
	}

	for _, name := range i.Actors {
		if err := actors.Check(name); err != nil {
			return err
		}
	}

	return naming.CheckDescription(i.Message, i.Labels)
}

// CheckPull returns an error if a snapshot from another store cannot be added to the workspace.
func (w *Workspace) CheckPull(i info.Info) error {
	if err := w.CheckAlive(); err != nil {
		return err
	}
	if err := CheckPulledInfo(i); err != nil {
		return err
	}
	if w.Snapshots.Named(i.Name) != nil {
		return errs.New(errs.Exist, "snapshot %q exists; give another name with --as", i.Name)
	}

	return nil
}

// NewCompacted returns the record of a new snapshot that is compacted from the snapshots in sources. sn describes
// the new snapshot and contains the id of its tree st. highest is the highest inode number of st.
// removed are the names of the snapshots that the record deletes, and kept the names of pinned snapshots,
// which stay.
func NewCompacted(c *Catalogue, v Views, w *Workspace, sn SnapshotRecord, st *tree.State, highest uint64, sources []*Snapshot) (r *Pull, removed, kept []string, err error) {
	r = &Pull{NextIno: highest + 1, Snapshot: sn}
	if err := r.Snapshot.PlaceNext(c, v, w); err != nil {
		return nil, nil, nil, err
	}

	r.Snapshot.Files, r.Snapshot.Bytes = st.Inodes-1, st.Bytes
	r.Snapshot.Parent, r.Snapshot.Actors = "", nil

	removed, kept = []string{}, []string{}
	for _, sn := range sources {
		r.CompactedViews = append(r.CompactedViews, sn.View)

		if sn.Pinned {
			kept = append(kept, sn.Name)
			continue
		}

		r.DeletedViews, removed = append(r.DeletedViews, sn.View), append(removed, sn.Name)
	}

	return r, removed, kept, nil
}

// SnapshotsToCompact returns the snapshots with the given names, each once, newest first.
func (c *Catalogue) SnapshotsToCompact(w *Workspace, names []string) (snaps []*Snapshot, err error) {
	for _, name := range names {
		sn, err := c.Find(w, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(snaps, sn) {
			snaps = append(snaps, sn)
		}
	}

	slices.SortFunc(snaps, func(a, b *Snapshot) int { return bySeq(b, a) })
	return snaps, nil
}

func (r *Pull) apply(a *applyRun) error {
	a.trees.SetCounters(r.NextIno, r.Snapshot.View+1)
	sn, err := r.Snapshot.Load()
	if err != nil {
		return err
	}

	for _, view := range r.CompactedViews {
		if of := a.cat.Snapshots.At(view); of != nil {
			sn.changes.Add(of.changes)
		}
	}

	sn.Actors, sn.Compacted = sn.changes.Names, len(r.CompactedViews) > 0
	a.cat.Unwritten.addRoot(sn.Root())
	a.cat.add(sn, &a.ToSeal)

	return (&Delete{r.DeletedViews, r.Op}).apply(a)
}
