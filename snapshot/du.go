package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/engine"
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
	return out, engine.NeedsRepair(err)
}

// holdings are all states of the store with what they exist for. The lock is held.
func (ss Snapshots) holdings(tx *live.Tx, names []string) (kept []usage.Holding, err error) {
	s := ss.w.store
	asked := make(map[*snap]bool)
	for _, name := range names {
		sn, err := s.cat.Find(ss.w.ws, name)
		if err != nil {
			return nil, err
		}
		asked[sn] = true
	}
	forks := make(map[*catalogue.Workspace]*usage.Owner) // those of the workspace, with the forks in them
	if len(names) == 0 {
		for _, f := range ss.w.ws.Forks {
			o := &usage.Owner{UsedBy: usage.UsedBy{Name: f.Name}}
			st := f.Present(tx)
			o.Files, o.Size = st.Inodes-1, st.Bytes
			f.Family(func(in *catalogue.Workspace) { forks[in] = o })
		}
	}
	by := func(w *catalogue.Workspace) *usage.Owner {
		if o, ok := forks[w]; ok {
			return o
		}
		return usage.Rest
	}
	snaps := make(map[uint32]*usage.Owner, len(s.cat.Snapshots))
	for view, sn := range s.cat.Snapshots {
		w := s.cat.Workspaces[sn.WS]
		o := by(w)
		if w == ss.w.ws && view != w.Base && view != w.Before && (len(names) == 0 || asked[sn]) {
			o = &usage.Owner{UsedBy: usage.UsedBy{Name: sn.Name, Files: sn.Files, Size: sn.Bytes}, Seq: sn.Seq}
		}
		snaps[view] = o
		kept = append(kept, usage.Holding{By: o, Root: sn.Root()})
	}
	for _, w := range s.cat.Workspaces {
		kept = append(kept, usage.Holding{By: by(w), Root: catalogue.Root{State: w.Freeze(tx)}})
		for _, r := range w.Restored {
			if o, ok := snaps[r.View]; ok {
				kept = append(kept, usage.Holding{By: o, Root: catalogue.Root{State: r.State}})
			}
		}
	}
	return kept, nil
}
