package threeway

import (
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// plannedFiles has the files of ours, with the changes of the plan.
type plannedFiles struct {
	source *tree.Source
	ours   *tree.State
	view   uint32 // the view of ours

	planned      map[string]*file       // paths that the plan changed; nil: the path does not exist in the plan
	lookups      map[string]*tree.Inode // results of presentAt
	addedNames   map[string][]string    // names that the plan added, by directory
	presentFiles map[uint64]*file       // present files that the plan has looked up, by number
	theirFiles   map[uint64]*file       // files of the plan, by their inode number in theirs
}

func newPlannedFiles(src *tree.Source, ours *tree.State, view uint32) plannedFiles {
	return plannedFiles{
		src, ours, view,
		make(map[string]*file), make(map[string]*tree.Inode), make(map[string][]string), make(map[uint64]*file), make(map[uint64]*file),
	}
}

// A file is a file or a directory of the planned tree.
type file struct {
	node    *tree.Inode // planned attributes and contents; the contents are those of node.Ino in view
	view    uint32
	ino     uint64      // the inode number in theirs, for the last interval that has the file; at first, the number in ours
	present *tree.Inode // the inode in ours; nil for a new file
	paths   []string    // paths of present, see namesOf
	names   []string    // paths that the plan added
	changed bool        // node differs from present
}

// A File is a file of the planned tree.
type File = file

// Node returns the planned inode.
func (f *file) Node() *tree.Inode { return f.node }

// Present returns the inode of ours that becomes the file, nil for a new file.
func (f *file) Present() *tree.Inode { return f.present }

// get returns the file of the plan at a path, nil if there is none.
func (p *plannedFiles) get(at string) (*file, error) {
	if f, ok := p.planned[at]; ok {
		return f, nil
	}

	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if f, ok := p.planned[dir]; ok && (f == nil || f.present == nil || !f.node.IsDir()) {
			return nil, nil
		}
	}

	n, err := p.presentAt(at)
	if n == nil {
		return nil, err
	}

	return p.file(n), nil
}

// presentAt returns the inode at a path in ours, nil if there is none.
func (p *plannedFiles) presentAt(at string) (*tree.Inode, error) {
	n, ok := p.lookups[at]
	if ok {
		return n, nil
	}

	n, err := p.ours.At(p.source, at)
	p.lookups[at] = n

	return n, err
}

// file returns the file of the plan for an inode of ours.
func (p *plannedFiles) file(n *tree.Inode) *file {
	f, ok := p.presentFiles[n.Ino]
	if !ok {
		f = &file{node: n, view: p.view, ino: n.Ino, present: n}
		p.presentFiles[n.Ino] = f
	}
	return f
}

// set plans the file f at a path, or with nil that the path does not exist.
func (p *plannedFiles) set(at string, f *file) {
	p.planned[at] = f
	if f != nil && !slices.Contains(f.names, at) {
		f.names = append(f.names, at)
		p.addedNames[path.Dir(at)] = append(p.addedNames[path.Dir(at)], path.Base(at))
	}
}

// namesOf returns the paths of a file in the plan, at most the given number; 0: all.
func (p *plannedFiles) namesOf(f *file, most int) (names []string, err error) {
	if f.present != nil && f.paths == nil {
		if f.paths, err = p.ours.Paths(p.source, f.present); err != nil {
			return nil, err
		}
		slices.Sort(f.paths)
	}

	for i, list := range [][]string{f.paths, f.names} {
		for _, at := range list {
			if _, found := slices.BinarySearch(f.paths, at); i == 1 && found {
				continue
			}

			g, err := p.get(at)
			if err != nil {
				return nil, err
			}
			if g == f {
				names = append(names, at)
			}
			if most > 0 && len(names) == most {
				return names, nil
			}
		}
	}

	return names, nil
}

// equals reports whether a file of the plan equals an inode.
func (p *plannedFiles) equals(f *file, n *tree.Inode) (bool, error) {
	if f.node == n {
		return true, nil
	}
	return tree.SameFile(p.source, f.node, n)
}
