package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// chooseLinks finds, for each file of the source with several names, an inode of the target that differs from the
// file only in its names. The file then uses this inode.
func (j *graftRun) chooseLinks(steps []Step) error {
	taken := make(map[uint64]bool)
	changing := make(map[tree.Link]bool) // names in the source that have a step
	var several []*Step

	for i := range steps {
		s := &steps[i]
		if s.After == 0 || s.IsDir || !s.Linked || s.With != nil {
			continue
		}

		dir, err := j.from.find(s.Path.Dir)
		if err != nil {
			return err
		}

		changing[tree.Link{Parent: dir, Name: s.Path.Name}] = true
		several = append(several, s)
	}

	// First look at names without a step, because they keep their inodes.
	target := tree.NewPairing(j.src, j.o.Source, j.t.Base, j.root)
	seen := make(map[uint64]bool)

	for _, s := range several {
		if _, done := j.links[s.Link]; done || seen[s.After] {
			continue
		}

		seen[s.After] = true
		b, err := j.o.Source.Get(j.src, s.After)
		if err != nil {
			return err
		}
		if err := j.chooseUnchanged(b, target, changing, taken); err != nil {
			return err
		}
	}

	// Then look at names with a step.
	for i := range steps {
		s := &steps[i]
		if _, done := j.links[s.Link]; done || s.After == 0 || s.IsDir {
			continue
		}

		if s.Before != 0 && s.What&^tree.Links == 0 && !taken[s.Before] {
			j.links[s.Link] = s.Before
			taken[s.Before] = true
		}
	}

	return nil
}

// chooseUnchanged looks for an inode of the target for the file b of the source. It looks at the names of b that
// have no step.
func (j *graftRun) chooseUnchanged(b *tree.Inode, target *tree.Pairing, changing map[tree.Link]bool, taken map[uint64]bool) error {
	tried := make(map[uint64]bool)

	for _, l := range b.Links {
		if changing[l] {
			continue
		}
		a, err := target.File(l)
		if err != nil {
			return tree.LoadError(err)
		}
		if a == nil || a.IsDir() || taken[a.Ino] || tried[a.Ino] {
			continue
		}

		tried[a.Ino] = true
		if same, err := tree.SameFile(j.src, a, b); err != nil {
			return tree.LoadError(err)
		} else if same && a.Mtime == b.Mtime {
			j.links[b.Ino] = a.Ino
			taken[a.Ino] = true
			return nil
		}
	}

	return nil
}
