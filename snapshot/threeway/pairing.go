package threeway

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// filePairs finds the file of theirs and the file of ours that continue each file of the base. Files
// are all inodes except directories. These rules apply in order:
//
//  1. A file with the number of the base file and one of its names continues it.
//  2. Otherwise the first new file of its type at one of its names continues it, because programs save a
//     file by replacing it with a new one.
//  3. Otherwise a file with the number of the base file continues it: the file was moved. With
//     Plan.ByPath it is a new file instead.
type filePairs struct {
	*plannedFiles
	Interval
	byPath   bool                   // see Plan.ByPath
	changes  []tree.Change          // the changes to merge
	changeAt map[string]tree.Change // changes by path

	baseFiles    map[uint64]*baseFile
	theirsAt     map[string]*theirFile // files of theirs, by the paths of changes
	changedFiles []*theirFile          // the values of theirsAt, in the order of their first paths
	baseInos     map[*file]uint64      // results of baseInoOf
}

// A baseFile is a file of the base.
type baseFile struct {
	node        *tree.Inode
	names       []string   // sorted
	theirs      *theirFile // the file of theirs that continues the base file, if the interval changes that file
	ours        *file      // result of oursOf
	kept        *file      // result of keptFile
	oursKnown   bool       // ours is set
	keptKnown   bool       // kept is set
	lostNames   []string   // names that the file has in the base only
	gainedNames []string   // names that the file has in theirs only
}

// A theirFile is a file of theirs at the path of a change.
type theirFile struct {
	node       *tree.Inode
	paths      []string  // paths of changes
	baseIno    uint64    // number of the base file that this file continues; 0: this file is new
	copiedFrom *baseFile // for a new file: the base file at one of its paths; the new file may be a copy of it
	path       string    // the path of copiedFrom
	file       *file     // the file in the plan; nil: not planned yet
}

// pairFiles finds the base file that each file of theirs continues. Then it finds, for each new file of theirs, an
// equal new file of ours.
func (t *filePairs) pairFiles(ctx context.Context) error {
	t.baseFiles, t.theirsAt, t.baseInos = make(map[uint64]*baseFile), make(map[string]*theirFile), make(map[*file]uint64)
	byIno := make(map[uint64]*theirFile)

	for _, c := range t.changes {
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		if c.After == nil || c.After.IsDir() {
			continue
		}

		x := byIno[c.After.Ino]
		if x == nil {
			x = &theirFile{node: c.After}
			byIno[c.After.Ino] = x
			t.changedFiles = append(t.changedFiles, x)
		}

		p := c.Path.String()
		x.paths, t.theirsAt[p] = append(x.paths, p), x
	}

	// Rule 1 of filePairs.
	for _, x := range t.changedFiles {
		b, err := t.baseFile(x.node.Ino)
		if err != nil {
			return err
		}

		kept := false
		if b != nil {
			if kept, err = t.keptInTheirs(b); err != nil {
				return err
			}
		}

		if kept {
			x.baseIno, b.theirs = b.node.Ino, x
		}
	}

	// Rule 2.
	first := make(map[*theirFile]*baseFile)

	for _, x := range t.changedFiles {
		if x.baseIno != 0 {
			continue
		}
		b, err := t.firstBaseFile(x.paths, func(b *baseFile) (bool, error) { return b.node.Type() == x.node.Type() && !t.retainedByChanges(b), nil })
		if err != nil {
			return err
		}
		first[x] = b
	}

	for _, b := range first {
		if b == nil || b.theirs != nil {
			continue
		}

		for _, p := range b.names {
			if x := t.theirsAt[p]; x != nil && x.baseIno == 0 && first[x] == b {
				x.baseIno, b.theirs = b.node.Ino, x
				break
			}
		}
	}

	// Rule 3.
	for _, x := range t.changedFiles {
		if x.baseIno != 0 || t.byPath {
			continue
		}
		b, err := t.baseFile(x.node.Ino)
		if err != nil {
			return err
		}
		if b != nil && b.theirs == nil && !t.retainedByChanges(b) {
			x.baseIno, b.theirs = b.node.Ino, x
		}
	}

	for _, c := range t.changes {
		if err := t.recordMovedNames(c); err != nil {
			return err
		}
	}

	for _, x := range t.changedFiles {
		pair := t.pairNew
		if x.baseIno != 0 {
			pair = t.pairCopy
		}
		if err := pair(x); err != nil {
			return err
		}
	}

	return nil
}

// pairCopy is called for a file that theirs moved and ours removed. If ours has an equal new file at the new path,
// the plan uses this file.
func (t *filePairs) pairCopy(x *theirFile) error {
	b, err := t.baseFile(x.baseIno)
	if err != nil || len(b.gainedNames) == 0 {
		return err
	}
	if ours, err := t.oursOf(b); err != nil || ours != nil {
		return err
	}

	for _, p := range b.gainedNames {
		f, err := t.newFileAt(p)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}

		same, err := t.equals(f, x.node)
		if err != nil {
			return err
		}

		if same {
			x.file = f
			return nil
		}
	}

	return nil
}

