package threeway

import (
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// after returns the file of the plan at a path, with the changes of the interval; nil if there is none.
func (t *taking) after(at string) (*file, error) {
	if t.done {
		return t.get(at)
	}
	if f, ok := t.put[at]; ok {
		return f, nil
	}
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if f, ok := t.put[dir]; ok && (f == nil || f.present == nil || !f.node.IsDir()) {
			return nil, nil
		}
	}
	return t.get(at)
}

// set puts a file at a path, or nothing.
func (t *taking) set(at string, f *file) {
	if t.done {
		t.Plan.set(at, f)
		return
	}
	t.put[at] = f
	if f != nil {
		t.added[f] = append(t.added[f], at)
		t.into[path.Dir(at)] = append(t.into[path.Dir(at)], path.Base(at))
	}
}

// namesAfter returns the names of a file with what the interval changed.
func (t *taking) namesAfter(f *file) ([]string, error) {
	names, err := t.namesOf(f, 0)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range append(names, t.added[f]...) {
		g, err := t.after(p)
		if err != nil {
			return nil, err
		}
		if g == f && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// below calls fn for what the plan has in a directory, until fn returns false.
func (t *taking) below(at string, dir *file, fn func(name string) bool) error {
	_, err := t.eachBelow(at, dir, fn)
	return err
}

func (t *taking) eachBelow(at string, dir *file, fn func(name string) bool) (more bool, err error) {
	names := slices.Concat(t.addedNames[at], t.into[at])
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
		f, err := t.after(p)
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

// parents creates the missing directories above a path. It reports whether the path has a
// directory then.
func (t *taking) parents(at string) (bool, error) {
	dir := path.Dir(at)
	if dir == "." {
		return true, nil
	}
	f, err := t.after(dir)
	if err != nil || f != nil {
		return err == nil && f.node.IsDir(), err
	}
	n, err := t.Theirs.Resolve(t.Source, dir)
	if err != nil {
		return false, err
	}
	free, err := t.parents(dir)
	if free {
		t.set(dir, &file{node: n, view: t.Interval.View, ino: n.Ino})
	}
	return free, err
}

// commit puts what the interval changed into the plan.
func (t *taking) commit() {
	t.done = true
	for p, f := range t.put {
		t.Plan.set(p, f)
	}
	for _, s := range t.staged {
		s.make()
	}
	for _, x := range t.files {
		if x.file == nil && x.goesOn != 0 {
			x.file = t.base[x.goesOn].ours
		}
		if x.file != nil {
			x.file.ino = x.node.Ino
			t.theirFiles[x.node.Ino] = x.file
		}
	}
}
