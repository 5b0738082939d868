package catalogue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Fork makes a fork.
type Fork struct {
	WS   uint32         `json:"ws"`   // the parent
	View uint32         `json:"view"` // of the fork
	Name string         `json:"name"`
	Base SnapshotRecord `json:"base"`
	// From is the view of the snapshot that it starts from. If Now is set, it starts from the
	// present state of its parent; if Of is set, from that of the workspace with this view.
	From uint32 `json:"from"`
	Now  bool   `json:"now"`
	Of   uint32 `json:"of,omitempty"`
	// Claim is the label that it was claimed by.
	Claim   string     `json:"claim,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// Discard: the parent gets no snapshot of its last state when it ends.
	Discard bool `json:"discard,omitempty"`
	// Placeholders are left out of the parent's present state, as in a Capture.
	Placeholders []naming.BytePath `json:"placeholders,omitempty"`
}

func (*Fork) Type() Type { return TypeFork }

// NewFork returns the record of a fork of w that starts from a snapshot, the present state if it is
// "". FORK/ is the present state of a fork of w. r has its name, claim and expiry, and the base who
// made it and when.
func (c *Catalogue) NewFork(t Trees, w *Workspace, from string, r *Fork) error {
	if err := w.Alive(); err != nil {
		return err
	}
	if _, used := w.Forks[r.Name]; used {
		return errs.New(errs.Exist, "name in use: fork %q exists; choose another name", r.Name)
	}
	if err := c.hasRoom(w, 0); err != nil {
		return err
	}
	r.WS, r.Now = w.View, from == ""
	fork, present := strings.CutSuffix(from, "/")
	switch {
	case r.Now:
	case present:
		f, err := w.ForkNamed(fork)
		if err != nil {
			return err
		}
		r.Of = f.View
	default:
		sn, name, err := c.findBelow(w, from)
		if err != nil {
			return err
		}
		if _, err := t.Tree(sn); err != nil {
			return err
		}
		r.From, r.Base.Parent, r.Base.Lineage = sn.View, name, sn.Lineage
	}
	var err error
	if r.View, err = t.NewView(); err != nil {
		return err
	}
	r.Base.WS, r.Base.Name, r.Base.Kind = r.View, "base", info.KindFork
	r.Base.View, err = t.NewView()
	return err
}

// findBelow is Find, for FORK/SNAPSHOT too: a snapshot of a fork of w. It returns the name as well.
func (c *Catalogue) findBelow(w *Workspace, name string) (sn *Snapshot, known string, err error) {
	fork, in, below := strings.Cut(name, "/")
	if !below || strings.HasPrefix(name, "label:") {
		if sn, err = c.Find(w, name); err == nil {
			known = sn.Name
		}
		return sn, known, err
	}
	f, err := w.ForkNamed(fork)
	if err != nil {
		return nil, "", err
	}
	sn, known, err = c.findBelow(f, in)
	return sn, fork + "/" + known, err
}

func (r *Fork) apply(a *applying) error {
	parent, ok := a.Workspaces[r.WS]
	if !ok {
		return fmt.Errorf("%w: the parent of %s", ErrNoFork, r.Name)
	}
	var st *tree.State
	var dir string
	switch {
	case r.Now:
		st, dir = parent.Freeze(a), parent.Dir
		if len(r.Placeholders) > 0 {
			st = a.Without(st, Paths(r.Placeholders))
		}
	case r.Of != 0:
		of, ok := a.Workspaces[r.Of]
		if !ok {
			return fmt.Errorf("%w: the fork that %s starts from", ErrNoFork, r.Name)
		}
		st, dir = of.Freeze(a), of.Dir
	default:
		var err error
		sn, ok := a.Snapshots[r.From]
		if !ok {
			return fmt.Errorf("%w: fork %s from a deleted snapshot", ErrNotFound, r.Name)
		}
		if st, err = a.Tree(sn); err != nil {
			return err
		}
		dir = sn.Dir
	}
	a.SetCounters(0, r.View+1)
	rules := parent.Policy
	rules.UnsharedBytes = 0
	w := a.AddWorkspace(WorkspaceRecord{
		View: r.View, Parent: r.WS, Fork: true, Name: r.Name, NextSeq: 1, Policy: rules, Claim: r.Claim, Expires: r.Expires, Dir: dir,
		Discard: r.Discard,
	})
	a.Made = append(a.Made, w)
	a.TouchWorkspace(w)
	parent.Forks[r.Name] = w
	a.touchForks(w)
	a.AddView(r.View, st)
	w.At = a.Changed(w.View)
	r.Base.Dir = dir
	return a.setBase(w, st, r.Base)
}

// Left returns the newest snapshot that the fork of a label left, nil if there is none.
func (w *Workspace) Left(label string) *Snapshot {
	return w.Snapshots.Last(func(sn *Snapshot) bool { return sn.Claim == label })
}

// Lease says until when a fork lives.
type Lease struct {
	View    uint32     `json:"view"`
	Expires *time.Time `json:"expires,omitempty"`
}

func (*Lease) Type() Type { return TypeLease }

func (r *Lease) apply(a *applying) error {
	if w, ok := a.Workspaces[r.View]; ok {
		w.Expires = r.Expires
		a.TouchWorkspace(w)
		a.touchForks(w)
	}
	return nil
}

// touchForks counts a change of a fork in those that it is in.
func (a *applying) touchForks(f *Workspace) {
	for up := a.Parent(f); up != nil; up = a.Parent(up) {
		up.ForkChanges++
		a.Altered[up.View] = true
	}
}

// RenameFork gives a fork another name.
type RenameFork struct {
	View uint32 `json:"view"`
	Name string `json:"name"`
}

func (*RenameFork) Type() Type { return TypeRenameFork }

// NewRenameFork returns the record of a rename that a user asked for.
func (w *Workspace) NewRenameFork(from, to string) (*RenameFork, error) {
	if err := naming.Check(to); err != nil {
		return nil, err
	}
	f, err := w.ForkNamed(from)
	if err != nil {
		return nil, err
	}
	if _, used := w.Forks[to]; used {
		return nil, errs.New(errs.Exist, "name in use: fork %q exists", to)
	}
	return &RenameFork{View: f.View, Name: to}, nil
}

func (r *RenameFork) apply(a *applying) error {
	f, ok := a.Workspaces[r.View]
	if !ok {
		return nil
	}
	if p, ok := a.Workspaces[f.Parent]; ok {
		delete(p.Forks, f.Name)
		p.Forks[r.Name] = f
	}
	f.Name = r.Name
	a.TouchWorkspace(f)
	return nil
}

// EndFork removes a fork.
type EndFork struct {
	View uint32          `json:"view"`
	Last *SnapshotRecord `json:"last"`
	// Full is the bookmark of a fork that was emptied before it was ended.
	Full *SnapshotRecord `json:"full,omitempty"`
	// Inside are the forks in it, which end before it; each after those in it.
	Inside []uint32 `json:"inside,omitempty"`
}

func (*EndFork) Type() Type { return TypeEndFork }

// NewDiscard returns the record of the end of a fork, with the forks in it, of which nothing is left.
func (c *Catalogue) NewDiscard(w, f *Workspace, by actors.Caller, now time.Time) (r *EndFork, err error) {
	f.Family(func(in *Workspace) {
		if err == nil {
			err = w.mayEnd(in, c.Snapshots[in.Base], by, now)
		}
	})
	return f.discarded(), err
}

func (f *Workspace) discarded() *EndFork {
	r := &EndFork{View: f.View}
	f.Family(func(in *Workspace) {
		if in != f {
			r.Inside = append(r.Inside, in.View)
		}
	})
	slices.Reverse(r.Inside)
	return r
}

// MayEnd refuses the end of a fork of w that has forks, or that the policy of w protects.
func (c *Catalogue) MayEnd(w, f *Workspace, by actors.Caller, now time.Time) error {
	if len(f.Forks) > 0 {
		return errs.New(errs.Busy, "busy: fork %q has forks of its own; delete those first", f.Name)
	}
	return w.mayEnd(f, c.Snapshots[f.Base], by, now)
}

// NewEnd returns the record of the end of a fork of w. It keeps the last state, which last
// describes, and what the fork was before it was emptied, as `rm -rf` does: full, nil if there is
// no such state. A fork that is to be discarded leaves neither. No limit keeps a fork from ending.
func (c *Catalogue) NewEnd(w *Workspace, v Views, f *Workspace, full *Snapshot, last info.Info) (*EndFork, error) {
	if f.Discard {
		return f.discarded(), nil
	}
	st := f.Present(v)
	left := func(name, message string, files, bytes int64) (*SnapshotRecord, error) {
		i := last
		i.Name, i.Kind, i.Message = w.freeName(name), info.KindFork, message
		sn, err := w.describe(v, i)
		sn.Dir = f.Dir
		sn.Files, sn.Bytes, sn.Actors = files, bytes, f.AllChanges(v).Names
		return &sn, err
	}
	r := &EndFork{View: f.View}
	var err error
	if r.Last, err = left(f.Name, "last state of fork "+f.Name, st.Inodes-1, st.Bytes); err != nil {
		return nil, err
	}
	r.Last.Lineage = c.Lineage(f, 0)
	if st.Inodes > 1 || full == nil {
		r.Last.Claim = f.Claim
		return r, nil
	}
	if r.Full, err = left(f.Name+"-before", "fork "+f.Name+" before it was emptied", full.Files, full.Bytes); err != nil {
		return nil, err
	}
	r.Full.Claim, r.Full.Lineage = f.Claim, r.Last.Lineage
	r.Last.Seq++
	return r, nil
}

// freeName is a name if no snapshot has it, or one made from it.
func (w *Workspace) freeName(name string) string {
	free := name
	for i := 2; ; i++ {
		if w.Snapshots.Named(free) == nil && naming.Check(free) == nil {
			return free
		}
		free = fmt.Sprintf("%.100s-%d", name, i)
	}
}

func (r *EndFork) apply(a *applying) error {
	for _, view := range r.Inside {
		if err := (&EndFork{View: view}).apply(a); err != nil {
			return err
		}
	}
	f, ok := a.Workspaces[r.View]
	if !ok {
		return nil
	}
	if err := r.keepLeft(a, f); err != nil {
		return err
	}
	if r.Last == nil {
		a.Own += max(0, f.Present(a).Bytes-a.baseBytes(f))
	}
	gone := a.WithOrigin(f)
	if sn, ok := a.Snapshots[f.Before]; ok {
		gone = append(gone, sn)
	}
	a.remove(gone...)
	a.DropView(f.View)
	delete(a.Workspaces, f.View)
	f.ended = true
	a.Altered[f.View] = true
	a.Removed = append(a.Removed, f.View)
	a.touchForks(f)
	if parent := a.Parent(f); parent != nil {
		delete(parent.Forks, f.Name)
	}
	a.Dirty[Key(Workspaces, f.View)] = f.View
	a.Garbage = true
	return nil
}

// keepLeft makes snapshots of the parent of what is left of a fork.
func (r *EndFork) keepLeft(a *applying, f *Workspace) error {
	changes := f.AllChanges(a)
	if full, ok := a.Snapshots[f.Before]; ok && r.Full != nil {
		was, err := a.Tree(full)
		if err != nil {
			return err
		}
		if err := a.keep(*r.Full, was, changes); err != nil {
			return err
		}
	}
	if r.Last == nil {
		return nil
	}
	return a.keep(*r.Last, f.Freeze(a), changes)
}
