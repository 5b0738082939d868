package catalogue

import (
	"fmt"
	"reflect"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// Capture freezes the present state under a name.
type Capture struct {
	SnapshotRecord
	// Placeholders are paths that are left out if they are empty: a sandbox made them to mount something there.
	Placeholders []naming.BytePath `json:"placeholders,omitempty"`
}

func (*Capture) Type() Type { return TypeCapture }

// NewCapture returns the record of a capture that a user asked for. i is what the snapshot is to
// be called, and when it was taken, for whom.
func (c *Catalogue) NewCapture(v Views, w *Workspace, i info.Info) (*Capture, error) {
	if err := w.Alive(); err != nil {
		return nil, err
	}
	if w.Snapshots.Named(i.Name) != nil {
		return nil, errs.New(errs.Exist, "name in use: snapshot %q exists; choose another name, or delete it first", i.Name)
	}
	if err := w.mayCapture(i.Kind); err != nil {
		return nil, err
	}
	r, err := c.NewSnapshot(v, w, i)
	return &Capture{SnapshotRecord: r}, err
}

// NewSnapshot is NewCapture for what no user asked for, and that of the record alone.
func (c *Catalogue) NewSnapshot(v Views, w *Workspace, i info.Info) (SnapshotRecord, error) {
	if err := c.hasRoom(w, textOf(i.Message, i.Labels)); err != nil {
		return SnapshotRecord{}, err
	}
	return w.describe(v, i)
}

// describe is NewSnapshot without a limit.
func (w *Workspace) describe(v Views, i info.Info) (SnapshotRecord, error) {
	view, err := v.NewView()
	if err != nil {
		return SnapshotRecord{}, err
	}
	st := w.Present(v)
	i.Seq, i.Parent, i.Actors = w.NextSeq, w.Head, w.PresentActors(v)
	i.Files, i.Bytes = st.Inodes-1, st.Bytes
	if i.Name == "" {
		i.Name = fmt.Sprintf("cp-%d", i.Seq)
	}
	if w.Policy.ExpireSeconds > 0 && i.Expires == nil && i.Kind == info.KindManual {
		t := i.Created.Add(time.Duration(w.Policy.ExpireSeconds) * time.Second)
		i.Expires = &t
	}
	return SnapshotRecord{View: view, WS: w.View, Dir: w.Dir, Info: i}, nil
}

// Paths returns paths of a record.
func Paths(of []naming.BytePath) []string {
	paths := make([]string, len(of))
	for i, p := range of {
		paths[i] = string(p)
	}
	return paths
}

func (r *Capture) apply(a *applying) error {
	w, ok := a.Workspaces[r.WS]
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoFork, r.Name)
	}
	st := w.Freeze(a)
	if len(r.Placeholders) > 0 {
		st = a.Without(st, Paths(r.Placeholders))
		r.Files, r.Bytes = st.Inodes-1, st.Bytes
	}
	w.Head = r.Name
	w.At = a.Changed(w.View)
	return a.keep(r.SnapshotRecord, st, w.endInterval(a))
}

// Bookmark is the record of a bookmark, see snapshot.Workspace.Bookmark.
type Bookmark struct{ SnapshotRecord }

func (*Bookmark) Type() Type { return TypeBookmark }

// NewBookmark returns the record of a bookmark at a time.
func (w *Workspace) NewBookmark(v Views, now time.Time) (*Bookmark, error) {
	if err := w.Alive(); err != nil {
		return nil, err
	}
	view, err := v.NewView()
	if err != nil {
		return nil, err
	}
	st := w.Present(v)
	return &Bookmark{SnapshotRecord{View: view, WS: w.View, Info: info.Info{
		Name: "before", Kind: info.KindAuto, Created: now, Files: st.Inodes - 1, Bytes: st.Bytes,
	}}}, nil
}

func (r *Bookmark) apply(a *applying) error {
	w, ok := a.Workspaces[r.WS]
	if !ok {
		return nil
	}
	if old, ok := a.Snapshots[w.Before]; ok {
		a.remove(old)
	}
	w.Before = r.View
	a.TouchWorkspace(w)
	return a.keep(r.SnapshotRecord, w.Freeze(a), actors.Changes{})
}

// Delete removes snapshots.
type Delete struct {
	Views []uint32 `json:"views"`
}

func (*Delete) Type() Type { return TypeDelete }

