package snapshot

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/repair"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// salvage is what opening a damaged store had to leave out.
type salvage struct {
	left       live.Skipped // of the journal
	replaced   []string     // workspaces that go on from another state than their last
	incomplete atomic.Bool  // objects are missing that no repair can bring back
}

// readableState is the newest state of a workspace that can still be read, when
// its last one cannot; a fork falls back on what it came from, and at last
// there is an empty tree.
func (s opening) readableState(tx *live.Tx, w *catalogue.Workspace, cause error) *tree.State {
	s.salvage.replaced = append(s.salvage.replaced, w.Name)
	s.cat.TouchWorkspace(w.View)
	for at := w; at != nil; at = s.cat.Parent(at) {
		for _, sn := range slices.Backward(s.cat.WithOrigin(at)) {
			st, err := sn.Tree(s.src)
			if err == nil {
				_, err = st.Get(s.src, live.RootIno)
			}
			if err == nil {
				s.logger.Warn("the state of the workspace is damaged; it goes on from a snapshot",
					"workspace", w.Name, "snapshot", sn.Name, "err", cause)
				return st
			}
		}
	}
	s.logger.Warn("the state of the workspace and all its snapshots are damaged; it goes on empty",
		"workspace", w.Name, "err", cause)
	return s.emptyTree(tx, time.Now())
}

// addLoss adds to a report what a salvage could not read.
func (s entries) addLoss(r *repair.Report) {
	behind := false // there were changes, and it is unknown which
	for _, d := range s.log.Damage() {
		if rec := repair.InJournal(d); !slices.Contains(r.Damage, rec) {
			r.Damage = append(r.Damage, rec)
		}
		behind = behind || !d.Bytes && (d.Pos >= s.ckpt.at.Load() || d.Segment == "")
	}
	r.LostChanges = max(r.LostChanges, s.salvage.left.Changes)
	s.look(func(*live.Tx) {
		for _, name := range s.salvage.replaced {
			r.Affect(repair.Affected{Workspace: name})
		}
		for _, w := range s.cat.Workspaces {
			if behind {
				r.Affect(repair.Affected{Workspace: w.Name})
			}
		}
		for view := range s.salvage.left.Views {
			if w, ok := s.cat.Workspaces[view]; ok {
				r.Affect(repair.Affected{Workspace: w.Name})
			}
		}
		for _, f := range s.salvage.left.Foreign {
			for _, sn := range snapshotsIn(f) {
				if w, ok := s.cat.Workspaces[sn.WS]; ok && w.Snapshots.Named(sn.Name) == nil {
					r.Affect(repair.Affected{Workspace: w.Name, Snapshot: sn.Name})
				}
			}
		}
	})
}

// snapshotsIn are those that a record which was left out would have made.
func snapshotsIn(f live.Foreign) []storedSnapshot {
	var r struct {
		storedSnapshot
		Pre, Post, Snapshot, Last, Full storedSnapshot
	}
	switch catalogue.Type(f.Type) {
	case catalogue.TypeCapture, catalogue.TypeEdit, catalogue.TypePull, catalogue.TypeEndFork:
		_ = json.Unmarshal(f.Payload, &r)
	}
	all := []storedSnapshot{r.storedSnapshot, r.Pre, r.Post, r.Snapshot, r.Last, r.Full}
	return slices.DeleteFunc(all, func(r storedSnapshot) bool { return r.Name == "" })
}

// Repair rebuilds the index of a store that is not open from its packs and
// its journal, sets damaged records aside, and verifies the result.
func Repair(ctx context.Context, dir string, o Options, progress func(done, total int64)) (*repair.Report, error) {
	return repair.Repair(ctx, dir, cas.Options{FS: o.FS, Logger: o.Logger}, func(uid, gid uint32) (repair.Opened, error) {
		o.Salvage, o.Quiet, o.UID, o.GID = true, true, uid, gid
		return Open(dir, o)
	}, progress)
}

// Check verifies a store that is not open. One that does not open is read as Repair would
// leave it, and the report tells what that would lose. Nothing is changed but the
// index, and what a kill or a power cut has torn is cut off.
func Check(ctx context.Context, dir string, o Options, progress func(done, total int64)) (*repair.Report, error) {
	return repair.Check(ctx, func(salvage bool) (repair.Opened, error) {
		o.Quiet, o.ReadOnly, o.Salvage = true, true, o.Salvage || salvage
		return Open(dir, o)
	}, progress)
}

// Verify reads everything in the packs, checks that all that the workspaces
// and snapshots refer to is there, and names what is not, by path. After a salvage, it also
// names what that left out.
func (s *Store) Verify(ctx context.Context, progress func(done, total int64)) (*repair.Report, error) {
	r, err := repair.Parts{Objects: s.objects, Log: s.log, Source: s.src}.Run(ctx, progress, entries{s}.trees)
	if err == nil && s.opt.Salvage {
		entries{s}.addLoss(r)
		s.salvage.incomplete.Store(len(r.Affected) > 0 || r.Hidden)
	}
	return r, err
}

// trees are all states with what users call them.
func (s entries) trees() (out []repair.Tree) {
	s.alter(func(tx *live.Tx) {
		for _, w := range s.cat.Workspaces {
			out = append(out, repair.Tree{At: repair.Affected{Workspace: w.Name}, State: w.Freeze(tx)})
		}
		for _, sn := range s.cat.Snapshots {
			if w, ok := s.cat.Workspaces[sn.WS]; ok {
				st, _ := sn.Tree(s.src) // nil if it cannot be read
				at := repair.Affected{Workspace: w.Name, Snapshot: sn.Name}
				out = append(out, repair.Tree{At: at, State: st, Hidden: sn.View == w.Before})
			}
		}
	})
	return out
}
