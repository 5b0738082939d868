package snapshot

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/amberfs/amberfs/snapshot/live"
)

// tellLoss adds to a report what a salvage could not read.
func (s *Store) tellLoss(r *Report) {
	if s.nameless {
		r.Damage = append(r.Damage, Damaged{What: "the last checkpoint is lost; the journal goes back to the beginning and has what it said"})
	}
	behind := false // there were changes, and nobody knows which
	for _, d := range s.log.Damage() {
		if rec := damagedRecord(d); !slices.Contains(r.Damage, rec) {
			r.Damage = append(r.Damage, rec)
		}
		behind = behind || d.Pos >= s.ckpt.at.Load() || d.Segment == ""
	}
	r.LostChanges = max(r.LostChanges, s.lost.Changes)
	s.look(func(*live.Tx) {
		told := make(map[Affected]bool)
		add := func(a Affected) {
			if !told[a] {
				told[a] = true
				r.Affected = append(r.Affected, a)
			}
		}
		for _, name := range s.salvaged {
			add(Affected{Workspace: name})
		}
		for _, w := range s.cat.workspaces {
			if behind {
				add(Affected{Workspace: w.name})
			}
		}
		for view := range s.lost.Views {
			if w, ok := s.cat.workspaces[view]; ok {
				add(Affected{Workspace: w.name})
			}
		}
		for _, a := range s.lostNames() {
			add(a)
		}
	})
	for t := range s.lost.Touched {
		w, ok := s.Workspace(t.View)
		if !ok {
			continue
		}
		path, err := s.forest.Path(live.Node(t.View, t.Ino))
		if err != nil {
			continue // made by one of the changes that are lost
		}
		r.Affected = append(r.Affected, Affected{Workspace: w.Name(), Path: filepath.Join(path, t.Name)})
	}
	r.sortAffected()
}

func (r *Report) sortAffected() {
	slices.SortFunc(r.Affected, func(a, b Affected) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Snapshot, b.Snapshot), cmp.Compare(a.Path, b.Path))
	})
	r.Affected = slices.Compact(r.Affected)
}

// lostNames are the forks and snapshots that would be there if the records that a
// salvage left out had been carried out. The lock is held.
func (s *Store) lostNames() (lost []Affected) {
	forks, snaps := make(map[uint32]string), make(map[uint32]stored)
	keep := func(sn stored) {
		if sn.Name != "" {
			snaps[sn.View] = sn
		}
	}
	for _, f := range s.lost.Foreign {
		var err error // a record that is itself damaged tells what it can
		switch f.Type {
		case recCapture:
			var r stored
			err = json.Unmarshal(f.Payload, &r)
			keep(r)
		case recRestore, recGraft, recPromote:
			var r struct{ Pre stored }
			err = json.Unmarshal(f.Payload, &r)
			keep(r.Pre)
		case recFork:
			var r forkRecord
			if err = json.Unmarshal(f.Payload, &r); err == nil {
				forks[r.View] = r.Name
			}
		case recRenameFork:
			var r renameForkRecord
			if err = json.Unmarshal(f.Payload, &r); err == nil && forks[r.View] != "" {
				forks[r.View] = r.Name
			}
		case recEndFork:
			var r endForkRecord
			err = json.Unmarshal(f.Payload, &r)
			delete(forks, r.View)
			keep(r.Last)
			if r.Full != nil {
				keep(*r.Full)
			}
		case recDelete:
			var r deleteRecord
			err = json.Unmarshal(f.Payload, &r)
			for _, v := range r.Views {
				delete(snaps, v)
			}
		case recRename:
			var r renameRecord
			if err = json.Unmarshal(f.Payload, &r); err == nil {
				if sn, ok := snaps[r.View]; ok {
					sn.Name = r.Name
					snaps[r.View] = sn
				}
			}
		}
		if err != nil {
			s.logger.Debug("a lost record cannot be read", "error", err)
		}
	}
	for view, name := range forks {
		if _, ok := s.cat.workspaces[view]; !ok {
			lost = append(lost, Affected{Workspace: name})
		}
	}
	for _, sn := range snaps {
		name, ok := forks[sn.WS]
		if w, known := s.cat.workspaces[sn.WS]; known {
			name, ok = w.name, true
		}
		if ok {
			lost = append(lost, Affected{Workspace: name, Snapshot: sn.Name})
		}
	}
	return lost
}
