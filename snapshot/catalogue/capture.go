package catalogue

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// Capture is the record of a snapshot of the present state.
type Capture struct {
	SnapshotRecord
	// Placeholders are paths that a sandbox created as mountpoints. Empty files and directories at
	// these paths are left out of the snapshot.
	Placeholders []naming.BytePath `json:"placeholders,omitempty"`
}

func (*Capture) Type() Type { return TypeCapture }

// CheckCapture returns an error if a user may not take the snapshot of the record.
func (w *Workspace) CheckCapture(r *SnapshotRecord) error {
	if err := w.CheckAlive(); err != nil {
		return err
	}
	if w.Snapshots.Named(r.Name) != nil {
		return errs.New(errs.Exist, "name in use: snapshot %q exists; choose another name, or delete it first", r.Name)
	}
	return w.checkManualLimit(r.Kind)
}

// PlaceNext makes a record the record of the next snapshot of a workspace. The record has the description of the
// snapshot: name, kind, message, labels, time and process. PlaceNext sets the view, the number, the parent, and what
// follows from the present state. It returns an error if the snapshot would exceed a limit of forks.
func (r *SnapshotRecord) PlaceNext(c *Catalogue, v Views, w *Workspace) error {
	if err := c.checkLimits(w, textBytes(r.Message, r.Labels)); err != nil {
		return err
	}
	return r.placeNext(v, w)
}

// placeNext does the work of PlaceNext, but does not check the limits of forks.
func (r *SnapshotRecord) placeNext(v Views, w *Workspace) (err error) {
	if r.View, err = v.NewView(); err != nil {
		return err
	}

	st := w.PresentState(v)
	r.WS, r.DirState = w.View, w.DirState
	r.Seq, r.Parent, r.Actors = w.NextSeq, w.Head, w.PresentActors(v)
	r.Files, r.Bytes = st.Inodes-1, st.Bytes
	if r.Name == "" {
		r.Name = defaultName(r.Seq)
	}

	if w.Policy.ExpireSeconds > 0 && r.Expires == nil && r.Kind == info.KindManual {
		t := r.Created.Add(time.Duration(w.Policy.ExpireSeconds) * time.Second)
		r.Expires = &t
	}

	return nil
}

func (r *Capture) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return fmt.Errorf("%w: %s", ErrNoFork, r.Name)
	}

	st := a.trees.Freeze(w.View)
	if len(r.Placeholders) > 0 {
		st = a.trees.WithoutEmpty(st, r.Placeholders)
		r.Files, r.Bytes = st.Inodes-1, st.Bytes
	}

	w.Head = r.Name
	w.ChangeNumberAtCapture = a.trees.ChangeNumber(w.View)
	return a.addState(r.SnapshotRecord, st, w.endInterval(a.trees))
}

// Bookmark is the record of a new bookmark of a workspace, a snapshot of its present state. See
// snapshot.Workspace.Bookmark.
type Bookmark struct{ SnapshotRecord }

func (*Bookmark) Type() Type { return TypeBookmark }

// NewBookmark returns the record of a bookmark that is taken now.
func (w *Workspace) NewBookmark(v Views, now time.Time) (*Bookmark, error) {
	if err := w.CheckAlive(); err != nil {
		return nil, err
	}

	view, err := v.NewView()
	if err != nil {
		return nil, err
	}

	st := w.PresentState(v)
	return &Bookmark{SnapshotRecord{View: view, WS: w.View, Info: info.Info{
		Name: "before", Kind: info.KindAuto, Created: now, Files: st.Inodes - 1, Bytes: st.Bytes,
	}}}, nil
}

func (r *Bookmark) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return nil
	}
	if old := a.cat.Snapshots.At(w.BookmarkView); old != nil {
		a.removeSnapshots(old)
	}

	w.BookmarkView = r.View
	a.cat.TouchWorkspace(w)

	return a.addState(r.SnapshotRecord, a.trees.Freeze(w.View), actors.Changes{})
}

// Delete is the record of a removal of snapshots.
type Delete struct {
	Views []uint32 `json:"views"`
	Op    *Op      `json:"op,omitempty"` // the operation, if a user deleted them
}

