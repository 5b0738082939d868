// Package repair checks that all that the trees of a store refer to can be read, names what
// cannot, by path, and repairs stores that are not open.
package repair

import (
	"cmp"
	"context"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Damaged is one damaged thing in a pack or a segment of the journal.
type Damaged struct {
	What    string `json:"what"`
	Pack    string `json:"pack,omitempty"`
	Segment string `json:"segment,omitempty"`
	Offset  int64  `json:"offset"`
}

// inJournal is for a damaged record of the journal.
func inJournal(d *journal.DamageError) Damaged {
	return Damaged{What: d.Error(), Segment: d.Segment, Offset: d.Offset}
}

// An Affected names what a damage touches.
type Affected struct {
	Workspace string `json:"workspace"`
	Snapshot  string `json:"snapshot,omitempty"` // empty: the present state
	Path      string `json:"path"`
}

func (a Affected) compare(b Affected) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Snapshot, b.Snapshot), cmp.Compare(a.Path, b.Path))
}

type Report struct {
	Packs    int        `json:"packs"`
	Objects  int64      `json:"objects"`
	Bytes    int64      `json:"bytes"`
	Damage   []Damaged  `json:"damage"`
	Affected []Affected `json:"affected"`
	// LostChanges counts those that a repair had to leave out, because they are
	// behind damage in the journal.
	LostChanges int64 `json:"lost_changes,omitempty"`
	// Repaired is what a repair did before the verification.
	Repaired *cas.RepairResult `json:"repaired,omitempty"`

	Hidden bool `json:"-"` // a bookmark is touched, which users do not know
}

func (r *Report) OK() bool { return len(r.Damage) == 0 && len(r.Affected) == 0 }

// Affect adds what is touched, each once and in order.
func (r *Report) Affect(more ...Affected) {
	r.Affected = append(r.Affected, more...)
	slices.SortFunc(r.Affected, Affected.compare)
	r.Affected = slices.Compact(r.Affected)
}

// Parts are what is read of a store.
type Parts struct {
	Objects tree.Objects
	Log     *journal.Journal
	Source  *tree.Source
	// Hold returns the present state of a tree and keeps it until release is called. The tree may
	// have been removed: ok is false then. A nil Hold stands for a store that does not change.
	Hold func(t Tree) (st *tree.State, release func(), ok bool)
}

// A Tree is a state with what users call it.
type Tree struct {
	At     Affected
	View   uint32
	State  *tree.State // nil when it cannot be read at all
	Hidden bool        // a bookmark
}

// check is a verification under way.
type check struct {
	Parts
	bad   map[cas.Hash]bool // objects that are damaged
	holes [][2]int64        // in the journal: their first position and the one behind them
	away  error             // what is not here cannot be told from what is lost
}

// Run reads everything in the packs and in the journal, and then looks at the trees.
func (s Parts) Run(ctx context.Context, progress func(done, total int64), trees func() []Tree) (*Report, error) {
	r := &Report{Damage: []Damaged{}, Affected: []Affected{}}
	c := &check{Parts: s, bad: make(map[cas.Hash]bool)}
	res, err := s.Objects.Verify(ctx, progress, func(d cas.Damage) {
		r.Damage = append(r.Damage, Damaged{What: d.Error(), Pack: d.Pack, Offset: d.Offset})
		if !d.Hash.IsZero() {
			c.bad[d.Hash] = true
		}
	})
	if err != nil {
		return nil, err
	}
	r.Packs, r.Objects, r.Bytes = res.Packs, res.Objects, res.Bytes
	if err := s.Log.Verify(func(d *journal.DamageError, end int64) {
		r.Damage = append(r.Damage, inJournal(d))
		c.holes = append(c.holes, [2]int64{d.Pos, end})
	}); err != nil {
		return nil, err
	}
	all := trees()
	slices.SortFunc(all, func(a, b Tree) int { return a.At.compare(b.At) })
	intact, err := c.intact(ctx, all)
	if err != nil || intact && len(c.holes) == 0 {
		return r, err
	}
	for _, t := range all {
		if err := c.tree(ctx, t, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// tree adds to the report what is damaged in a tree.
func (c *check) tree(ctx context.Context, t Tree, r *Report) error {
	t, release, ok := c.held(t)
	if !ok {
		return nil
	}
	defer release()
	if t.Hidden {
		intact, err := c.intact(ctx, []Tree{t})
		r.Hidden = r.Hidden || !intact
		return err
	}
	if t.State == nil {
		r.Affected = append(r.Affected, t.At)
		return nil
	}
	return t.State.Affected(ctx, c.Source, tree.Damage{Object: c.missing, Log: c.lost}, func(p string) {
		at := t.At
		at.Path = p
		r.Affected = append(r.Affected, at)
	})
}

// held returns a tree with its present state, which stays until release is called. The tree may be
// gone, and what only it referred to with it.
func (c *check) held(t Tree) (_ Tree, release func(), ok bool) {
	release = func() {}
	if c.Hold == nil {
		return t, release, true
	}
	t.State, release, ok = c.Hold(t)
	return t, release, ok
}

func (c *check) missing(h cas.Hash) bool {
	if c.bad[h] {
		return true
	}
	exists, err := c.Objects.Exists(h)
	if errs.Of(err) == errs.Away {
		c.away = err
	}
	return err != nil || !exists
}

// maxSeen bounds how many objects intact remembers.
const maxSeen = 1 << 20

// intact looks at every object that trees refer to. Of what a tree shares with the one before it
// nothing is looked at again, and of all else hardly anything.
func (c *check) intact(ctx context.Context, trees []Tree) (bool, error) {
	var before *tree.State
	seen := make(map[cas.Hash]struct{})
	found := false
	release := func() {} // of the tree before
	defer func() { release() }()
	for _, t := range trees {
		t, releaseThis, ok := c.held(t)
		if !ok {
			continue
		}
		releaseBefore := release
		release = func() { releaseThis(); releaseBefore() }
		if t.State == nil {
			return false, nil
		}
		err := t.State.Mark(ctx, c.Source, before, false, func(h cas.Hash) bool {
			if _, ok := seen[h]; ok {
				return false
			}
			if len(seen) == maxSeen {
				clear(seen)
			}
			seen[h] = struct{}{}
			if !c.Objects.Here(h) {
				return false
			}
			found = found || c.missing(h)
			return !found
		})
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case c.away != nil:
			return false, c.away
		case err != nil || found:
			return false, nil
		}
		releaseBefore()
		before, release = t.State, releaseThis
	}
	return true, nil
}

// lost reports whether any of n bytes at a position of the journal cannot be read.
func (c *check) lost(pos, n int64) bool {
	return slices.ContainsFunc(c.holes, func(r [2]int64) bool { return pos < r[1] && r[0] < pos+n })
}
