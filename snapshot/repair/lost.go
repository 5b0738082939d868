package repair

import (
	"encoding/json"
	"slices"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Lost is what opening a damaged store had to leave out.
type Lost struct {
	Skipped  live.Skipped // of the journal
	Replaced []string     // workspaces that go on from another state than their last
}

// Report adds to a report what a salvage could not read. The journal was replayed from a
// position on. The lock of the catalogue is held.
func (l *Lost) Report(r *Report, damage []*journal.DamageError, from int64, cat *catalogue.Catalogue) {
	behind := false // there were changes, and it is unknown which
	for _, d := range damage {
		if rec := inJournal(d); !slices.Contains(r.Damage, rec) {
			r.Damage = append(r.Damage, rec)
		}
		behind = behind || !d.Bytes && (d.Pos >= from || d.Segment == "")
	}
	r.LostChanges = max(r.LostChanges, l.Skipped.Changes)
	for _, name := range l.Replaced {
		r.Affect(Affected{Workspace: name})
	}
	for view, w := range cat.Workspaces {
		if _, skipped := l.Skipped.Views[view]; behind || skipped {
			r.Affect(Affected{Workspace: w.Name})
		}
	}
	for _, f := range l.Skipped.Foreign {
		for _, sn := range snapshotsIn(f) {
			if w, ok := cat.Workspaces[sn.WS]; ok && w.Snapshots.Named(sn.Name) == nil {
				r.Affect(Affected{Workspace: w.Name, Snapshot: sn.Name})
			}
		}
	}
}

// snapshotsIn are those that a record which was left out would have made.
func snapshotsIn(f live.Foreign) []catalogue.SnapshotRecord {
	var r struct {
		catalogue.SnapshotRecord
		Pre, Post, Snapshot, Last, Full catalogue.SnapshotRecord
	}
	switch catalogue.Type(f.Type) {
	case catalogue.TypeCapture, catalogue.TypeEdit, catalogue.TypePull, catalogue.TypeEndFork:
		_ = json.Unmarshal(f.Payload, &r)
	}
	all := []catalogue.SnapshotRecord{r.SnapshotRecord, r.Pre, r.Post, r.Snapshot, r.Last, r.Full}
	return slices.DeleteFunc(all, func(r catalogue.SnapshotRecord) bool { return r.Name == "" })
}

// Trees are all states of a store with what users call them. The lock of the catalogue is held.
func Trees(cat *catalogue.Catalogue, views catalogue.Views, src *tree.Source) (out []Tree) {
	for _, w := range cat.Workspaces {
		out = append(out, Tree{At: Affected{Workspace: w.Name}, View: w.View, State: w.Freeze(views)})
	}
	for _, sn := range cat.Snapshots {
		if w, ok := cat.Workspaces[sn.WS]; ok {
			st, _ := sn.Tree(src) // nil if it cannot be read
			at := Affected{Workspace: w.Name, Snapshot: sn.Name}
			out = append(out, Tree{At: at, View: sn.View, State: st, Hidden: sn.View == w.Before})
		}
	}
	return out
}
