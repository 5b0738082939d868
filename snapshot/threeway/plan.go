// Package threeway plans merges of trees: of a fork into the workspace that it was forked
// from, and of an earlier state into the present one, which reverts changes. Names, kinds,
// contents, attributes and hard links are merged, text by lines.
//
// A Plan begins as the present tree, ours. Take takes over what differs between a base and
// theirs. A path that still is as in the base becomes what it is in theirs, and its contents
// are not read. What differs by now is merged. Steps returns what has to be done to the
// present tree.
package threeway

import (
	"context"
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Interval is a base, and what it became.
type Interval struct {
	Base, Theirs *tree.State
	View         uint32          // of Theirs
	Changes      []tree.Change   // those to take over, from Base to Theirs, in the order of tree.Diff
	Disputed     map[string]bool // paths of Changes that are conflicts, as others changed them, too
	Whole        []string        // directories that are one entry, and that both sides changed: none of Changes is in them
}

// A Plan is a tree that is being planned. The caller sets the fields down to ByPath.
type Plan struct {
	Source  *tree.Source
	Objects content.ObjectStore // where merged texts are stored
	Ours    *tree.State
	View    uint32 // of Ours
	Now     int64  // the time of the merge, in ns
	Merge   Merger // nil: texts do not merge
	List    *budget.Charge
	Skip    map[string]bool // paths that stay as they are, with all below them
	Rule    func(path string) Rule
	ByPath  bool // files are not followed through renames
	Decided map[string]Decision
	// Git, if set, brings the git directories of an interval together. Name is that of their side.
	Git           Repositories
	Name          string
	FromDirectory bool // see Sides
	DryRun        bool
	Join          bool // see Sides.Merge

	Said []Repository

	Conflicts []string // paths

	stored       []*content.Content     // merged texts
	refused      map[string]bool        // those of Conflicts
	ours         map[string]bool        // those of them that stay as they are
	whole        map[string]bool        // those that are a directory on one side only
	planned      map[string]*file       // paths that the plan decided about; nil: nothing is there
	lookups      map[string]*tree.Inode // see now
	addedNames   map[string][]string    // names that the plan put into directories
	presentFiles map[uint64]*file       // present files that the plan looked at, by inode number
	theirFiles   map[uint64]*file       // files that the plan made, by the inode that they are in theirs
	texts        []text
	decided      map[string]bool // those of Decided that were taken
}

// A file is a file or a directory of the planned tree.
type file struct {
	node    *tree.Inode // what it is like; node.Ino in view has the contents
	view    uint32
	ino     uint64      // the inode that it is in theirs
	present *tree.Inode // nil if the plan makes it
	paths   []string    // of present, see names
	names   []string    // that the plan gave it
	changed bool
}

// cost is the memory of a path in a plan, in bytes, beside its name.
const cost = 700

// Collect adds a change to an interval.
func (p *Plan) Collect(ctx context.Context, i *Interval, c tree.Change) error {
	n := c.Path.Len()
	if n >= unix.PathMax {
		return errs.New(errs.NameTooLong, "%s is too long a path to be merged", c.Path.Short())
	}
	i.Changes = append(i.Changes, c)
	return errors.Join(turns.Yield(ctx), p.List.Try(cost+int64(n)))
}

// Run plans with take. If that finds new conflicts in which ours stays, it plans again.
func (p *Plan) Run(take func() error) error {
	p.refused, p.ours, p.whole, p.decided = make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for again := true; again; {
		p.planned, p.lookups, p.addedNames = make(map[string]*file), make(map[string]*tree.Inode), make(map[string][]string)
		p.presentFiles, p.theirFiles = make(map[uint64]*file), make(map[uint64]*file)
		if err := take(); err != nil {
			return err
		}
		again = false
		for _, at := range p.Conflicts {
			if p.Rule(at) == KeepOurs && !p.ours[at] {
				p.ours[at], again = true, true
			}
		}
	}
	slices.Sort(p.Conflicts)
	return nil
}

// stays reports whether a path is to stay as it is. So does all in a directory that is none in
// theirs.
func (p *Plan) stays(at string) bool {
	for dir := path.Dir(at); len(p.whole) > 0 && dir != "."; dir = path.Dir(dir) {
		if p.ours[dir] && p.whole[dir] {
			return true
		}
	}
	return p.ours[at] || Under(at, p.Skip) != ""
}

// conflict notes a path that changed on both sides. theirs makes it what it is in theirs.
func (p *Plan) conflict(at string, theirs func() error) error {
	if p.stays(at) {
		return nil
	}
	if !p.refused[at] {
		p.refused[at] = true
		p.Conflicts = append(p.Conflicts, at)
	}
	if p.Rule(at) == TakeTheirs {
		return theirs()
	}
	return nil
}

// get returns the file of the plan at a path, nil if there is none.
func (p *Plan) get(at string) (*file, error) {
	if f, ok := p.planned[at]; ok {
		return f, nil
	}
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if f, ok := p.planned[dir]; ok && (f == nil || f.present == nil || !f.node.IsDir()) {
			return nil, nil
		}
	}
	n, err := p.now(at)
	if n == nil {
		return nil, err
	}
	return p.file(n), nil
}

