package threeway

import (
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// lost are conflicts about files that one side changed, and that have no name now.
func (t *taking) lost() error {
	for _, c := range t.changes {
		p := c.Path.String()
		b, err := t.baseAt(p)
		if err != nil || b == nil {
			if err != nil {
				return err
			}
			continue
		}
		ours, err := t.oursOf(b)
		if err != nil {
			return err
		}
		x := t.theirs[p]
		if ours == nil {
			if x == nil || x.goesOn != b.node.Ino || x.file != nil {
				continue
			}
			if same, err := tree.SameFile(t.Source, x.node, b.node); err != nil {
				return err
			} else if same {
				continue
			}
			at, err := t.get(p)
			if err == nil {
				err = t.conflictAt(p, at, c)
			}
			if err != nil {
				return err
			}
			continue
		}
		if at, err := t.get(p); err != nil {
			return err
		} else if at != ours || !slices.Contains(b.lost, p) {
			continue
		}
		names, err := t.namesAfter(ours)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			continue
		}
		if same, err := t.same(ours, b.node); err != nil {
			return err
		} else if !same {
			if err := t.conflict(p, func() error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// movedTwice are conflicts about files that one side moved, and that the other side removed
// or moved elsewhere.
func (t *taking) movedTwice() error {
	if t.ByPath {
		return nil
	}
	seen := make(map[*baseFile]bool)
	for _, c := range t.changes {
		b, err := t.baseAt(c.Path.String())
		if err != nil {
			return err
		}
		if b == nil || seen[b] || len(b.lost) == 0 || b.theirs == nil && t.retained(b) {
			continue
		}
		seen[b] = true
		ours, err := t.oursOf(b)
		if err != nil {
			return err
		}
		keep := func() error { return nil }
		if ours == nil { // theirs moved it, ours removed it
			for _, p := range b.gained {
				at, err := t.get(p)
				same := false
				if err == nil && at != nil {
					same, err = t.same(at, b.theirs.node) // ours has a copy there
				}
				if err == nil && !same {
					err = t.conflict(p, keep)
				}
				if err != nil {
					return err
				}
			}
			continue
		}
		both := false // whether both took a name from it
		for _, p := range b.lost {
			at, err := t.get(p)
			if err != nil {
				return err
			}
			both = both || at != ours
		}
		names, err := t.namesOf(ours, 0)
		if err != nil {
			return err
		}
		elsewhere := slices.DeleteFunc(slices.Clone(names), func(p string) bool {
			return slices.Contains(b.names, p) || slices.Contains(b.gained, p)
		})
		gained := slices.DeleteFunc(slices.Clone(b.gained), func(p string) bool { return slices.Contains(names, p) })
		if !both || len(elsewhere) == 0 || len(gained) == 0 && len(b.gained) > 0 {
			continue
		}
		for _, p := range elsewhere {
			if err := t.conflict(p, func() error { t.set(p, nil); return nil }); err != nil {
				return err
			}
		}
		for _, p := range gained {
			if err := t.conflict(p, keep); err != nil {
				return err
			}
		}
	}
	return nil
}
