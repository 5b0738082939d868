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

// A Damaged describes a damaged record in a pack or in a segment of the journal.
type Damaged struct {
	Description string `json:"what"`
	Pack        string `json:"pack,omitempty"`
	Segment     string `json:"segment,omitempty"`
	Offset      int64  `json:"offset"`
}

// journalDamage returns the report of a damaged record of the journal.
func journalDamage(d *journal.DamageError) Damaged {
	return Damaged{Description: d.Error(), Segment: d.Segment, Offset: d.Offset}
}

// An Affected is a path that cannot be read because of damage.
type Affected struct {
	Workspace string `json:"workspace"`
	Snapshot  string `json:"snapshot,omitempty"` // empty: the present state
	Path      string `json:"path"`
}

func (a Affected) compare(b Affected) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Snapshot, b.Snapshot), cmp.Compare(a.Path, b.Path))
}

// A Report is the result of a verification or a repair.
type Report struct {
	Packs    int        `json:"packs"`
	Objects  int64      `json:"objects"`
	Bytes    int64      `json:"bytes"`
	Damage   []Damaged  `json:"damage"`
	Affected []Affected `json:"affected"`
	// LostChanges is the number of changes that a repair could not use, because the journal has a damaged record
	// before them.
	LostChanges int64 `json:"lost_changes,omitempty"`
	// Repaired is the result of the repair before the verification.
	Repaired *cas.RepairResult `json:"repaired,omitempty"`

	Hidden bool `json:"-"` // a bookmark is damaged, which is not shown to users
}

// OK reports whether the report has no damage.
func (r *Report) OK() bool { return len(r.Damage) == 0 && len(r.Affected) == 0 }

// AddAffected adds affected paths. The list stays sorted and without duplicates.
func (r *Report) AddAffected(more ...Affected) {
	r.Affected = append(r.Affected, more...)
	slices.SortStableFunc(r.Affected, Affected.compare)
	r.Affected = slices.Compact(r.Affected)
}

// Parts are the components of the store to verify.
type Parts struct {
	Objects tree.Objects
	Log     *journal.Journal
	Source  *tree.Source
	// HoldTree returns the present state of a tree, and protects the state from gc until release is called. ok is
	// false if the tree was removed. HoldTree may be nil if the store does not change.
	HoldTree func(t Tree) (st *tree.State, release func(), ok bool)
}

// A Tree is a state of a workspace or snapshot.
type Tree struct {
	Names  Affected // the names of workspace and snapshot
	View   uint32
	State  *tree.State // nil if it cannot be read at all
	Hidden bool        // the tree is a bookmark
}

// A verification is one call of Verify.
type verification struct {
	Parts
	damagedObjects map[cas.Hash]bool
	damagedRanges  [][2]int64 // damaged parts of the journal: begin and end
	unreachableErr error      // the error of a remote that cannot be reached; it may have the missing objects
}

// Verify reads all objects in the packs and all records of the journal. If there is damage, it finds the
// affected paths in the trees.
func (s Parts) Verify(ctx context.Context, progress func(done, total int64), trees func() []Tree) (*Report, error) {
	r := &Report{Damage: []Damaged{}, Affected: []Affected{}}
	c := &verification{Parts: s, damagedObjects: make(map[cas.Hash]bool)}
	res, err := s.Objects.Verify(ctx, progress, func(d cas.Damage) {
		r.Damage = append(r.Damage, Damaged{Description: d.Error(), Pack: d.Pack, Offset: d.Offset})
		if !d.Hash.IsZero() {
			c.damagedObjects[d.Hash] = true
		}
	})
	if err != nil {
		return nil, err
	}

	r.Packs, r.Objects, r.Bytes = res.Packs, res.Objects, res.Bytes
	if err := s.Log.Verify(func(d *journal.DamageError, end int64) {
		r.Damage = append(r.Damage, journalDamage(d))
		c.damagedRanges = append(c.damagedRanges, [2]int64{d.Pos, end})
	}); err != nil {
		return nil, err
	}

	all := trees()
	slices.SortStableFunc(all, func(a, b Tree) int { return a.Names.compare(b.Names) })
	intact, err := c.allIntact(ctx, all)
	if err != nil || intact && len(c.damagedRanges) == 0 {
		return r, err
	}

	for _, t := range all {
		if err := c.checkTree(ctx, t, r); err != nil {
			return nil, err
		}
	}

	return r, nil
}