// At returns what is at a path in ours, and what the plan has there; nil for nothing.
func (p *Plan) At(at string) (ours, planned *tree.Inode, err error) {
	if ours, err = p.now(at); err != nil {
		return nil, nil, err
	}
	f, err := p.get(at)
	if f != nil {
		planned = f.node
	}
	return ours, planned, err
}

// now returns the present inode at a path, nil if there is none.
func (p *Plan) now(at string) (*tree.Inode, error) {
	n, ok := p.lookups[at]
	if ok {
		return n, nil
	}
	n, err := p.Ours.At(p.Source, at)
	p.lookups[at] = n
	return n, err
}

// file returns the file of a present inode.
func (p *Plan) file(n *tree.Inode) *file {
	f, ok := p.presentFiles[n.Ino]
	if !ok {
		f = &file{node: n, view: p.View, ino: n.Ino, present: n}
		p.presentFiles[n.Ino] = f
	}
	return f
}

// set puts a file at a path, or nothing.
func (p *Plan) set(at string, f *file) {
	p.planned[at] = f
	if f != nil && !slices.Contains(f.names, at) {
		f.names = append(f.names, at)
		p.addedNames[path.Dir(at)] = append(p.addedNames[path.Dir(at)], path.Base(at))
	}
}

// namesOf returns at most so many of the paths of a file in the plan, 0 for all.
func (p *Plan) namesOf(f *file, most int) (names []string, err error) {
	if f.present != nil && f.paths == nil {
		if f.paths, err = p.Ours.Paths(p.Source, f.present); err != nil {
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

func (p *Plan) same(f *file, n *tree.Inode) (bool, error) {
	if f.node == n {
		return true, nil
	}
	return tree.SameFile(p.Source, f.node, n)
}

// Under returns the path, or the nearest directory above it, that is in the set, "" if none is.
func Under(p string, set map[string]bool) string {
	for ; len(set) > 0 && p != "." && p != "/" && p != ""; p = path.Dir(p) {
		if set[p] {
			return p
		}
	}
	return ""
}

// Stored returns a state that has the merged texts, nil for none. They are in Objects, and the
// caller makes them durable: until it has, it keeps the state from gc.
func (p *Plan) Stored() (st *tree.State, err error) {
	for i, c := range p.stored {
		n := &tree.Inode{Ino: tree.RootIno + uint64(i), Mode: unix.S_IFREG, Nlink: 1, Content: c}
		if st == nil {
			st = tree.New(1, n)
		} else if err := st.Put(p.Source, 1, n); err != nil {
			return nil, err
		}
	}
	return st, nil
}
