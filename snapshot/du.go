package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/collection"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/usage"
)

// DiskUsage counts what deleting each of the named snapshots would give back, and all of
// them together; without names that of all snapshots and forks of the workspace. It
// seals what is not sealed yet.
func (ss Snapshots) DiskUsage(ctx context.Context, names []string) (*usage.Disk, error) {
	s := ss.w.store
	if err := s.Checkpoint(ctx); err != nil {
		return nil, err
	}
	defer s.gc.Puts.Enter()() // no gc takes away what is counted
	var kept []usage.Holding
	var err error
	s.alter(func(tx *live.Tx) { kept, err = ss.holdings(tx, names) })
	if err != nil {
		return nil, err
	}
	out, err := usage.Count(ctx, s.objects, s.src, s.salvage.incomplete.Load(), kept)
	return out, collection.NeedsRepair(err)
}

// holdings are all states of the store with what they exist for. The lock is held.
func (ss Snapshots) holdings(tx *live.Tx, names []string) (kept []usage.Holding, err error) {
	s := ss.w.store
	asked := make(map[*snap]bool)
	for _, name := range names {
		sn, err := s.cat.find(ss.w, name)
		if err != nil {
			return nil, err
		}
		asked[sn] = true
	}
	forks := make(map[*Workspace]*usage.Owner) // those of the workspace, with the forks in them
	if len(names) == 0 {
		for _, f := range ss.w.forks {
			o := &usage.Owner{UsedBy: usage.UsedBy{Name: f.rec.Name}}
			st := f.present(tx)
			o.Files, o.Size = st.Inodes-1, st.Bytes
			f.family(func(in *Workspace) { forks[in] = o })
		}
	}
	by := func(w *Workspace) *usage.Owner {
		if o, ok := forks[w]; ok {
			return o
		}
		return usage.Rest
	}
	snaps := make(map[uint32]*usage.Owner, len(s.cat.snaps))
	for view, sn := range s.cat.snaps {
		w := s.cat.workspaces[sn.WS]
		o := by(w)
		if w == ss.w && view != w.rec.Base && view != w.rec.Before && (len(names) == 0 || asked[sn]) {
			o = &usage.Owner{UsedBy: usage.UsedBy{Name: sn.Name, Files: sn.Files, Size: sn.Bytes}, Seq: sn.Seq}
		}
		snaps[view] = o
		kept = append(kept, usage.Holding{By: o, Root: sn.Root()})
	}
	for _, w := range s.cat.workspaces {
		kept = append(kept, usage.Holding{By: by(w), Root: catalogue.Root{State: w.freeze(tx)}})
		for _, r := range w.restored {
			if o, ok := snaps[r.view]; ok {
				kept = append(kept, usage.Holding{By: o, Root: catalogue.Root{State: r.state}})
			}
		}
	}
	return kept, nil
}
