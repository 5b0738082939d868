package catalogue

import (
	"fmt"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Fork is the record of a new fork.
type Fork struct {
	WS   uint32         `json:"ws"`   // the view of the parent
	View uint32         `json:"view"` // the view of the fork
	Name string         `json:"name"`
	Base SnapshotRecord `json:"base"`
	// The fork starts from one of three states: the present state of its parent, if FromPresent is set; the
	// present state of the workspace with the view PresentOf, if PresentOf is set; else the snapshot with the
	// view FromSnapshot.
	FromSnapshot uint32 `json:"from"`
	FromPresent  bool   `json:"now"`
	PresentOf    uint32 `json:"of,omitempty"`
	// Claim is the label with which the fork was claimed, or "".
	Claim   string     `json:"claim,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// Discard means that no snapshot of the fork's last state is added to the parent when the fork ends.
	Discard bool `json:"discard,omitempty"`
	// Placeholders are left out of the parent's present state, as in a Capture.
	Placeholders []naming.BytePath `json:"placeholders,omitempty"`

	// Restrictions is set if the fork has restrictions that its parent does not have.
	Restrictions *Restrictions `json:"restricted,omitempty"`
	// State and DirState are set only if paths are hidden. State is the id of the state from which the fork
	// starts, without the hidden paths. DirState is the id of the parent's WorkspaceRecord.DirState without the
	// hidden paths.
	State    string `json:"state,omitempty"`
	DirState string `json:"dir,omitempty"`
}

// Restrictions are fields of the policy of a fork that its creation sets.
type Restrictions struct {
	Hide        []string `json:"hide,omitempty"`
	HideAsEmpty bool     `json:"hide_empty,omitempty"`
	ReadOnly    []string `json:"read_only,omitempty"`
}

func (*Fork) Type() Type { return TypeFork }

// StartFrom completes the record of a fork of w. The caller has set the name, claim and expiry of the fork,
// and in Base the time and the user's process. from is the state from which the fork starts: "" for the
// present state of w, FORK/ for the present state of a fork of w, else the name of a snapshot.
func (r *Fork) StartFrom(c *Catalogue, t Trees, w *Workspace, from string) error {
	if err := w.CheckAlive(); err != nil {
		return err
	}
	if _, used := w.forks[r.Name]; used {
		return errs.New(errs.Exist, "name in use: fork %q exists; choose another name", r.Name)
	}
	if err := c.checkLimits(w, 0); err != nil {
		return err
	}

	r.WS, r.FromPresent = w.View, from == ""
	fork, present := strings.CutSuffix(from, "/")
	switch {
	case r.FromPresent:
	case present:
		f, err := w.ForkNamed(fork)
		if err != nil {
			return err
		}
		r.PresentOf = f.View

	default:
		sn, name, err := c.findBelow(w, from)
		if err != nil {
			return err
		}
		if _, err := t.Tree(sn); err != nil {
			return err
		}

		r.FromSnapshot, r.Base.Parent, r.Base.Lineage = sn.View, name, sn.Lineage
	}

	var err error
	if r.View, err = t.NewView(); err != nil {
		return err
	}

	r.Base.WS, r.Base.Name, r.Base.Kind = r.View, "base", info.KindFork
	r.Base.View, err = t.NewView()
	return err
}

// findBelow finds a snapshot as Find does. In addition, FORK/SNAPSHOT names a snapshot of a fork of w. fullName is
// the name of the snapshot, with FORK/ before it if the snapshot is in a fork of w.
func (c *Catalogue) findBelow(w *Workspace, name string) (sn *Snapshot, fullName string, err error) {
	fork, in, below := strings.Cut(name, "/")
	if !below || strings.HasPrefix(name, "label:") {
		sn, err = c.Find(w, name)
		if err != nil {
			return nil, "", err
		}
		return sn, sn.Name, nil
	}

	f, err := w.ForkNamed(fork)
	if err != nil {
		return nil, "", err
	}

	sn, fullName, err = c.findBelow(f, in)
	return sn, fork + "/" + fullName, err
}

func (r *Fork) apply(a *applyRun) error {
	parent := a.cat.Workspaces.At(r.WS)
	if parent == nil {
		return fmt.Errorf("%w: the parent of %s", ErrNoFork, r.Name)
	}

	st, dir, err := r.startState(a, parent)
	if err != nil {
		return err
	}

	a.trees.SetCounters(0, r.View+1)
	rules := parent.Policy
	rules.UnsharedBytes = 0
	if x := r.Restrictions; x != nil {
		rules.Hide, rules.HideAsEmpty, rules.ReadOnly = x.Hide, x.HideAsEmpty, x.ReadOnly
	}

	w := a.cat.addWorkspace(WorkspaceRecord{
		View: r.View, Parent: r.WS, Fork: true, Name: r.Name, NextSeq: 1, Policy: rules, Claim: r.Claim, Expires: r.Expires, DirState: dir,
		Discard: r.Discard,
	})
	a.NewForks = append(a.NewForks, w)
	a.cat.TouchWorkspace(w)
	parent.forks[r.Name] = w
	a.countForkChange(w)
	a.trees.AddView(r.View, st)
	w.ChangeNumberAtCapture = a.trees.ChangeNumber(w.View)
	r.Base.DirState = dir
	return a.setBase(w, st, r.Base)
}

// startState returns the state from which the fork starts, and the fork's WorkspaceRecord.DirState.
func (r *Fork) startState(a *applyRun, parent *Workspace) (st *tree.State, dir string, err error) {
	if r.State != "" {
		st, _, err = a.loadPushed(r.State)
		return st, r.DirState, err
	}

	if r.FromPresent {
		return a.trees.WithoutEmpty(a.trees.Freeze(parent.View), r.Placeholders), parent.DirState, nil
	}

	if r.PresentOf != 0 {
		w := a.cat.Workspaces.At(r.PresentOf)
		if w == nil {
			return nil, "", fmt.Errorf("%w: the fork that %s starts from", ErrNoFork, r.Name)
		}
		return a.trees.Freeze(w.View), w.DirState, nil
	}

	sn := a.cat.Snapshots.At(r.FromSnapshot)
	if sn == nil {
		return nil, "", fmt.Errorf("%w: fork %s from a deleted snapshot", ErrNotFound, r.Name)
	}

	st, err = a.trees.Tree(sn)
	return st, sn.DirState, err
}

// LastStateOfClaim returns the snapshot of the last state of the fork that was claimed with the given label. If
// several such forks have ended, it is the newest of these snapshots. It returns nil if there is none.
func (w *Workspace) LastStateOfClaim(label string) *Snapshot {
	return w.Snapshots.newestMatching(func(r *row) bool { return r.claimed == (label != "") }, func(sn *Snapshot) bool { return sn.Claim == label })
}

// Lease is the record of a new expiry time of a fork.
type Lease struct {
	View    uint32     `json:"view"`
	Expires *time.Time `json:"expires,omitempty"`
}

func (*Lease) Type() Type { return TypeLease }

func (r *Lease) apply(a *applyRun) error {
	w := a.cat.Workspaces.At(r.View)
	if w == nil {
		return nil
	}

	w.Expires = r.Expires
	a.cat.TouchWorkspace(w)
	a.countForkChange(w)

	return nil
}

// countForkChange counts a change of a fork in ForkChangeCount of all workspaces above it.
func (a *applyRun) countForkChange(f *Workspace) {
	for up := a.cat.Parent(f); up != nil; up = a.cat.Parent(up) {
		up.ForkChangeCount++
		a.cat.alteredViews[up.View] = true
	}
}

// RenameFork is the record of a new name of a fork.
type RenameFork struct {
	View uint32 `json:"view"`
	Name string `json:"name"`
	Op   *Op    `json:"op,omitempty"` // the operation of the parent, for its undo
}

func (*RenameFork) Type() Type { return TypeRenameFork }

// NewRenameFork returns the record of a rename of a fork for a user.
func (w *Workspace) NewRenameFork(name, newName string) (*RenameFork, error) {
	if err := naming.Check(newName); err != nil {
		return nil, err
	}

	f, err := w.ForkNamed(name)
	if err != nil {
		return nil, err
	}
	if _, used := w.forks[newName]; used {
		return nil, errs.New(errs.Exist, "name in use: fork %q exists", newName)
	}

	return &RenameFork{View: f.View, Name: newName}, nil
}

func (r *RenameFork) apply(a *applyRun) error {
	f := a.cat.Workspaces.At(r.View)
	if f == nil {
		return nil
	}

	if p := a.cat.Workspaces.At(f.Parent); p != nil {
		delete(p.forks, f.Name)
		p.forks[r.Name] = f
	}

	f.Name = r.Name
	a.cat.TouchWorkspace(f)
	if p := a.cat.Parent(f); p != nil {
		return a.logOp(p, r.Op)
	}

	return nil
}