func (*Delete) Type() Type { return TypeDelete }

// NewDelete returns the record of a deletion for a user, and the names of the deleted snapshots. names
// may contain a snapshot several times.
func NewDelete(c *Catalogue, w *Workspace, names []string, caller actors.Caller, now time.Time) (*Delete, []string, error) {
	r := &Delete{}
	var deleted []string
	seen := make(map[uint32]bool)

	for _, name := range names {
		sn, err := c.Find(w, name)
		if err != nil {
			return nil, nil, err
		}
		if seen[sn.View] {
			continue
		}

		seen[sn.View] = true
		if err := w.checkDelete(sn, caller, now); err != nil {
			return nil, nil, err
		}

		r.Views, deleted = append(r.Views, sn.View), append(deleted, sn.Name)
	}

	return r, deleted, nil
}

// NewExpiry returns the record of a deletion of the snapshots with the given views, and their names. It leaves out
// snapshots that must stay, such as pinned ones. rules is the policy by which the snapshots were chosen. The record
// is nil if all snapshots must stay, or if the workspace has another policy now.
func NewExpiry(c *Catalogue, w *Workspace, rules policy.Policy, views []uint32, now time.Time) (*Delete, []string) {
	if !reflect.DeepEqual(rules, w.Policy) {
		return nil, nil // the next expiry uses the new policy
	}
	r := &Delete{}
	var deleted []string
	for _, view := range views {
		sn := c.Snapshots.At(view)
		if sn == nil || sn.Pinned || view == w.UndoView || sn == w.Snapshots.Newest() && !sn.IsExpired(now) {
			continue
		}
		r.Views, deleted = append(r.Views, view), append(deleted, sn.Name)
	}
	if len(r.Views) == 0 {
		return nil, nil
	}

	return r, deleted
}

func (r *Delete) apply(a *applyRun) error {
	var snaps []*Snapshot
	for _, view := range r.Views {
		if sn := a.cat.Snapshots.At(view); sn != nil {
			snaps = append(snaps, sn)
		}
	}

	if len(snaps) == 0 {
		return nil
	}

	a.passOnChanges(snaps)
	w := a.cat.Workspaces.At(snaps[0].WS)
	if w == nil || r.Op == nil {
		a.removeSnapshots(snaps...)
		a.HasGarbage = true
		return nil
	}

	if len(r.Op.Kept) > 0 {
		a.hideSnapshots(w, snaps)
	} else {
		a.removeSnapshots(snaps...)
		a.HasGarbage = true
	}

	return a.logOp(w, r.Op)
}

// Rename is the record of a new name of a snapshot.
type Rename struct {
	View uint32 `json:"view"`
	// OldName is the name before the rename. In recovery, the snapshot may have the new name already: a checkpoint
	// that ran during the rename may have written it.
	OldName string `json:"was,omitempty"`
	Name    string `json:"name"`
	Op      *Op    `json:"op,omitempty"`
}

func (*Rename) Type() Type { return TypeRename }

// NewRename returns the record of a rename for a user.
func NewRename(c *Catalogue, w *Workspace, name, newName string, caller actors.Caller) (*Rename, error) {
	if err := naming.Check(newName); err != nil {
		return nil, err
	}

	sn, err := c.Find(w, name)
	if err != nil {
		return nil, err
	}
	if sn.View == w.Base {
		return nil, errs.New(errs.Protected, "protected: base cannot be renamed")
	}
	if w.Snapshots.Named(newName) != nil {
		return nil, errs.New(errs.Exist, "name in use: snapshot %q exists", newName)
	}

	return &Rename{View: sn.View, OldName: sn.Name, Name: newName}, w.checkRenameAndDelete(caller)
}

func (r *Rename) apply(a *applyRun) error {
	sn := a.cat.Snapshots.At(r.View)
	if sn == nil {
		return nil
	}

	if w := a.cat.Workspaces.At(sn.WS); w != nil {
		if w.Head == sn.Name || r.OldName != "" && w.Head == r.OldName {
			w.Head = r.Name
			a.cat.TouchWorkspace(w)
		}

		w.Snapshots.Rename(sn, r.Name)
	}

	a.cat.TouchSnapshot(sn.View)
	if w := a.cat.Workspaces.At(sn.WS); w != nil {
		return a.logOp(w, r.Op)
	}

	return nil
}

