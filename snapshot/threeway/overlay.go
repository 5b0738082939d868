package threeway

import (
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// fileAfter returns the file at a path in the plan with the changes of the interval; nil if there is
// none.
func (t *intervalMerge) fileAfter(at string) (*file, error) {
	if t.committed {
		return t.get(at)
	}
	if f, ok := t.newNames[at]; ok {
		return f, nil
	}

	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if f, ok := t.newNames[dir]; ok && (f == nil || f.present == nil || !f.node.IsDir()) {
			return nil, nil
		}
	}

	return t.get(at)
}

// set plans the file f at a path, or with nil that the path does not exist.
func (t *intervalMerge) set(at string, f *file) {
	if t.committed {
		t.Plan.set(at, f)
		return
	}

	t.newNames[at] = f
	if f != nil {
		t.addedPaths[f] = append(t.addedPaths[f], at)
		t.newEntries[path.Dir(at)] = append(t.newEntries[path.Dir(at)], path.Base(at))
	}
}

// namesAfter returns the paths of a file in the plan with the changes of the interval.
func (t *intervalMerge) namesAfter(f *file) ([]string, error) {
	names, err := t.namesOf(f, 0)
	if err != nil {
		return nil, err
	}

	var out []string

	for _, p := range append(names, t.addedPaths[f]...) {
		g, err := t.fileAfter(p)
		if err != nil {
			return nil, err
		}
		if g == f && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}

	return out, nil
}

// below calls fn for each path below a directory in the plan with the changes of the interval, until
// fn returns false.
func (t *intervalMerge) below(at string, dir *file, fn func(name string) bool) error {
	_, err := t.eachBelow(at, dir, fn)
	return err
}

// eachBelow implements below. more is false if fn returned false.
func (t *intervalMerge) eachBelow(at string, dir *file, fn func(name string) bool) (more bool, err error) {
	names := slices.Concat(t.addedNames[at], t.newEntries[at])
	if dir.present != nil {
		if err := dir.present.Dir.List(t.Source, 0, func(e tree.Dirent, _ uint64) bool {
			names = append(names, e.Name)
			return true
		}); err != nil {
			return false, err
		}
	}

	slices.Sort(names)

	for _, name := range slices.Compact(names) {
		p := path.Join(at, name)
		f, err := t.fileAfter(p)
		if err != nil {
			return false, err
		}
		if f == nil {
			continue
		}
		if !fn(p) {
			return false, nil
		}

		if f.node.IsDir() {
			if more, err := t.eachBelow(p, f, fn); err != nil || !more {
				return more, err
			}
		}
	}

	return true, nil
}

// planParents plans the missing directories above a path, as they are in theirs. It returns false if a
// file is in the way.
func (t *intervalMerge) planParents(at string) (bool, error) {
	dir := path.Dir(at)
	if dir == "." {
		return true, nil
	}

	f, err := t.fileAfter(dir)
	if err != nil || f != nil {
		return err == nil && f.node.IsDir(), err
	}

	n, err := t.Theirs.Resolve(t.Source, dir)
	if err != nil {
		return false, err
	}

	free, err := t.planParents(dir)
	if free {
		t.set(dir, &file{node: n, view: t.Interval.View, ino: n.Ino})
	}

	return free, err
}

// conflictAbove adds a conflict for a file that the plan has in the place of a directory above a path. If
// the rule takes theirs, it removes the file.
func (t *intervalMerge) conflictAbove(at string) error {
	dir := path.Dir(at)
	f, err := t.fileAfter(dir)
	if err != nil {
		return err
	}
	if f == nil {
		return t.conflictAbove(dir)
	}

	return t.conflict(dir, func() error { t.set(dir, nil); return nil })
}

// commit puts the changes of the interval into the plan.
func (t *intervalMerge) commit() {
	t.committed = true
	for p, f := range t.newNames {
		t.Plan.set(p, f)
	}
	for _, s := range t.staged {
		s.apply()
	}

	for _, x := range t.files {
		if x.file == nil && x.baseIno != 0 {
			x.file = t.base[x.baseIno].ours
		}

		if x.file != nil {
			x.file.ino = x.node.Ino
			t.theirFiles[x.node.Ino] = x.file
		}
	}
}
