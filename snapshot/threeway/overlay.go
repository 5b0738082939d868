package threeway

import (
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A draft has the changes of one interval to the planned files, until commit.
type draft struct {
	*plannedFiles
	newNames     map[string]*file    // paths that the interval changed; nil: the path does not exist
	newEntries   map[string][]string // names of newNames by directory
	addedPaths   map[*file][]string  // paths of newNames by file
	stagedInodes []stagedInode
	committed    bool // newNames is in the plan
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

// stage sets the planned inode of a file: at once if the draft is committed, else in commit.
func (d *draft) stage(f *file, n *tree.Inode, view uint32) {
	s := stagedInode{f, n, view}
	if d.committed {
		s.apply()
	} else {
		d.stagedInodes = append(d.stagedInodes, s)
	}
}

func (s stagedInode) apply() { s.file.node, s.file.view, s.file.changed = s.node, s.view, true }

// commit puts the changes of the interval into the plan.
func (d *draft) commit() {
	d.committed = true
	for p, f := range d.newNames {
		d.plannedFiles.setFile(p, f)
	}
	for _, s := range d.stagedInodes {
		s.apply()
	}
}

// fileAfter returns the file that a path has once the interval's changes are added to the plan; nil if there is
// none.
func (d *draft) fileAfter(filePath string) (*file, error) {
	if d.committed {
		return d.fileAt(filePath)
	}
	if f, ok := d.newNames[filePath]; ok {
		return f, nil
	}

	if isReplacedAbove(d.newNames, filePath) {
		return nil, nil
	}

	return d.fileAt(filePath)
}

// setFile plans the file f at a path. If f is nil, it plans that the path does not exist.
func (d *draft) setFile(filePath string, f *file) {
	if d.committed {
		d.plannedFiles.setFile(filePath, f)
		return
	}

	d.newNames[filePath] = f
	if f != nil {
		d.addedPaths[f] = append(d.addedPaths[f], filePath)
		d.newEntries[path.Dir(filePath)] = append(d.newEntries[path.Dir(filePath)], path.Base(filePath))
	}
}

// namesAfter returns the paths that a file has once the interval's changes are added to the plan.
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

// eachPathBelow calls fn for each path that is below a directory once the interval's changes are added to the plan, until fn
// returns false.
func (d *draft) eachPathBelow(filePath string, dir *file, fn func(name string) bool) error {
	_, err := d.visitBelow(filePath, dir, fn)
	return err
}

// visitBelow does the work of eachPathBelow. more is false if fn returned false.
func (d *draft) visitBelow(filePath string, dir *file, fn func(name string) bool) (more bool, err error) {
	names := slices.Concat(d.addedNames[filePath], d.newEntries[filePath])
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
		p := path.Join(filePath, name)
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
			if more, err := d.visitBelow(p, f, fn); err != nil || !more {
				return more, err
			}
		}
	}

	return true, nil
}

// planParents plans the missing directories above a path, with their attributes in theirs. It returns false if the
// plan has a file at the path of one of these directories.
func (t *intervalMerge) planParents(filePath string) (bool, error) {
	dir := path.Dir(filePath)
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
		t.setFile(dir, &file{node: n, view: t.pairs.View, theirIno: n.Ino})
	}

	return free, err
}

// conflictAbove adds a conflict for the file that the plan has at the path of a directory above a path. If the
// rule takes theirs, it removes the file from the plan.
func (t *intervalMerge) conflictAbove(filePath string) error {
	dir := path.Dir(filePath)
	f, err := t.fileAfter(dir)
	if err != nil {
		return err
	}
	if f == nil {
		return t.conflictAbove(dir)
	}

	return t.addConflict(dir, func() error { t.setFile(dir, nil); return nil })
}