// newFileAt returns the file of the plan at a path if it continues no file of the base, else nil.
func (t *filePairs) newFileAt(p string) (*file, error) {
	f, err := t.fileAt(p)
	if err != nil || f == nil || f.node.IsDir() {
		return nil, err
	}

	baseIno, err := t.baseInoOf(f)
	if err != nil || baseIno != 0 {
		return nil, err
	}

	return f, nil
}

// keptInTheirs reports whether theirs has the file with the number of b at one of b's names in the base.
func (t *filePairs) keptInTheirs(b *baseFile) (bool, error) {
	for _, p := range b.names {
		if c, ok := t.changeAt[p]; ok {
			if c.After != nil && c.After.Ino == b.node.Ino {
				return true, nil
			}
			continue
		}

		n, err := t.Theirs.InodeAt(t.source, p)
		if err != nil || n != nil && n.Ino == b.node.Ino {
			return err == nil, err
		}
	}
	return false, nil
}

// retainedByChanges reports whether theirs has the file b at one of b's names in the base. It reads only the list
// of changes, not the state theirs.
func (t *filePairs) retainedByChanges(b *baseFile) bool {
	return slices.ContainsFunc(b.names, func(p string) bool {
		c, ok := t.changeAt[p]
		return !ok || c.After != nil && c.After.Ino == b.node.Ino
	})
}

// firstBaseFile returns the first file of the base that has one of the given names and for which match returns true;
// nil if there is none.
func (t *filePairs) firstBaseFile(names []string, match func(*baseFile) (bool, error)) (*baseFile, error) {
	for _, p := range names {
		b, err := t.baseAt(p)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		if ok, err := match(b); err != nil || ok {
			return b, err
		}
	}
	return nil, nil
}

// recordMovedNames adds the path of a change to the lost and gained names of files of the base.
func (t *filePairs) recordMovedNames(c tree.Change) error {
	p := c.Path.String()
	before, after := uint64(0), uint64(0)
	if c.Before != nil && !c.Before.IsDir() {
		before = c.Before.Ino
	}
	if x := t.theirsAt[p]; x != nil {
		after = x.baseIno
	}
	if before == after {
		return nil
	}

	if before != 0 {
		b, err := t.baseFile(before)
		if err != nil {
			return err
		}
		b.lostNames = append(b.lostNames, p)
	}

	if after != 0 {
		b, err := t.baseFile(after)
		if err != nil {
			return err
		}
		b.gainedNames = append(b.gainedNames, p)
	}

	return nil
}

// pairNew finds the files that belong to x, a new file of theirs:
//   - x.copiedFrom becomes the file that the base has at one of the paths of x;
//   - x.file becomes a new file of ours: the file at the path of x.copiedFrom or, if x.copiedFrom is nil, an equal
//     file at one of the paths of x.
func (t *filePairs) pairNew(x *theirFile) error {
	for _, p := range x.paths {
		b, err := t.baseAt(p)
		if err != nil {
			return err
		}

		if b != nil && b.node.Type() == x.node.Type() {
			x.copiedFrom, x.path = b, p
			break
		}
	}

	for _, p := range x.paths {
		if x.copiedFrom != nil && p != x.path {
			continue
		}
		f, err := t.newFileAt(p)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}

		same := x.copiedFrom != nil && f.node.Type() == x.node.Type()
		if !same {
			if same, err = t.equals(f, x.node); err != nil {
				return err
			}
		}

		if same {
			x.file = f
			return nil
		}
	}

	return nil
}

// baseFile returns the file of the base with a number, nil if there is none.
func (t *filePairs) baseFile(ino uint64) (*baseFile, error) {
	b, ok := t.baseFiles[ino]
	if ok {
		return b, nil
	}

	n, err := t.Base.Find(t.source, ino)
	if err != nil {
		return nil, err
	}
	if n == nil || n.IsDir() {
		t.baseFiles[ino] = nil
		return nil, nil
	}

	names, err := t.Base.Paths(t.source, n)
	if err != nil {
		return nil, err
	}

	slices.SortFunc(names, tree.ComparePaths)
	b = &baseFile{node: n, names: names}
	t.baseFiles[ino] = b

	return b, nil
}

// baseAt returns the file of the base at a path, nil if there is none.
func (t *filePairs) baseAt(p string) (*baseFile, error) {
	var n *tree.Inode
	if c, ok := t.changeAt[p]; ok {
		n = c.Before
	} else {
		var err error
		if n, err = t.Base.InodeAt(t.source, p); err != nil {
			return nil, err
		}
	}
	if n == nil || n.IsDir() {
		return nil, nil
	}
	if b := t.baseFiles[n.Ino]; b == nil && len(n.Links) == 1 {
		t.baseFiles[n.Ino] = &baseFile{node: n, names: []string{p}}
	}

	return t.baseFile(n.Ino)
}

// commit records the numbers of the files of theirs in the plan, for the next interval.
func (t *filePairs) commit() {
	for _, x := range t.changedFiles {
		if x.file == nil && x.baseIno != 0 {
			x.file = t.baseFiles[x.baseIno].ours
		}

		if x.file != nil {
			x.file.theirIno = x.node.Ino
			t.theirFiles[x.node.Ino] = x.file
		}
	}
}
