package snapshot

import (
	"context"
	"slices"
	"sort"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Damaged is one damaged thing in a pack or a segment of the journal.
type Damaged struct {
	What    string `json:"what"`
	Pack    string `json:"pack,omitempty"`
	Segment string `json:"segment,omitempty"`
	Offset  int64  `json:"offset"`
}

// An Affected names what a damage touches.
type Affected struct {
	Workspace string `json:"workspace"`
	Snapshot  string `json:"snapshot,omitempty"` // empty: the present state
	Path      string `json:"path"`
}

// A Report is the outcome of a verification.
type Report struct {
	Packs    int        `json:"packs"`
	Objects  int64      `json:"objects"`
	Bytes    int64      `json:"bytes"`
	Damage   []Damaged  `json:"damage"`
	Affected []Affected `json:"affected"`
	// LostChanges counts those that a repair had to leave out, because they are
	// behind damage in the journal.
	LostChanges int64 `json:"lost_changes,omitempty"`
	// Repaired tells what a repair did before the verification.
	Repaired *cas.RepairResult `json:"repaired,omitempty"`

	hidden bool // a bookmark is touched, which users know nothing of
}

// OK reports whether no damage was found.
func (r *Report) OK() bool { return len(r.Damage) == 0 && len(r.Affected) == 0 }

// Verify reads everything in the packs, checks that all that the workspaces
// and snapshots refer to is there, and names what is not, by path.
func (s *Store) Verify(ctx context.Context, progress func(done, total int64)) (*Report, error) {
	r := &Report{Damage: []Damaged{}, Affected: []Affected{}}
	bad := make(map[cas.Hash]bool)
	res, err := s.cas.Verify(ctx, cas.VerifyOptions{Progress: progress}, func(d cas.Damage) {
		r.Damage = append(r.Damage, Damaged{What: d.String(), Pack: d.Pack, Offset: d.Offset})
		if !d.Hash.IsZero() {
			bad[d.Hash] = true
		}
	})
	if err != nil {
		return nil, err
	}
	r.Packs, r.Objects, r.Bytes = res.Packs, res.Objects, res.Bytes
	holes, err := s.verifyJournal(r)
	if err != nil {
		return nil, err
	}
	var away error // what is not here cannot be told from what is lost
	missing := func(h cas.Hash) bool {
		if bad[h] {
			return true
		}
		there, err := s.cas.Has(h)
		if !there && err == nil && s.objects.elsewhere != nil {
			if there, err = s.objects.elsewhere.Has(h); errs.Of(err) == errs.Away {
				away = err
			}
		}
		return err != nil || !there
	}
	trees, err := s.trees()
	if err != nil {
		return nil, err
	}
	sound, err := s.sound(ctx, trees, missing)
	if away != nil {
		return nil, away
	}
	if err != nil || sound && len(holes) == 0 {
		return r, err
	}
	for _, t := range trees {
		if t.bookmark {
			ok, err := s.sound(ctx, []namedTree{t}, missing)
			if err != nil {
				return nil, err
			}
			r.hidden = r.hidden || !ok
			continue
		}
		if t.state == nil {
			r.Affected = append(r.Affected, t.at)
			continue
		}
		if err := t.state.Affected(ctx, s.src, tree.Damage{Object: missing, Log: holes.touch}, func(p string) {
			at := t.at
			at.Path = p
			r.Affected = append(r.Affected, at)
		}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// verifyJournal reads the journal and adds what is damaged of it to the report.
func (s *core) verifyJournal(r *Report) (ranges, error) {
	var holes ranges
	err := s.log.Verify(func(d *journal.DamageError, end int64) {
		r.Damage = append(r.Damage, damagedRecord(d))
		holes = append(holes, [2]int64{d.Pos, end})
	})
	return holes, err
}

func damagedRecord(d *journal.DamageError) Damaged {
	return Damaged{What: d.Error(), Segment: d.Segment, Offset: d.Offset}
}

// ranges are parts of the journal: their first position and the one behind them.
type ranges [][2]int64

// touch reports whether any of n bytes at pos is in one of them.
func (r ranges) touch(pos, n int64) bool {
	return slices.ContainsFunc(r, func(r [2]int64) bool { return pos < r[1] && r[0] < pos+n })
}

type namedTree struct {
	at    Affected
	state *tree.State // nil when it cannot be read at all

	bookmark bool
}

// trees are all states with what users call them.
func (s *core) trees() ([]namedTree, error) {
	var out []namedTree
	err := s.forest.Update(true, func(tx *live.Tx) error {
		for id, w := range s.cat.workspaces {
			st, err := tx.Capture(id)
			if err != nil {
				return err
			}
			out = append(out, namedTree{at: Affected{Workspace: w.name}, state: st})
		}
		for _, sn := range s.cat.snaps {
			w, ok := s.cat.workspaces[sn.ws]
			if !ok {
				continue
			}
			st, _ := s.cat.stateOf(sn)
			out = append(out, namedTree{Affected{Workspace: w.name, Snapshot: sn.Name}, st, sn.View == w.before})
		}
		return nil
	})
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i].at, out[j].at
		return a.Workspace < b.Workspace || a.Workspace == b.Workspace && a.Snapshot < b.Snapshot
	})
	return out, err
}

// sound looks at every object that is referred to once, whatever the number
// of snapshots that share it.
func (s *core) sound(ctx context.Context, trees []namedTree, missing func(cas.Hash) bool) (bool, error) {
	seen := make(map[cas.Hash]struct{})
	found := false
	for _, t := range trees {
		if t.state == nil {
			return false, nil
		}
		err := t.state.Mark(ctx, s.src, false, func(h cas.Hash) bool {
			if _, ok := seen[h]; ok {
				return false
			}
			seen[h] = struct{}{}
			if only, err := s.objects.onlyElsewhere(h); only && err == nil {
				return false
			}
			if missing(h) {
				found = true
				return false
			}
			return true
		})
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil || found {
			return false, nil
		}
	}
	return true, nil
}