// NewDelete returns the record of a deletion that a user asked for, and the names of the snapshots.
func (c *Catalogue) NewDelete(w *Workspace, names []string, by actors.Caller, now time.Time) (*Delete, []string, error) {
	r := &Delete{}
	var gone []string
	twice := make(map[uint32]bool)
	for _, name := range names {
		sn, err := c.Find(w, name)
		if err != nil {
			return nil, nil, err
		}
		if twice[sn.View] {
			continue
		}
		twice[sn.View] = true
		if err := w.mayDelete(sn, by, now); err != nil {
			return nil, nil, err
		}
		r.Views, gone = append(r.Views, sn.View), append(gone, sn.Name)
	}
	return r, gone, nil
}

// NewExpiry is NewDelete for snapshots that the policy does not keep, as long as it is still the same.
// The record is nil if there are none.
func (c *Catalogue) NewExpiry(w *Workspace, rules policy.Policy, views []uint32, now time.Time) (*Delete, []string) {
	if !reflect.DeepEqual(rules, w.Policy) {
		return nil, nil // the next round asks the new policy
	}
	r := &Delete{}
	var gone []string
	for _, view := range views {
		sn, ok := c.Snapshots[view]
		if !ok || sn.Pinned || view == w.Undo || sn == w.Snapshots.Newest() && !sn.Expired(now) {
			continue
		}
		r.Views, gone = append(r.Views, view), append(gone, sn.Name)
	}
	if len(r.Views) == 0 {
		return nil, nil
	}
	return r, gone
}

func (r *Delete) apply(a *applying) error {
	var gone []*Snapshot
	for _, view := range r.Views {
		if sn, ok := a.Snapshots[view]; ok {
			gone = append(gone, sn)
		}
	}
	if len(gone) > 0 {
		a.passOn(gone)
		a.remove(gone...)
		a.Garbage = true
	}
	return nil
}

// Rename gives a snapshot another name.
type Rename struct {
	View uint32 `json:"view"`
	// Was is the name before. A checkpoint under way may have written the new one already.
	Was  string `json:"was,omitempty"`
	Name string `json:"name"`
}

func (*Rename) Type() Type { return TypeRename }

// NewRename returns the record of a rename that a user asked for.
func (c *Catalogue) NewRename(w *Workspace, from, to string, by actors.Caller) (*Rename, error) {
	if err := naming.Check(to); err != nil {
		return nil, err
	}
	sn, err := c.Find(w, from)
	if err != nil {
		return nil, err
	}
	if sn.View == w.Base {
		return nil, errs.New(errs.Protected, "protected: base cannot be renamed")
	}
	if w.Snapshots.Named(to) != nil {
		return nil, errs.New(errs.Exist, "name in use: snapshot %q exists", to)
	}
	return &Rename{View: sn.View, Was: sn.Name, Name: to}, w.mayRename(by)
}

func (r *Rename) apply(a *applying) error {
	sn, ok := a.Snapshots[r.View]
	if !ok {
		return nil
	}
	if w, ok := a.Workspaces[sn.WS]; ok {
		if w.Head == sn.Name || r.Was != "" && w.Head == r.Was {
			w.Head = r.Name
			a.TouchWorkspace(w)
		}
		w.Snapshots.Rename(sn, r.Name)
	}
	a.Touch(sn.View)
	return nil
}

// Amend changes what is written down about a snapshot.
type Amend struct{ SnapshotRecord }

func (*Amend) Type() Type { return TypeAmend }

func (r *Amend) apply(a *applying) error {
	sn, ok := a.Snapshots[r.View]
	if !ok {
		return nil
	}
	was := sn.Info
	sn.Info = r.Seen()
	sn.Name, sn.ID, sn.Sealed = was.Name, was.ID, was.Sealed
	sn.UniqueBytes = max(was.UniqueBytes, r.UniqueBytes)
	a.Touch(sn.View)
	return nil
}

// Policy replaces the policy of a workspace.
type Policy struct {
	WS     uint32        `json:"ws"`
	Policy policy.Policy `json:"policy"`
}

func (*Policy) Type() Type { return TypePolicy }

// NewPolicy returns the record of a JSON merge patch of the policy.
func (w *Workspace) NewPolicy(patch []byte, by actors.Caller) (*Policy, error) {
	if err := w.Alive(); err != nil {
		return nil, err
	}
	if w.Policy.Protect && !by.Direct {
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
	case !by.Direct:
		return nil, errs.New(errs.Protected, "protected: unshared_bytes cannot be changed through the mount; use `amberfs policy`")
	}
	return &Policy{WS: w.View, Policy: p}, nil
}

func (r *Policy) apply(a *applying) error {
	if w, ok := a.Workspaces[r.WS]; ok {
		w.Policy = r.Policy
		a.TouchWorkspace(w)
		a.Rules = true
	}
	return nil
}
