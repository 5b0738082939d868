package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// chooseLinks finds, for each file of the source with several names, an inode of the target that differs from the
// file only in its names. The names of the file then become names of this inode.
func (j *graftRun) chooseLinks(steps []Step) error {
	usedInodes := make(map[uint64]bool)
	namesWithStep := make(map[tree.Link]bool) // names in the source that have a step
	var linkedSteps []*Step

	for i := range steps {
		s := &steps[i]
		if s.After == 0 || s.IsDir || !s.Linked || s.ReplacementNode != nil {
			continue
		}

		dir, err := j.sourceDirs.findDir(s.Path.Dir)
		if err != nil {
			return err
		}

		namesWithStep[tree.Link{Parent: dir, Name: s.Path.Name}] = true
		linkedSteps = append(linkedSteps, s)
	}

	// First look at names without a step, because they keep their inodes.
	target := tree.NewPairing(j.src, j.options.Source, j.target.Base, j.root)
	seen := make(map[uint64]bool)

	for _, s := range linkedSteps {
		if _, done := j.linkedInodes[s.LinkGroup]; done || seen[s.After] {
			continue
		}

		seen[s.After] = true
		b, err := j.options.Source.Get(j.src, s.After)
		if err != nil {
			return err
		}
		if err := j.chooseUnchanged(b, target, namesWithStep, usedInodes); err != nil {
			return err
		}
	}

	// Then look at names with a step.
	for i := range steps {
		s := &steps[i]
		if _, done := j.linkedInodes[s.LinkGroup]; done || s.After == 0 || s.IsDir {
			continue
		}

		if s.Before != 0 && s.Differences&^tree.LinksDiffer == 0 && !usedInodes[s.Before] {
			j.linkedInodes[s.LinkGroup] = s.Before
			usedInodes[s.Before] = true
		}
	}

	return nil
}

// chooseUnchanged searches an inode of the target for the file b of the source, at the names of b that are not in
// namesWithStep. It adds the inode that it finds to linkedInodes and usedInodes.
func (j *graftRun) chooseUnchanged(b *tree.Inode, target *tree.Pairing, namesWithStep map[tree.Link]bool, usedInodes map[uint64]bool) error {
	tried := make(map[uint64]bool)

	for _, l := range b.Links {
		if namesWithStep[l] {
			continue
		}
		a, err := target.File(l)
		if err != nil {
			return tree.LoadError(err)
		}
		if a == nil || a.IsDir() || usedInodes[a.Ino] || tried[a.Ino] {
			continue
		}

		tried[a.Ino] = true
		if same, err := tree.SameFile(j.src, a, b); err != nil {
			return tree.LoadError(err)
		} else if same && a.Mtime == b.Mtime {
			j.linkedInodes[b.Ino] = a.Ino
			usedInodes[a.Ino] = true
			return nil
		}
	}

	return nil
}
