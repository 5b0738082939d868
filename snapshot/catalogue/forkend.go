package catalogue

import (
	"fmt"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// EndFork is the record of the end of a fork.
type EndFork struct {
	View uint32 `json:"view"`
	// LastState is a snapshot of the fork's last state, which is added to the parent; nil if the state is discarded.
	LastState *SnapshotRecord `json:"last"`
	// FullState is a snapshot of the fork's bookmark, if the fork was emptied before it was ended; else nil.
	FullState *SnapshotRecord `json:"full,omitempty"`
	// InnerForks are the views of the forks inside the fork, in the order in which they are removed: a fork after
	// the forks inside it.
	InnerForks []uint32 `json:"inside,omitempty"`
	// Op, if not nil, is the operation by which a user of the parent can undo this end. If Op.Kept contains the fork, the fork and the forks inside it
	// stay in the catalogue.
	Op *Op `json:"op,omitempty"`
}

func (*EndFork) Type() Type { return TypeEndFork }

// NewDiscard returns the record of the end of a fork and the forks below it, without snapshots of their
// last states.
func NewDiscard(c *Catalogue, w, f *Workspace, caller actors.Caller, now time.Time) (r *EndFork, err error) {
	f.WalkFamily(func(in *Workspace) {
		if err == nil {
			err = w.checkEnd(in, c.Snapshots.At(in.Base), caller, now)
		}
	})
	return f.newUncheckedDiscard(), err
}

// newUncheckedDiscard returns the same record as NewDiscard, without its checks.
func (f *Workspace) newUncheckedDiscard() *EndFork {
	r := &EndFork{View: f.View}
	f.WalkFamily(func(in *Workspace) {
		if in != f {
			r.InnerForks = append(r.InnerForks, in.View)
		}
	})

	slices.Reverse(r.InnerForks)
	return r
}

// CheckEnd returns an error if a fork of w cannot be ended, because it has forks or the policy of w
// protects it.
func (c *Catalogue) CheckEnd(w, f *Workspace, caller actors.Caller, now time.Time) error {
	if len(f.forks) > 0 {
		return errs.New(errs.Busy, "busy: fork %q has forks of its own; delete those first", f.Name)
	}
	return w.checkEnd(f, c.Snapshots.At(f.Base), caller, now)
}

// NewEnd returns the record of the end of f, a fork of w. The record adds to w a snapshot of the fork's last state.
// last describes this snapshot. bookmark is the fork's bookmark, which was taken before its files were removed,
// as by `rm -rf`. It may be nil. If the fork is empty and has a bookmark, the record also adds a snapshot of the
// bookmark to w. If Discard is set for the fork, the record adds no snapshots. The limits of forks do not apply, so
// that a fork can always end.
func NewEnd(c *Catalogue, w *Workspace, v Views, f *Workspace, bookmark *Snapshot, last SnapshotRecord) (*EndFork, error) {
	if f.Discard {
		return f.newUncheckedDiscard(), nil
	}
	st := f.PresentState(v)
	stateOf := func(name, message string, files, bytes int64) (*SnapshotRecord, error) {
		sn := last
		sn.Name, sn.Kind, sn.Message = w.freeName(name), info.KindFork, message
		err := sn.placeNext(v, w)
		sn.DirState = f.DirState
		sn.Files, sn.Bytes, sn.Actors = files, bytes, f.AllChanges(v).Names
		return &sn, err
	}

	r := &EndFork{View: f.View}
	var err error
	if r.LastState, err = stateOf(f.Name, "last state of fork "+f.Name, st.Inodes-1, st.Bytes); err != nil {
		return nil, err
	}

	r.LastState.Lineage = c.Lineage(f, 0)
	if st.Inodes > 1 || bookmark == nil {
		r.LastState.Claim = f.Claim
		return r, nil
	}

	if r.FullState, err = stateOf(f.Name+"-before", "fork "+f.Name+" before it was emptied", bookmark.Files, bookmark.Bytes); err != nil {
		return nil, err
	}

	r.FullState.Claim, r.FullState.Lineage = f.Claim, r.LastState.Lineage
	r.LastState.Seq++ // FullState has the sequence number before it
	return r, nil
}

// freeName returns name, or name with a number if a snapshot has that name.
func (w *Workspace) freeName(name string) string {
	free := name
	for i := 2; ; i++ {
		if w.Snapshots.Named(free) == nil && naming.Check(free) == nil {
			return free
		}
		free = fmt.Sprintf("%.100s-%d", name, i)
	}
}

func (r *EndFork) apply(a *applyRun) error {
	kept := r.Op != nil && len(r.Op.Kept) > 0
	if !kept {
		for _, view := range r.InnerForks {
			if err := (&EndFork{View: view}).apply(a); err != nil {
				return err
			}
		}
	}

	f := a.cat.Workspaces.At(r.View)
	if f == nil {
		return nil
	}
	if err := r.addLastStates(a, f); err != nil {
		return err
	}

	parent := a.cat.Parent(f)
	a.countForkChange(f)
	if parent != nil && parent.forks[f.Name] == f {
		delete(parent.forks, f.Name)
	}

	if kept {
		f.WalkFamily(func(in *Workspace) {
			in.Ended = f.View
			a.trees.SetViewEnded(in.View, true)
			a.cat.TouchWorkspace(in)
		})
	} else if err := r.remove(a, f); err != nil {
		return err
	}
	if parent == nil {
		return nil
	}

	return a.logOp(parent, r.Op)
}

// remove removes a fork with its snapshots.
func (r *EndFork) remove(a *applyRun, f *Workspace) error {
	for i := range f.Ops {
		if err := a.dropKept(f, &f.Ops[i]); err != nil {
			return err
		}
	}

	if r.LastState == nil {
		a.OwnBytes += max(0, f.PresentState(a.trees).Bytes-a.baseBytes(f))
	}

	snaps := a.cat.SnapshotsWithBase(f)
	if sn := a.cat.Snapshots.At(f.BookmarkView); sn != nil {
		snaps = append(snaps, sn)
	}

	a.removeSnapshots(snaps...)

	a.trees.DropView(f.View)
	delete(a.cat.Workspaces.all, f.View)
	f.Ended = f.View
	a.cat.alteredViews[f.View] = true
	a.RemovedViews = append(a.RemovedViews, f.View)
	a.cat.Unwritten.MarkChanged(WorkspacePrefix, f.View)
	a.HasGarbage = true

	return nil
}

// addLastStates adds the snapshots FullState and LastState to the parent of a fork.
func (r *EndFork) addLastStates(a *applyRun, f *Workspace) error {
	changes := f.AllChanges(a.trees)

	if full := a.cat.Snapshots.At(f.BookmarkView); full != nil && r.FullState != nil {
		was, err := a.trees.Tree(full)
		if err != nil {
			return err
		}
		if err := a.addState(*r.FullState, was, changes); err != nil {
			return err
		}
	}
	if r.LastState == nil {
		return nil
	}

	return a.addState(*r.LastState, a.trees.Freeze(f.View), changes)
}
