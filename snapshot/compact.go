package snapshot

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/graft"
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

// Compacted is the new snapshot, and what became of the others.
type Compacted struct {
	Info
	Removed []string `json:"removed" jsonschema:"the deleted snapshots"`
	Kept    []string `json:"kept" jsonschema:"snapshots that were kept because they are pinned"`
}

// Compact makes one snapshot of all files that some snapshots have, of each path the
// version of the newest that has it, and deletes the others, but for those that are
// pinned. If one of them may not be deleted, nothing happens.
func (ss Snapshots) Compact(ctx context.Context, o CompactOptions) (Compacted, error) {
	s := ss.w.store
	if err := naming.Check(o.Name); err != nil {
		return Compacted{}, err
	}
	if err := naming.CheckDescription(o.Message, nil); err != nil {
		return Compacted{}, err
	}
	var snaps []*snap
	var states []*tree.State
	var err error
	ss.w.read(func() { snaps, states, err = ss.toCompact(o) })
	if err != nil {
		return Compacted{}, err
	}
	for _, st := range states {
		defer s.Hold(st)()
	}
	st, err := graft.Union(ctx, s.src, s.forest, states)
	if err != nil {
		return Compacted{}, err
	}
	defer s.Hold(st)()
	id, err := s.seal.InTurn(ctx, ss.w.rec.View, st)
	if err != nil {
		return Compacted{}, err
	}
	if err := s.cas.Commit(); err != nil {
		return Compacted{}, err
	}
	highest, err := st.Highest(s.src)
	if err != nil {
		return Compacted{}, err
	}
	out := Compacted{Removed: []string{}, Kept: []string{}}
	err = s.forest.Update(true, func(tx *live.Tx) error {
		if err := ss.mayCompact(o, snaps); err != nil {
			return err
		}
		r, err := ss.newSnapshot(tx, CaptureOptions{Name: o.Name, Kind: KindManual, Message: o.Message, Caller: o.Caller})
		if err != nil {
			return err
		}
		r.ID, r.Files, r.Bytes, r.Parent = id.String(), st.Inodes-1, st.Bytes, ""
		r.Actors = nil
		made := pullRecord{Snapshot: r, NextIno: highest + 1}
		for _, sn := range snaps {
			made.Of = append(made.Of, sn.View)
		}
		for _, sn := range snaps {
			if sn.Pinned {
				out.Kept = append(out.Kept, sn.Name)
				continue
			}
			made.Gone = append(made.Gone, sn.View)
			out.Removed = append(out.Removed, sn.Name)
		}
		if err := s.commit(tx, recPull, &made); err != nil {
			return err
		}
		out.Info = s.cat.snaps[r.View].Info
		return nil
	})
	if err != nil {
		return Compacted{}, err
	}
	s.event(Event{Workspace: ss.w.rec.View, Action: "captured", From: o.Name}, o.Caller)
	for _, name := range out.Removed {
		s.event(Event{Workspace: ss.w.rec.View, Action: "removed", From: name}, o.Caller)
	}
	return out, s.Sync()
}

// toCompact finds the snapshots, newest first. The lock is held.
func (ss Snapshots) toCompact(o CompactOptions) (snaps []*snap, states []*tree.State, err error) {
	for _, name := range o.Names {
		sn, err := ss.w.store.cat.find(ss.w, name)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(snaps, sn) {
			snaps = append(snaps, sn)
		}
	}
	slices.SortFunc(snaps, func(a, b *snap) int { return int(b.Seq) - int(a.Seq) })
	for _, sn := range snaps {
		st, err := sn.Tree(ss.w.store.src)
		if err != nil {
			return nil, nil, err
		}
		states = append(states, st)
	}
	if err = ss.mayCompact(o, snaps); err == nil && len(snaps) < 2 {
		err = errs.New(errs.Invalid, "malformed request: compact needs two or more snapshots")
	}
	return snaps, states, err
}

// mayCompact refuses a name in use, and what may not be deleted. The lock is held.
func (ss Snapshots) mayCompact(o CompactOptions, snaps []*snap) error {
	if err := ss.w.alive(); err != nil {
		return err
	}
	if ss.w.snaps.Named(o.Name) != nil {
		return errs.New(errs.Exist, "snapshot %q exists", o.Name)
	}
	for _, sn := range snaps {
		if ss.w.store.cat.snaps[sn.View] != sn {
			return removedMeanwhile(sn.Info)
		}
		if err := ss.mayDelete(sn, o.Caller); err != nil && !sn.Pinned {
			return err
		}
	}
	return nil
}
