package snapshot

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/amberfs/amberfs/internal/vfs"
)

// repairNotePath is where a repair notes what it is about to leave out. Once the journal
// is cut off before the damage, nothing in the store tells of it any more, and a
// repair that is stopped then has told nobody.
func repairNotePath(dir string) string { return filepath.Join(dir, "repair.json") }

// writeRepairNote notes what opening a store with these options will leave out, and what
// an earlier repair noted. A failure is only a warning: there may be no room.
func writeRepairNote(dir string, o Options) {
	o.ReadOnly = true
	s, err := Open(dir, o)
	if err != nil {
		return // and so will be the opening that would leave something out
	}
	r := &Report{Damage: []Damaged{}, Affected: []Affected{}}
	s.addRepairNote(r)
	s.addLoss(r)
	if !r.OK() {
		b, merr := json.Marshal(r)
		err = errors.Join(merr, vfs.WriteFile(s.opt.FS, repairNotePath(s.dir), b))
	}
	if err = errors.Join(err, s.Close()); err != nil {
		s.logger.Warn("noting what a repair leaves out", "err", err)
	}
}

// addRepairNote adds to a report what a repair that was not finished has left out.
func (s *Store) addRepairNote(r *Report) {
	b, err := vfs.ReadFile(s.opt.FS, repairNotePath(s.dir))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var note Report
	if err == nil {
		err = json.Unmarshal(b, &note)
	}
	if err != nil {
		s.logger.Warn("reading what a repair left out", "err", err)
		r.Damage = append(r.Damage, Damaged{What: "a repair was not finished, and what it noted cannot be read"})
		return
	}
	for _, d := range note.Damage {
		if !slices.Contains(r.Damage, d) {
			r.Damage = append(r.Damage, d)
		}
	}
	r.Affected = append(r.Affected, note.Affected...)
	r.LostChanges = max(r.LostChanges, note.LostChanges)
	r.sortAffected()
}