// Amend is the record of a new description of a snapshot: all of its info except for its name and id.
type Amend struct{ SnapshotRecord }

func (*Amend) Type() Type { return TypeAmend }

func (r *Amend) apply(a *applyRun) error {
	sn := a.cat.Snapshots.At(r.View)
	if sn == nil {
		return nil
	}

	was := sn.Info
	sn.Info = r.UserInfo()
	sn.Name, sn.ID, sn.Sealed = was.Name, was.ID, was.Sealed
	sn.FormerIDs, sn.Files, sn.Bytes = was.FormerIDs, was.Files, was.Bytes // a Forget may have changed these after the record was made
	sn.UniqueBytes = max(was.UniqueBytes, r.UniqueBytes)
	a.cat.TouchSnapshot(sn.View)

	return nil
}

// SetPolicy is the record of a new policy of a workspace.
type SetPolicy struct {
	WS     uint32        `json:"ws"`
	Policy policy.Policy `json:"policy"`
	Op     *Op           `json:"op,omitempty"`
}

func (*SetPolicy) Type() Type { return TypePolicy }

// UnmarshalJSON sets UndoSeconds, which earlier versions did not write, to its default.
func (r *SetPolicy) UnmarshalJSON(b []byte) error {
	type record SetPolicy
	r.Policy.UndoSeconds = policy.Default().UndoSeconds
	return json.Unmarshal(b, (*record)(r))
}

// NewSetPolicy returns the record of a change of the policy. patch is a JSON merge patch.
func (w *Workspace) NewSetPolicy(patch []byte, caller actors.Caller) (*SetPolicy, error) {
	if err := w.CheckAlive(); err != nil {
		return nil, err
	}
	if w.Policy.Protect && !caller.ViaSocket {
		return nil, errs.New(errs.Protected, "protected: the policy cannot be changed through the mount; use `amberfs policy`")
	}

	p, err := w.Policy.Patch(patch)
	if err != nil {
		return nil, err
	}
	if w.Fork && p.Push != w.Policy.Push {
		return nil, errs.New(errs.Invalid, "malformed request: policy: push can be set for main only")
	}

	switch {
	case p.UnsharedBytes == w.Policy.UnsharedBytes:
	case !w.Fork:
		return nil, errs.New(errs.Invalid, "malformed request: policy: unshared_bytes can be set for forks only; forks.unshared_bytes is the limit of each")
	case !caller.ViaSocket:
		return nil, errs.New(errs.Protected, "protected: unshared_bytes cannot be changed through the mount; use `amberfs policy`")
	}

	switch {
	case slices.Equal(p.Forget, w.Policy.Forget):
	case w.Fork:
		return nil, errs.New(errs.Invalid, "malformed request: policy: forget can be set for main only")
	case !caller.ViaSocket:
		return nil, errs.New(errs.Protected, "protected: forget cannot be changed through the mount; use `amberfs policy`")
	}

	switch hides := !slices.Equal(p.Hide, w.Policy.Hide) || p.HideAsEmpty != w.Policy.HideAsEmpty; {
	case hides && w.Fork:
		return nil, errs.New(errs.Invalid, "malformed request: policy: a fork keeps the hide and hide_empty with which it was created; create another with `amberfs fork --hide`")
	case (hides || !slices.Equal(p.ReadOnly, w.Policy.ReadOnly)) && !caller.ViaSocket:
		return nil, errs.New(errs.Protected, "protected: hide, hide_empty and read_only cannot be changed through the mount; use `amberfs policy`")
	}

	return &SetPolicy{WS: w.View, Policy: p}, nil
}

func (r *SetPolicy) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return nil
	}

	w.Policy = r.Policy
	a.cat.TouchWorkspace(w)
	a.PolicyChanged = true

	return a.logOp(w, r.Op)
}
