package threeway

import (
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// plannedFiles are the files of ours with the changes that the plan makes.
type plannedFiles struct {
	source *tree.Source
	ours   *tree.State
	view   uint32 // the view of ours

	changedPaths map[string]*file       // paths that the plan changed; nil: the path does not exist in the plan
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
	node         *tree.Inode // planned attributes and contents; the contents are those of node.Ino in view
	view         uint32
	theirIno     uint64      // the inode number in theirs, as of the last merged interval with the file; before any such interval, the number in ours
	present      *tree.Inode // the inode in ours; nil for a new file
	presentPaths []string    // paths of present, see namesOf
	addedPaths   []string    // paths that the plan added
	changed      bool        // node differs from present
}

// A File is a file of the planned tree.
type File = file

// Node returns the planned inode.
func (f *file) Node() *tree.Inode { return f.node }

// Present returns the inode of ours that becomes the file, nil for a new file.
func (f *file) Present() *tree.Inode { return f.present }

// fileAt returns the file of the plan at a path, nil if there is none.
func (p *plannedFiles) fileAt(filePath string) (*file, error) {
	if f, ok := p.changedPaths[filePath]; ok {
		return f, nil
	}

	if isReplacedAbove(p.changedPaths, filePath) {
		return nil, nil
	}

	n, err := p.presentAt(filePath)
	if n == nil {
		return nil, err
	}

	return p.presentFile(n), nil
}

// isReplacedAbove reports whether names has, for a directory above a path, a file other than the directory of ours.
func isReplacedAbove(names map[string]*file, filePath string) bool {
	for dir := path.Dir(filePath); dir != "."; dir = path.Dir(dir) {
		if f, ok := names[dir]; ok && (f == nil || f.present == nil || !f.node.IsDir()) {
			return true
		}
	}
	return false
}

// presentAt returns the inode at a path in ours, nil if there is none.
func (p *plannedFiles) presentAt(filePath string) (*tree.Inode, error) {
	n, ok := p.lookups[filePath]
	if ok {
		return n, nil
	}

	n, err := p.ours.InodeAt(p.source, filePath)
	p.lookups[filePath] = n

	return n, err
}

// presentFile returns the file of the plan for an inode of ours.
func (p *plannedFiles) presentFile(n *tree.Inode) *file {
	f, ok := p.presentFiles[n.Ino]
	if !ok {
		f = &file{node: n, view: p.view, theirIno: n.Ino, present: n}
		p.presentFiles[n.Ino] = f
	}
	return f
}

// setFile plans the file f at a path. If f is nil, it plans that the path does not exist.
func (p *plannedFiles) setFile(filePath string, f *file) {
	p.changedPaths[filePath] = f
	if f != nil && !slices.Contains(f.addedPaths, filePath) {
		f.addedPaths = append(f.addedPaths, filePath)
		p.addedNames[path.Dir(filePath)] = append(p.addedNames[path.Dir(filePath)], path.Base(filePath))
	}
}

// namesOf returns the paths of a file in the plan, at most limit; 0: all.
func (p *plannedFiles) namesOf(f *file, limit int) (names []string, err error) {
	if f.present != nil && f.presentPaths == nil {
		if f.presentPaths, err = p.ours.Paths(p.source, f.present); err != nil {
			return nil, err
		}
		slices.Sort(f.presentPaths)
	}

	for i, list := range [][]string{f.presentPaths, f.addedPaths} {
		for _, filePath := range list {
			if _, found := slices.BinarySearch(f.presentPaths, filePath); i == 1 && found {
				continue
			}

			g, err := p.fileAt(filePath)
			if err != nil {
				return nil, err
			}
			if g == f {
				names = append(names, filePath)
			}
			if limit > 0 && len(names) == limit {
				return names, nil
			}
		}
	}

	return names, nil
}

// equals reports whether a file of the plan equals an inode.
func (p *plannedFiles) equals(f *file, n *tree.Inode) (bool, error) {
	return tree.SameFile(p.source, f.node, n)
}
