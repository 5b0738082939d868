package snapshot

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/amberfs/amberfs/cas/vfs"
)

// notePath is where a repair notes what it is about to leave out. Once the journal
// is cut off before the damage, nothing in the store tells of it any more, and a
// repair that is stopped then has told nobody.
func notePath(dir string) string { return filepath.Join(dir, "repair.json") }

// noteLoss notes what opening a store with these options will leave out, and what
// an earlier repair noted. A failure is only a warning: there may be no room.
func noteLoss(dir string, o Options) {
	o.ReadOnly = true
	s, err := Open(dir, o)
	if err != nil {
		return // and so will be the opening that would leave something out
	}
	r := &Report{Damage: []Damaged{}, Affected: []Affected{}}
	s.tellNoted(r)
	s.tellLoss(r)
	if !r.OK() {
		b, merr := json.Marshal(r)
		err = errors.Join(merr, vfs.WriteFile(s.opt.FS, notePath(s.dir), b))
	}
	if err = errors.Join(err, s.Close()); err != nil {
		s.logger.Warn("noting what a repair leaves out", "error", err)
	}
}

// tellNoted adds to a report what a repair that was not finished has left out.
func (s *Store) tellNoted(r *Report) {
	b, err := vfs.ReadFile(s.opt.FS, notePath(s.dir))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var noted Report
	if err == nil {
		err = json.Unmarshal(b, &noted)
	}
	if err != nil {
		s.logger.Warn("reading what a repair left out", "error", err)
		r.Damage = append(r.Damage, Damaged{What: "a repair was not finished, and what it noted cannot be read"})
		return
	}
	for _, d := range noted.Damage {
		if !slices.Contains(r.Damage, d) {
			r.Damage = append(r.Damage, d)
		}
	}
	r.Affected = append(r.Affected, noted.Affected...)
	r.LostChanges = max(r.LostChanges, noted.LostChanges)
	r.sortAffected()
}
