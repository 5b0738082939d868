package threeway

import (
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// addLost adds conflicts for files that one side changed and the other side removed.
func (t *intervalMerge) addLost() error {
	for _, c := range t.pairs.changes {
		p := c.Path.String()
		b, err := t.pairs.baseAt(p)
		if err != nil || b == nil {
			if err != nil {
				return err
			}
			continue
		}

		ours, err := t.pairs.oursOf(b)
		if err != nil {
			return err
		}

		// Ours removed the file. It is lost if theirs changed it, and it is not in the plan.
		x := t.pairs.theirsAt[p]

		if ours == nil {
			if x == nil || x.baseIno != b.node.Ino || x.file != nil {
				continue
			}

			if same, err := tree.SameFile(t.source, x.node, b.node); err != nil {
				return err
			} else if same {
				continue
			}

			at, err := t.fileAt(p)
			if err != nil {
				return err
			}
			if err := t.conflictAt(p, at, c); err != nil {
				return err
			}

			continue
		}

		// Ours has the file. The file is lost if theirs removed its last name.
		if at, err := t.fileAt(p); err != nil {
			return err
		} else if at != ours || !slices.Contains(b.lostNames, p) {
			continue
		}

		names, err := t.namesAfter(ours)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			continue
		}

		if same, err := t.equals(ours, b.node); err != nil {
			return err
		} else if !same {
			if err := t.addConflict(p, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// addMovedTwice adds conflicts for files that one side moved, and the other side removed
// or moved to another path.
func (t *intervalMerge) addMovedTwice() error {
	if t.pairs.byPath {
		return nil
	}
	seen := make(map[*baseFile]bool)

	for _, c := range t.pairs.changes {
		b, err := t.pairs.baseAt(c.Path.String())
		if err != nil {
			return err
		}
		if b == nil || seen[b] || len(b.lostNames) == 0 || b.theirs == nil && t.pairs.retainedByChanges(b) {
			continue
		}

		seen[b] = true
		ours, err := t.pairs.oursOf(b)
		if err != nil {
			return err
		}

		if ours == nil { // theirs moved the file, and ours removed it
			for _, p := range b.gainedNames {
				at, err := t.fileAt(p)
				if err != nil {
					return err
				}

				same := false
				if at != nil { // no conflict if ours has a copy of the moved file at the new path
					if same, err = t.equals(at, b.theirs.node); err != nil {
						return err
					}
				}
				if same {
					continue
				}
				if err := t.addConflict(p, nil); err != nil {
					return err
				}
			}

			continue
		}

		both := false // both sides removed the same name of the file
		for _, p := range b.lostNames {
			at, err := t.fileAt(p)
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
			return slices.Contains(b.names, p) || slices.Contains(b.gainedNames, p)
		})
		gained := slices.DeleteFunc(slices.Clone(b.gainedNames), func(p string) bool { return slices.Contains(names, p) })
		if !both || len(elsewhere) == 0 || len(gained) == 0 && len(b.gainedNames) > 0 {
			continue
		}

		for _, p := range elsewhere {
			if err := t.addConflict(p, func() error { t.setFile(p, nil); return nil }); err != nil {
				return err
			}
		}

		for _, p := range gained {
			if err := t.addConflict(p, nil); err != nil {
				return err
			}
		}
	}

	return nil
}
