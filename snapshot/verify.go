package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/verify"
)

// Verify reads everything in the packs, checks that all that the workspaces
// and snapshots refer to is there, and names what is not, by path. After a salvage, it also
// names what that left out.
func (s *Store) Verify(ctx context.Context, progress func(done, total int64)) (*verify.Report, error) {
	r, err := verify.Store{Objects: s.objects, Log: s.log, Outside: s.outside.Outside.Load(), Source: s.src}.Run(ctx, progress, s.trees)
	if err == nil && s.opt.Salvage {
		s.addLoss(r)
		s.salvage.incomplete.Store(len(r.Affected) > 0 || r.Hidden)
	}
	return r, err
}

// trees are all states with what users call them.
func (s *Store) trees() (out []verify.Tree) {
	s.alter(func(tx *live.Tx) {
		for _, w := range s.cat.workspaces {
			out = append(out, verify.Tree{At: verify.Affected{Workspace: w.rec.Name}, State: w.freeze(tx)})
		}
		for _, sn := range s.cat.snaps {
			if w, ok := s.cat.workspaces[sn.WS]; ok {
				st, _ := sn.Tree(s.src) // nil if it cannot be read
				at := verify.Affected{Workspace: w.rec.Name, Snapshot: sn.Name}
				out = append(out, verify.Tree{At: at, State: st, Hidden: sn.View == w.rec.Before})
			}
		}
	})
	return out
}
