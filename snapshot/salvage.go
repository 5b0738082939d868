package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/repair"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Repair rebuilds the index of a store that is not open from its packs and
// its journal, moves damaged records into quarantine, and verifies the result.
func Repair(ctx context.Context, dir string, o Options, progress func(done, total int64)) (*repair.Report, error) {
	return repair.Repair(ctx, dir, cas.Options{FS: o.FS, Logger: o.Logger}, func(uid, gid uint32) (repair.Store, error) {
		o.Salvage, o.Quiet, o.UID, o.GID = true, true, uid, gid
		return Open(dir, o)
	}, progress)
}

// Check verifies a store that is not open. If the store does not open, the report lists the data that Repair
// would lose. Like a mount, Check may change files of the store, but only in these ways:
//   - It may write the index.
//   - It truncates files that end with an incomplete record after a kill or a power cut.
//   - It stores the contents of the journal if they would take too much memory.
func Check(ctx context.Context, dir string, o Options, progress func(done, total int64)) (*repair.Report, error) {
	return repair.VerifyClosed(ctx, func(salvage bool) (repair.Store, error) {
		o.Quiet, o.ReadOnly, o.Salvage = true, true, o.Salvage || salvage
		s, err := Open(dir, o)
		if errors.Is(err, engine.ErrReplayMemory) && !o.Salvage {
			o.ReadOnly = false
			return Open(dir, o)
		}

		return s, err
	}, progress)
}

// holdTree protects the present state of a workspace or the state of a snapshot from gc, and returns it. ok is
// false if t no longer exists. st is nil if the state cannot be read.
func holdTree(s *engine.Parts, t repair.Tree) (st *tree.State, release func(), ok bool) {
	release = func() {}
	s.Forest.WithLock(func(tx *live.Tx) {
		if w := s.Catalogue.Workspaces.At(t.View); w != nil {
			st, ok = tx.Freeze(w.View), true
		} else if sn := s.Catalogue.Snapshots.At(t.View); sn != nil {
			st, _ = sn.Tree(s.Source)
			ok = true
		}

		if st != nil {
			release = s.Pins.Hold(st)
		}
	})

	return st, release, ok
}

// Verify reads all objects in the packs, and reports damaged and missing objects by the paths of
// workspaces and snapshots that reference them. After a salvage, the report also lists the data
// that the salvage could not read.
func (s *Store) Verify(ctx context.Context, progress func(done, total int64)) (*repair.Report, error) {
	r, err := repair.Parts{Objects: s.objects, Log: s.log, Source: s.src, HoldTree: func(t repair.Tree) (*tree.State, func(), bool) { return holdTree(&s.parts, t) }}.Verify(ctx, progress, func() (all []repair.Tree) {
		s.forest.WithLock(func(tx *live.Tx) { all = repair.Trees(s.cat, tx, s.src) })
		return all
	})
	if err != nil {
		return r, err
	}

	if s.opt.Salvage {
		s.forest.WithReadLock(func(*live.Tx) { s.lostData.AddToReport(r, s.log.Damage(), s.ckpt.LastPos.Load(), s.cat) })
		s.parts.Incomplete.Store(len(r.Affected) > 0 || r.Hidden)
	}

	if r.OK() {
		s.gc.SetDamage(nil)
		return r, nil
	}

	s.gc.SetDamage(fmt.Errorf("the store is damaged, which concerns %d paths; unmount it and run `amberfs verify --repair`", len(r.Affected)))

	return r, nil
}
