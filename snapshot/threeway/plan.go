package threeway

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Interval has the changes of one side: from a base to theirs.
type Interval struct {
	Base, Theirs *tree.State
	View         uint32          // the view of Theirs
	Changes      []tree.Change   // the changes to merge, from Base to Theirs, in the order of tree.Diff
	Disputed     map[string]bool // paths of Changes that are conflicts, because other actors changed them, too
	Whole        []string        // directories merged as one entry (see splitWhole) that both sides changed; not in Changes
	Taken        []string        // paths that become as in Theirs, whatever Ours has; not in Changes
}

// A Plan is the planned result of a merge. The caller sets the fields down to DryRun.
type Plan struct {
	Source  *tree.Source
	Store   func(ctx context.Context, r io.Reader) (*content.Content, error) // stores merged texts
	Ours    *tree.State
	View    uint32                 // the view of Ours
	Now     int64                  // the time of the merge, in ns
	Merge   Merger                 // nil: texts are not merged
	List    *budget.Charge         // charged with the memory of the plan
	Skip    map[string]bool        // paths that stay as they are, with all paths below them
	Rule    func(path string) Rule // for conflicts
	ByPath  bool                   // treat a renamed file as a removed file and a new one
	Decided map[string]Decision    // texts of single files, by path
	// Git, if not nil, merges the git directories of an interval. Name is the name of their side.
	Git            Repositories
	Name           string
	FromDirectory  bool // see Sides
	DryRun         bool
	Join           bool // see Sides.Merge
	RefuseDiverged bool

	Said []Repository // result of Git

	Conflicts []string // paths

	stored       []*content.Content     // merged texts
	refused      map[string]bool        // the paths of Conflicts
	ours         map[string]bool        // paths of Conflicts that stay as they are
	whole        map[string]bool        // paths of Conflicts that are a directory on one side only
	planned      map[string]*file       // decided paths; nil: the path does not exist in the plan
	lookups      map[string]*tree.Inode // results of presentAt
	addedNames   map[string][]string    // names that the plan added, by directory
	presentFiles map[uint64]*file       // present files that the plan has looked up, by number
	theirFiles   map[uint64]*file       // files of the plan, by their number in theirs
	texts        []textMerge
	decided      map[string]bool // paths of Decided whose decision was used
}

// A file is a file or a directory of the planned tree.
type file struct {
	node    *tree.Inode // planned attributes and contents; the contents are those of node.Ino in view
	view    uint32
	ino     uint64      // number in theirs of the last interval that has it; at first, number in ours
	present *tree.Inode // the inode in ours; nil for a new file
	paths   []string    // paths of present, see namesOf
	names   []string    // paths that the plan added
	changed bool        // node differs from present
}

// cost is the memory of a path in a plan, in bytes, without its name.
const cost = 700

// Collect adds a change to an interval, and charges its memory to List.
func (p *Plan) Collect(ctx context.Context, i *Interval, c tree.Change) error {
	n := c.Path.Len()
	if n >= unix.PathMax {
		return errs.New(errs.NameTooLong, "%s is too long a path to be merged", c.Path.Short())
	}
	i.Changes = append(i.Changes, c)
	return errors.Join(turns.Yield(ctx), p.List.Try(cost+int64(n)))
}

// Run calls take, which calls Take for each interval. If there are new conflicts in which ours
// stays, it plans again without these paths.
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

// stays reports whether a path stays as it is in ours: by Skip, or because it is in conflict and the
// rule keeps ours. If the conflict is a directory of ours that is no directory in theirs, the paths
// below it stay, too.
func (p *Plan) stays(at string) bool {
	for dir := path.Dir(at); len(p.whole) > 0 && dir != "."; dir = path.Dir(dir) {
		if p.ours[dir] && p.whole[dir] {
			return true
		}
	}
	return p.ours[at] || Under(at, p.Skip) != ""
}

// conflict adds a path to Conflicts. If the rule takes theirs, it calls theirs, which plans the
// version of theirs.
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

// File returns the file of the plan at a path, nil if there is none. The names of one file return one
// pointer.
func (p *Plan) File(at string) (*File, error) { return p.get(at) }

// A File is a file of the planned tree.
type File = file

// Node returns the planned inode.
func (f *file) Node() *tree.Inode { return f.node }

// Present returns the inode of ours that becomes the file, nil for a new file.
func (f *file) Present() *tree.Inode { return f.present }

// Keeper returns the file of the plan that an inode of ours becomes, nil if it loses all names.
func (p *Plan) Keeper(n *tree.Inode) (*File, error) {
	f := p.file(n)
	names, err := p.namesOf(f, 1)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return f, nil
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

	n, err := p.presentAt(at)
	if n == nil {
		return nil, err
	}

	return p.file(n), nil
}

// Versions returns the inodes at a path in ours and in the plan, nil where the path does not exist.
func (p *Plan) Versions(at string) (ours, planned *tree.Inode, err error) {
	if ours, err = p.presentAt(at); err != nil {
		return nil, nil, err
	}

	f, err := p.get(at)
	if f != nil {
		planned = f.node
	}

	return ours, planned, err
}

// presentAt returns the inode at a path in ours, nil if there is none.
func (p *Plan) presentAt(at string) (*tree.Inode, error) {
	n, ok := p.lookups[at]
	if ok {
		return n, nil
	}

	n, err := p.Ours.At(p.Source, at)
	p.lookups[at] = n

	return n, err
}

// file returns the file of the plan for an inode of ours.
func (p *Plan) file(n *tree.Inode) *file {
	f, ok := p.presentFiles[n.Ino]
	if !ok {
		f = &file{node: n, view: p.View, ino: n.Ino, present: n}
		p.presentFiles[n.Ino] = f
	}
	return f
}

// set plans the file f at a path, or with nil that the path does not exist.
func (p *Plan) set(at string, f *file) {
	p.planned[at] = f
	if f != nil && !slices.Contains(f.names, at) {
		f.names = append(f.names, at)
		p.addedNames[path.Dir(at)] = append(p.addedNames[path.Dir(at)], path.Base(at))
	}
}

// namesOf returns the paths of a file in the plan, at most the given number; 0: all.
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

// equals reports whether a file of the plan equals an inode.
func (p *Plan) equals(f *file, n *tree.Inode) (bool, error) {
	if f.node == n {
		return true, nil
	}
	return tree.SameFile(p.Source, f.node, n)
}

// Under returns p, or the nearest directory above it, that is in the set; "" if none is.
func Under(p string, set map[string]bool) string {
	for ; len(set) > 0 && p != "." && p != "/" && p != ""; p = path.Dir(p) {
		if set[p] {
			return p
		}
	}
	return ""
}

// Stored returns a state that references the merged texts, nil if there are none. The texts are in
// Objects. The caller must commit them, and hold the state until they are referenced elsewhere.
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