// checkTree adds the affected paths of a tree to the report.
func (c *verification) checkTree(ctx context.Context, t Tree, r *Report) error {
	t, release, ok := c.holdTree(t)
	if !ok {
		return nil
	}
	defer release()

	if t.Hidden {
		intact, err := c.allIntact(ctx, []Tree{t})
		r.Hidden = r.Hidden || !intact
		return err
	}

	if t.State == nil {
		r.Affected = append(r.Affected, t.Names)
		return nil
	}

	return t.State.Affected(ctx, c.Source, tree.Damage{ObjectDamaged: c.isDamagedOrMissing, LogDamaged: c.isRangeDamaged}, func(p string) {
		at := t.Names
		at.Path = p
		r.Affected = append(r.Affected, at)
	})
}

// holdTree returns a tree with its present state, and protects the state from gc until release is called. ok is
// false if the tree was removed; its objects may be removed, too.
func (c *verification) holdTree(t Tree) (_ Tree, release func(), ok bool) {
	release = func() {}
	if c.HoldTree == nil {
		return t, release, true
	}
	t.State, release, ok = c.HoldTree(t)
	return t, release, ok
}

// isDamagedOrMissing reports whether an object is damaged or missing. If a remote that may have the object cannot
// be reached, it sets unreachableErr.
func (c *verification) isDamagedOrMissing(h cas.Hash) bool {
	if c.damagedObjects[h] {
		return true
	}
	exists, err := c.Objects.Exists(h)
	if errs.KindOf(err) == errs.Unreachable {
		c.unreachableErr = err
	}

	return err != nil || !exists
}

// maxSeenObjects is the largest number of objects that allIntact remembers.
const maxSeenObjects = 1 << 20

// allIntact reports whether all objects of the trees are present and intact. It skips objects that a tree shares
// with the previous tree, and most objects that it has checked earlier.
func (c *verification) allIntact(ctx context.Context, trees []Tree) (bool, error) {
	var previous *tree.State
	seen := make(map[cas.Hash]struct{})
	anyDamaged := false
	release := func() {} // releases the previous tree
	defer func() { release() }()

	for _, t := range trees {
		t, releaseThis, ok := c.holdTree(t)
		if !ok {
			continue
		}

		releaseBefore := release
		release = func() { releaseThis(); releaseBefore() }
		if t.State == nil {
			return false, nil
		}

		err := t.State.Mark(ctx, c.Source, previous, false, func(h cas.Hash) bool {
			if _, ok := seen[h]; ok {
				return false
			}
			if len(seen) == maxSeenObjects {
				clear(seen)
			}

			seen[h] = struct{}{}
			if !c.Objects.MayBeInStore(h) {
				return false
			}

			anyDamaged = anyDamaged || c.isDamagedOrMissing(h)
			return !anyDamaged
		})
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case c.unreachableErr != nil:
			return false, c.unreachableErr
		case err != nil || anyDamaged:
			return false, nil
		}

		releaseBefore()
		previous, release = t.State, releaseThis
	}

	return true, nil
}

// isRangeDamaged reports whether one of the n bytes at a position of the journal cannot be read.
func (c *verification) isRangeDamaged(pos, n int64) bool {
	return slices.ContainsFunc(c.damagedRanges, func(r [2]int64) bool { return pos < r[1] && r[0] < pos+n })
}
