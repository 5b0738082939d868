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
	"strings"

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
	View         uint32        // of Theirs
	Changes      []tree.Change // those to take over, from Theirs to Base, in the order of tree.Diff
}

// A Plan is a tree in the making. The fields down to ByPath are the caller's.
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

	Conflicts []string // paths
	Stored    bool     // texts were stored in Objects; the caller makes them durable

	refused map[string]bool        // those of Conflicts
	ours    map[string]bool        // those of them that stay as they are
	at      map[string]*file       // paths that the plan decided about; nil: nothing is there
	found   map[string]*tree.Inode // see now
	in      map[string][]string    // names that the plan put into directories
	here    map[uint64]*file       // present files that the plan looked at, by inode number
	was     map[uint64]*file       // files that the plan made, by the inode that they are in theirs
	texts   []text
	decided map[string]bool         // those of Decided that were taken
	indexes map[string]func() error // indexes of git in conflict, and what makes them theirs
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
	merging bool // it is among texts
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

// Run plans with take, and again for as long as there are more conflicts in which ours
// stays.
func (p *Plan) Run(take func() error) error {
	p.refused, p.ours, p.decided = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for again := true; again; {
		p.at, p.found, p.in = make(map[string]*file), make(map[string]*tree.Inode), make(map[string][]string)
		p.here, p.was = make(map[uint64]*file), make(map[uint64]*file)
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

// Take takes over what an interval changed.
func (p *Plan) Take(ctx context.Context, i Interval) error {
	t := taking{Plan: p, Interval: i, moved: make(map[string]moved), back: make(map[string]bool)}
	p.texts, p.indexes = nil, make(map[string]func() error)
	if !p.ByPath {
		t.pairRenames()
	}
	for _, c := range slices.Backward(i.Changes) {
		if c.A == nil {
			if err := t.each(ctx, c, t.removed); err != nil {
				return err
			}
		}
	}
	for _, c := range i.Changes {
		do := t.changed
		switch {
		case c.B == nil:
			do = t.created
		case c.A == nil:
			continue
		}
		if err := t.each(ctx, c, do); err != nil {
			return err
		}
	}
	if err := p.mergeTexts(ctx); err != nil {
		return err
	}
	return p.takeIndexes()
}

// taking is the work on one interval. A change is from c.A, which is theirs, to c.B, the base.
type taking struct {
	*Plan
	Interval
	from  map[string]tree.Change // where a file was in the base, by its path in theirs
	to    map[string]string      // its path in theirs, by that in the base
	moved map[string]moved       // files on their way, by the path that they move to
	back  map[string]bool        // paths that were created
}

// moved is a file that the plan took from the name that it has in the base.
type moved struct {
	file *file
	base *tree.Inode
}

// pairRenames pairs names that only the base has with names that only theirs has, by inode.
func (t *taking) pairRenames() {
	went := make(map[uint64][]tree.Change)
	for _, c := range t.Changes {
		if c.A == nil {
			went[c.B.Ino] = append(went[c.B.Ino], c)
		}
	}
	t.from, t.to = make(map[string]tree.Change), make(map[string]string)
	for _, c := range t.Changes {
		if c.B != nil || len(went[c.A.Ino]) == 0 {
			continue
		}
		old := went[c.A.Ino][0]
		went[c.A.Ino] = went[c.A.Ino][1:]
		t.from[c.Path.String()], t.to[old.Path.String()] = old, c.Path.String()
	}
}

// each does something with one change, unless its path is to stay.
func (t *taking) each(ctx context.Context, c tree.Change, do func(string, tree.Change) error) error {
	p := c.Path.String()
	if t.stays(p) || t.stays(t.to[p]) || t.stays(t.from[p].Path.String()) {
		return nil
	}
	if err := turns.Yield(ctx); err != nil {
		return err
	}
	return do(p, c)
}

// stays reports whether a path is to stay as it is. By paths, so does all below one in
// conflict: theirs may have a file in place of the directory.
func (p *Plan) stays(at string) bool {
	return p.ours[at] || p.ByPath && Under(at, p.ours) || Under(at, p.Skip)
}

// removed removes a path that theirs does not have.
func (t *taking) removed(p string, c tree.Change) error {
	f, err := t.get(p)
	to, renamed := t.to[p]
	base := c.B
	theirs := func() error { return t.drop(p, f) }
	switch {
	case err != nil, f == nil && (base.IsDir() || t.ByPath):
		return err
	case f == nil:
		_, names, err := t.known(base.Ino, 1)
		if err == nil && len(names) > 0 && names[0] != to { // it has another name by now
			err = t.conflict(names[0], func() error { t.set(names[0], nil); return nil })
		}
		return err
	case f.node.IsDir() != base.IsDir() && !t.ByPath:
		return nil // others put it in its place
	case renamed && !base.IsDir():
		t.moved[to] = moved{f, base}
		t.set(p, nil)
		return nil
	case inObjects(p) && !base.IsDir():
		return nil
	}
	same, err := t.same(f, base)
	if err == nil && !same {
		same, err = t.oneOfMore(f, base)
	}
	if err != nil {
		return err
	}
	if !same {
		return t.conflict(p, theirs)
	}
	if err := theirs(); err != nil {
		return err
	}
	if gone := t.at[p] == nil; gone && renamed {
		t.moved[to] = moved{f, base}
	}
	return nil
}

// drop leaves nothing at a path, but for a directory that something is in.
func (p *Plan) drop(at string, f *file) error {
	empty, err := p.empty(at, f)
	if empty {
		p.set(at, nil)
	}
	return err
}

// oneOfMore reports whether theirs has the file still, and it has other names.
func (t *taking) oneOfMore(f *file, base *tree.Inode) (bool, error) {
	if t.ByPath || base.IsDir() || f.ino != base.Ino {
		return false, nil
	}
	if _, err := t.Theirs.Get(t.Source, base.Ino); errors.Is(err, tree.ErrNoInode) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	names, err := t.namesOf(f, 2)
	return len(names) > 1, err
}

// created creates a path that the base does not have.
func (t *taking) created(p string, c tree.Change) error {
	t.back[p] = true
	f, err := t.get(p)
	if err != nil {
		return err
	}
	put := func() error { return t.put(p, c.A) }
	on, ok := t.moved[p]
	if _, renamed := t.from[p]; renamed && !ok && !c.A.IsDir() {
		// It has left its name in the base since: to this one, or to another.
		if f == nil {
			return t.conflict(p, put)
		}
		return t.change(p, f, tree.Change{Path: c.Path, A: c.A, B: t.from[p].B})
	}
	if f != nil {
		if same, err := t.same(f, c.A); err != nil || same {
			return err
		}
		return t.conflict(p, put)
	}
	if free, err := t.parents(p); err != nil {
		return err
	} else if !free {
		return t.conflict(p, put)
	}
	if ok {
		if f = on.file; c.A.IsDir() {
			f = &file{node: f.node, view: f.view, ino: c.A.Ino}
		}
		t.set(p, f)
		return t.change(p, f, tree.Change{Path: c.Path, A: c.A, B: on.base})
	}
	if len(c.A.Links) > 1 && !c.A.IsDir() {
		if other, _, err := t.known(c.A.Ino, 1); err != nil {
			return err
		} else if other != nil {
			t.set(p, other)
			return nil
		}
	}
	return put()
}

// changed takes over what became of a path that the base and theirs have.
func (t *taking) changed(p string, c tree.Change) error {
	f, err := t.get(p)
	if err != nil || c.What&^(tree.Mtime|tree.Links) == 0 && (f == nil || c.A.Ino == c.B.Ino) {
		return err
	}
	put := func() error { return t.put(p, c.A) }
	if f == nil && !t.ByPath && !c.B.IsDir() && !c.A.IsDir() {
		var names []string
		if f, names, err = t.known(c.B.Ino, 1); err != nil {
			return err
		}
		if f != nil && !t.back[names[0]] {
			if p = names[0]; t.stays(p) {
				return nil
			}
			return t.change(p, f, c)
		}
		f = nil
	}
	switch {
	case f == nil:
		return t.conflict(p, put)
	case f.node.IsDir() == c.B.IsDir() && c.A.IsDir() == c.B.IsDir():
		return t.change(p, f, c)
	}
	if same, err := t.same(f, c.A); err != nil || same {
		return err
	}
	as, err := t.same(f, c.B)
	if err == nil && as {
		as, err = t.empty(p, f)
	}
	switch {
	case err != nil:
		return err
	case as:
		return put()
	}
	return t.conflict(p, put)
}

// change takes the difference from c.B to c.A over into a file that is at p.
func (t *taking) change(p string, f *file, c tree.Change) error {
	if c.A.Ino != c.B.Ino && len(c.A.Links) > 1 && !c.A.IsDir() {
		// The name leads to another file that has more names.
		other, _, err := t.known(c.A.Ino, 1)
		if err != nil {
			return err
		}
		if other != nil && other != f {
			if same, err := t.same(f, c.B); err != nil {
				return err
			} else if !same {
				return t.conflict(p, func() error { t.set(p, other); return nil })
			}
			t.set(p, other)
			return nil
		}
	}
	n, view, merge, ok, err := t.merged(f, c)
	switch {
	case err != nil:
		return err
	case !ok:
		return t.conflict(p, func() error { return t.put(p, c.A) })
	case n == nil && c.A.Ino == c.B.Ino:
		return nil
	}
	ours := f.node
	if n == nil {
		n, view = f.node, f.view
	}
	if c.A.Ino != c.B.Ino || f.ino != c.B.Ino {
		names, err := t.namesOf(f, 2)
		if err != nil {
			return err
		}
		if len(names) > 1 { // the others lead to that file still
			f = &file{node: ours, view: f.view}
			t.set(p, f)
		}
	}
	if n != ours {
		f.node, f.view, f.changed = n, view, true
		t.at[p] = f
	}
	f.ino = c.A.Ino
	t.was[f.ino] = f
	if merge && !f.merging {
		f.merging = true
		t.texts = append(t.texts, text{p, f, c.B, ours, c.A, t.Interval.View})
	}
	return nil
}

// merged returns what a file is like with the difference from c.B to c.A, nil if it stays as
// it is. With text, lines have to be merged. ok is false if it is a conflict.
func (t *taking) merged(f *file, c tree.Change) (n *tree.Inode, view uint32, text, ok bool, err error) {
	if f.node == c.B {
		return c.A, t.Interval.View, false, true, nil
	}
	ours := f.node
	out := *ours
	view = f.view
	change := false
	pick := func(base, now, then bool, take func()) bool { // base: the sides of the interval are alike, ...
		if !base && now {
			take()
			change = true
		}
		return base || now || then
	}
	const perm = ^uint32(unix.S_IFMT)
	ok = pick(c.A.Mode&perm == c.B.Mode&perm, ours.Mode&perm == c.B.Mode&perm, ours.Mode&perm == c.A.Mode&perm, func() {
		out.Mode = out.Mode&unix.S_IFMT | c.A.Mode&perm
	})
	owner := func(a, b *tree.Inode) bool { return a.UID == b.UID && a.GID == b.GID }
	ok = pick(owner(c.A, c.B), owner(ours, c.B), owner(ours, c.A), func() { out.UID, out.GID = c.A.UID, c.A.GID }) && ok
	ok = pick(tree.SameXattrs(c.A, c.B), tree.SameXattrs(ours, c.B), tree.SameXattrs(ours, c.A), func() { out.Xattrs = c.A.Xattrs }) && ok
	var same [3]bool
	for i, pair := range [][2]*tree.Inode{{c.A, c.B}, {ours, c.B}, {ours, c.A}} {
		if same[i], err = tree.SameData(t.Source, pair[0], pair[1]); err != nil {
			return nil, 0, false, false, err
		}
		if i == 0 && same[0] {
			break // the rest does not matter
		}
	}
	if !pick(same[0], same[1], same[2], func() {
		out.Mode = c.A.Mode&unix.S_IFMT | out.Mode&perm
		out.Ino, out.Content, out.Target, out.Rdev = c.A.Ino, c.A.Content, c.A.Target, c.A.Rdev
		out.Mtime, out.Atime = c.A.Mtime, c.A.Atime
		view = t.Interval.View
	}) {
		text, change = true, true
		for _, n := range []*tree.Inode{c.A, c.B, ours} {
			ok = ok && n.IsRegular() && n.Size() <= maxMerged
		}
	}
	if !change {
		return nil, 0, false, ok, nil
	}
	return &out, view, text, ok, nil
}

// conflict notes a path that changed on both sides. theirs makes it what it is in theirs.
func (p *Plan) conflict(at string, theirs func() error) error {
	if p.stays(at) {
		return nil
	}
	if _, rel, ok := InGit(at); ok {
		switch KindInGit(rel) {
		case IndexOf:
			p.indexes[at] = theirs
			return nil
		case Reflog:
			return nil
		case OwnNotes:
			f, err := p.get(at)
			if err == nil && f == nil {
				err = theirs()
			}
			return err
		}
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

// get returns what the plan has at a path, nil for nothing.
func (p *Plan) get(at string) (*file, error) {
	if f, ok := p.at[at]; ok {
		return f, nil
	}
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if f, ok := p.at[dir]; ok && (f == nil || f.present == nil || !f.node.IsDir()) {
			return nil, nil
		}
	}
	n, err := p.now(at)
	if n == nil {
		return nil, err
	}
	return p.file(n), nil
}

// now returns what is at a path at present, nil for nothing.
func (p *Plan) now(at string) (*tree.Inode, error) {
	n, ok := p.found[at]
	if ok {
		return n, nil
	}
	n, err := p.Ours.Resolve(p.Source, at)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || errors.Is(err, tree.ErrSymlink) {
		n, err = nil, nil
	}
	p.found[at] = n
	return n, err
}

// file returns the file of a present inode.
func (p *Plan) file(n *tree.Inode) *file {
	f, ok := p.here[n.Ino]
	if !ok {
		f = &file{node: n, view: p.View, ino: n.Ino, present: n}
		p.here[n.Ino] = f
	}
	return f
}

// set puts a file at a path, or nothing.
func (p *Plan) set(at string, f *file) {
	p.at[at] = f
	if f != nil && !slices.Contains(f.names, at) {
		f.names = append(f.names, at)
		p.in[path.Dir(at)] = append(p.in[path.Dir(at)], path.Base(at))
	}
}

// put makes a path what it is in theirs, if there is a directory for it.
func (t *taking) put(at string, n *tree.Inode) error {
	if free, err := t.parents(at); err != nil || !free {
		return err
	}
	if dir, err := t.get(at); err != nil {
		return err
	} else if dir != nil && dir.node.IsDir() && n.IsDir() {
		dir.node, dir.view, dir.changed = n, t.Interval.View, true
		t.at[at] = dir
		return nil
	}
	f := t.was[n.Ino]
	if f == nil || f.present != nil || n.IsDir() {
		f = &file{node: n, view: t.Interval.View, ino: n.Ino}
		t.was[n.Ino] = f
	}
	t.set(at, f)
	return nil
}

// parents makes the directories above a path that are not there any more. It reports
// whether there is a directory for the path.
func (t *taking) parents(at string) (bool, error) {
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		f, err := t.get(dir)
		if err != nil || f != nil {
			return err == nil && f.node.IsDir(), err
		}
		n, err := t.Theirs.Resolve(t.Source, dir)
		if err != nil {
			return false, err
		}
		if err := t.put(dir, n); err != nil {
			return false, err
		}
	}
	return true, nil
}

// known returns the file that an inode of theirs is in the plan, with at most so many of its
// names there. It is nil if there is none.
func (p *Plan) known(ino uint64, most int) (*file, []string, error) {
	f := p.was[ino]
	if f == nil {
		n, err := p.Ours.Get(p.Source, ino)
		if errors.Is(err, tree.ErrNoInode) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		f = p.file(n)
	}
	if f.ino != ino || f.node.IsDir() {
		return nil, nil, nil
	}
	names, err := p.namesOf(f, most)
	if len(names) == 0 {
		f = nil
	}
	return f, names, err
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

// empty reports whether the plan has something at a path that nothing is in.
func (p *Plan) empty(at string, f *file) (bool, error) {
	if !f.node.IsDir() {
		return true, nil
	}
	for _, name := range p.in[at] {
		if p.at[path.Join(at, name)] != nil {
			return false, nil
		}
	}
	if f.present == nil {
		return true, nil
	}
	empty := true
	err := f.present.Dir.List(p.Source, 0, func(e tree.Dirent, _ uint64) bool {
		f, touched := p.at[path.Join(at, e.Name)]
		empty = touched && f == nil
		return empty
	})
	return empty, err
}

func (p *Plan) same(f *file, n *tree.Inode) (bool, error) {
	if f.node == n {
		return true, nil
	}
	return tree.SameFile(p.Source, f.node, n)
}

// Under reports whether a path, or a directory above it, is in the set.
func Under(p string, set map[string]bool) bool {
	for ; len(set) > 0 && p != "." && p != "/" && p != ""; p = path.Dir(p) {
		if set[p] {
			return true
		}
	}
	return false
}

// inObjects reports whether a path is an object of a repository. Commits of others may
// need it.
func inObjects(p string) bool {
	_, rel, ok := InGit(p)
	return ok && strings.HasPrefix(rel, "objects/")
}
