package repair

import (
	"encoding/json"
	"slices"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// LostData has the data that a salvage could not read.
type LostData struct {
	Skipped        live.SkippedRecords // records of the journal
	LostWorkspaces []string            // names of workspaces whose last state was lost
}

// AddToReport adds the data that a salvage could not read to a report. start is the position from which the
// journal was replayed. The caller holds the lock of the catalogue.
func (l *LostData) AddToReport(r *Report, damage []*journal.DamageError, start int64, cat *catalogue.Catalogue) {
	changesLost := false // whether changes were lost whose workspace is not known
	for _, d := range damage {
		if rec := journalDamage(d); !slices.Contains(r.Damage, rec) {
			r.Damage = append(r.Damage, rec)
		}
		changesLost = changesLost || !d.OnlyBytes && (d.Pos >= start || d.Segment == "")
	}

	r.LostChanges = max(r.LostChanges, l.Skipped.Count)
	for _, name := range l.LostWorkspaces {
		r.AddAffected(Affected{Workspace: name})
	}

	for view, w := range cat.Workspaces.All() {
		if _, skipped := l.Skipped.CountByView[view]; changesLost || skipped {
			r.AddAffected(Affected{Workspace: w.Name})
		}
	}

	for _, f := range l.Skipped.Foreign {
		for _, sn := range snapshotsIn(f) {
			if w := cat.Workspaces.At(sn.WS); w != nil && w.Snapshots.Named(sn.Name) == nil {
				r.AddAffected(Affected{Workspace: w.Name, Snapshot: sn.Name})
			}
		}
	}
}

// snapshotsIn returns the snapshots that a skipped record would have made.
func snapshotsIn(f live.ForeignRecord) []catalogue.SnapshotRecord {
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

// Trees returns all states of a store with their names. The caller holds the lock of the catalogue.
func Trees(cat *catalogue.Catalogue, views catalogue.Views, src *tree.Source) (out []Tree) {
	for _, w := range cat.Workspaces.All() {
		out = append(out, Tree{Names: Affected{Workspace: w.Name}, View: w.View, State: views.Freeze(w.View)})
	}

	for _, sn := range cat.Snapshots.All() {
		if w := cat.Workspaces.At(sn.WS); w != nil {
			st, _ := sn.Tree(src) // nil if the state cannot be read
			at := Affected{Workspace: w.Name, Snapshot: sn.Name}
			out = append(out, Tree{Names: at, View: sn.View, State: st, Hidden: sn.View == w.BookmarkView || cat.IsHidden(sn)})
		}
	}

	return out
}
