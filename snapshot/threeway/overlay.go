package threeway

import (
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A draft has the changes of one interval to the planned files, until commit.
type draft struct {
	*plannedFiles
	newNames   map[string]*file    // paths that the interval changed; nil: the path does not exist
	newEntries map[string][]string // names of newNames by directory
	addedPaths map[*file][]string  // paths of newNames by file
	staged     []stagedInode
	committed  bool // newNames is in the plan
}

// A stagedInode is the planned inode of a file, until commit.
type stagedInode struct {
	file *file
	node *tree.Inode
	view uint32
}

func newDraft(on *plannedFiles) draft {
	return draft{plannedFiles: on, newNames: make(map[string]*file), newEntries: make(map[string][]string), addedPaths: make(map[*file][]string)}
}

// stage sets the planned inode of a file, at once or in commit.
func (d *draft) stage(f *file, n *tree.Inode, view uint32) {
	s := stagedInode{f, n, view}
	if d.committed {
		s.apply()
	} else {
		d.staged = append(d.staged, s)
	}
}

func (s stagedInode) apply() { s.file.node, s.file.view, s.file.changed = s.node, s.view, true }

// commit puts the changes of the interval into the plan.
func (d *draft) commit() {
	d.committed = true
	for p, f := range d.newNames {
		d.plannedFiles.set(p, f)
	}
	for _, s := range d.staged {
		s.apply()
	}
}

// fileAfter returns the file at a path in the plan with the changes of the interval; nil if there is
// none.
func (d *draft) fileAfter(at string) (*file, error) {
	if d.committed {
		return d.get(at)
	}
	if f, ok := d.newNames[at]; ok {
		return f, nil
	}

	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if f, ok := d.newNames[dir]; ok && (f == nil || f.present == nil || !f.node.IsDir()) {
			return nil, nil
		}
	}

	return d.get(at)
}

// nodeAfter returns the inode of a file of the plan with the changes of the interval.
func (d *draft) nodeAfter(f *file) *tree.Inode {
	for _, s := range slices.Backward(d.staged) {
		if s.file == f {
			return s.node
		}
	}
	return f.node
}

// set plans the file f at a path, or with nil that the path does not exist.
func (d *draft) set(at string, f *file) {
	if d.committed {
		d.plannedFiles.set(at, f)
		return
	}

	d.newNames[at] = f
	if f != nil {
		d.addedPaths[f] = append(d.addedPaths[f], at)
		d.newEntries[path.Dir(at)] = append(d.newEntries[path.Dir(at)], path.Base(at))
	}
}

// namesAfter returns the paths of a file in the plan with the changes of the interval.
func (d *draft) namesAfter(f *file) ([]string, error) {
	names, err := d.namesOf(f, 0)
	if err != nil {
		return nil, err
	}

	var out []string

	for _, p := range append(names, d.addedPaths[f]...) {
		g, err := d.fileAfter(p)
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
func (d *draft) below(at string, dir *file, fn func(name string) bool) error {
	_, err := d.eachBelow(at, dir, fn)
	return err
}

// eachBelow implements below. more is false if fn returned false.
func (d *draft) eachBelow(at string, dir *file, fn func(name string) bool) (more bool, err error) {
	names := slices.Concat(d.addedNames[at], d.newEntries[at])
	if dir.present != nil {
		if err := dir.present.Dir.List(d.source, 0, func(e tree.Dirent, _ uint64) bool {
			names = append(names, e.Name)
			return true
		}); err != nil {
			return false, err
		}
	}

	slices.Sort(names)

	for _, name := range slices.Compact(names) {
		p := path.Join(at, name)
		f, err := d.fileAfter(p)
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
			if more, err := d.eachBelow(p, f, fn); err != nil || !more {
				return more, err
			}
		}
	}

	return true, nil
}

// planParents plans the missing directories above a path, with their attributes in theirs. It returns false if a
// file is at the path of one of them.
func (t *intervalMerge) planParents(at string) (bool, error) {
	dir := path.Dir(at)
	if dir == "." {
		return true, nil
	}

	f, err := t.fileAfter(dir)
	if err != nil || f != nil {
		return err == nil && f.node.IsDir(), err
	}

	n, err := t.pairs.Theirs.Resolve(t.source, dir)
	if err != nil {
		return false, err
	}

	free, err := t.planParents(dir)
	if free {
		t.set(dir, &file{node: n, view: t.pairs.View, ino: n.Ino})
	}

	return free, err
}

// conflictAbove adds a conflict if the plan has a file at the path of a directory above a path. If the rule takes
// theirs, it removes the file from the plan.
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
