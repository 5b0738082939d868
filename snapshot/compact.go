package snapshot

import (
	"context"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type CompactOptions struct {
	Names   []string      `json:"names" jsonschema:"the snapshots, two or more"`
	Name    string        `json:"name" jsonschema:"the name of the new snapshot"`
	Message string        `json:"message,omitempty" jsonschema:"its message"`
	Caller  actors.Caller `json:"-"`
}

// Compacted is the result of Compact: the new snapshot, and the names of the deleted and of the kept snapshots.
type Compacted struct {
	info.Info
	Removed []string `json:"removed" jsonschema:"the deleted snapshots"`
	Kept    []string `json:"kept" jsonschema:"snapshots that were kept because they are pinned"`
}

// Compact makes one snapshot with all paths of the named snapshots. At each path it has the file of the newest of
// these snapshots that contains the path. Compact deletes the named snapshots, except pinned ones. If the policy
// protects one of them, Compact fails and changes nothing.
func (ss Snapshots) Compact(ctx context.Context, o CompactOptions) (Compacted, error) {
	s := ss.w.store
	if err := naming.Check(o.Name); err != nil {
		return Compacted{}, err
	}
	if err := naming.CheckDescription(o.Message, nil); err != nil {
		return Compacted{}, err
	}

	var snaps []*catalogue.Snapshot
	var states []*tree.State
	var err error
	ss.w.withReadLock(func() { snaps, states, err = ss.findToCompact(o) })
	if err != nil {
		return Compacted{}, err
	}
	for _, st := range states {
		defer s.Hold(st)()
	}

	st, err := graft.Union(ctx, s.src, s.forest.Counters, states)
	if err != nil {
		return Compacted{}, err
	}
	defer s.Hold(st)()

	id, err := s.sealer.SealInTurn(ctx, ss.w.ws.View, st)
	if err != nil {
		return Compacted{}, err
	}
	if err := s.cas.Commit(); err != nil {
		return Compacted{}, err
	}

	highest, err := st.HighestIno(s.src)
	if err != nil {
		return Compacted{}, err
	}

	var out Compacted
	err = s.forest.Update(true, func(tx *live.Tx) error {
		if err := s.cat.CheckCompact(ss.w.ws, o.Name, snaps, o.Caller, s.opt.Now()); err != nil {
			return err
		}

		sn := CaptureOptions{Name: o.Name, Kind: info.KindManual, Message: o.Message, Caller: o.Caller}.describe(s.opt.Now())
		sn.ID = id.String()
		r, removed, kept, err := catalogue.NewCompacted(s.cat, tx, ss.w.ws, sn, st, highest, snaps)
		if err != nil {
			return err
		}
		r.Op = ss.w.Ops().newOp(catalogue.OpCompact, strings.Join(removed, " "), o.Caller)
		r.Op.NewName, r.Op.ResultView = o.Name, r.Snapshot.View
		ss.w.Ops().keepRemoved(r.Op, r.DeletedViews)
		if err := s.applier(tx).commit(r, o.Caller); err != nil {
			return err
		}

		out = Compacted{s.cat.Snapshots.At(r.Snapshot.View).Info, removed, kept}

		return nil
	})
	if err != nil {
		return Compacted{}, err
	}

	s.Hooks.emit(events.Event{Workspace: ss.w.ws.View, Action: "captured", From: o.Name}, o.Caller)
	for _, name := range out.Removed {
		s.Hooks.emit(events.Event{Workspace: ss.w.ws.View, Action: "removed", From: name}, o.Caller)
	}

	return out, s.Sync()
}

// findToCompact returns the snapshots to compact with their states, newest first. The caller holds the lock of the
// forest.
func (ss Snapshots) findToCompact(o CompactOptions) (snaps []*catalogue.Snapshot, states []*tree.State, err error) {
	s := ss.w.store
	if snaps, err = s.cat.SnapshotsToCompact(ss.w.ws, o.Names); err != nil {
		return nil, nil, err
	}

	for _, sn := range snaps {
		st, err := sn.Tree(s.src)
		if err != nil {
			return nil, nil, err
		}
		states = append(states, st)
	}

	if err := s.cat.CheckCompact(ss.w.ws, o.Name, snaps, o.Caller, s.opt.Now()); err != nil {
		return nil, nil, err
	}
	if len(snaps) < 2 {
		return nil, nil, errs.New(errs.Invalid, "malformed request: compact needs two or more snapshots")
	}

	return snaps, states, nil
}
