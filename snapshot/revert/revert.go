// Package revert plans how to take some of the changes that led to a tree back and to keep
// the others: what `git revert` does to commits, for names, kinds, contents, attributes and
// hard links.
//
// A Plan begins as the present tree. Take takes the changes of one interval back, the
// newest interval first: base is the newer state of the interval, theirs is the older one,
// and ours is the plan so far. A path that still is as the interval left it becomes what it
// was before, and its contents are not read. What differs by now is merged, text by lines.
// Steps returns what has to be done to the present tree.
package revert

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Interval is what happened between two states.
type Interval struct {
	Older, Newer *tree.State
	OlderView    uint32        // of Older
	Changes      []tree.Change // those to take back, from Older to Newer, in the order of tree.Diff
}

// A Plan is a tree in the making. The fields down to Theirs are the caller's.
type Plan struct {
	Source  *tree.Source
	Objects content.ObjectStore // where merged texts are stored
	Now     *tree.State
	NowView uint32          // of Now
	Merge   threeway.Merger // nil: texts do not merge
	List    *budget.Charge  // of all that the plan looks at
	Skip    map[string]bool // paths that stay as they are, with all below them
	Ours    map[string]bool // paths of conflicts that stay as they are
	Theirs  bool            // a path in conflict becomes what it was before the interval

	Conflicts []string // paths, in the order in which they were met
	Stored    bool     // texts were stored in Objects; the caller makes them durable

	refused map[string]bool        // those of Conflicts
	at      map[string]*file       // paths that the plan decided about; nil: nothing is there
	found   map[string]*tree.Inode // see now
	in      map[string][]string    // names that the plan put into directories
	here    map[uint64]*file       // present files that the plan looked at, by inode number
	was     map[uint64]*file       // files that the plan made, by the inode that they were
	texts   []text
}

// A file is a file or a directory of the planned tree.
type file struct {
	node    *tree.Inode // what it is like; node.Ino in view has the contents
	view    uint32
	ino     uint64      // the inode that it is in the states of the past
	present *tree.Inode // nil if the plan makes it
	names   []string    // that the plan gave it
	changed bool
	merging bool // it is among texts
}

// A text is a file that has to be merged by lines.
type text struct {
	path             string
	file             *file
	base, ours, then *tree.Inode
}

// cost is the memory of a path in a plan, in bytes, beside its name.
const cost = 700

// maxMerged is the size in bytes up to which a file is merged by lines.
const maxMerged = 16 << 20

// Take takes the changes of an interval back.
func (p *Plan) Take(ctx context.Context, i Interval) error {
	if p.at == nil {
		p.at, p.found, p.in = make(map[string]*file), make(map[string]*tree.Inode), make(map[string][]string)
		p.refused = make(map[string]bool)
		p.here, p.was = make(map[uint64]*file), make(map[uint64]*file)
	}
	t := taking{Plan: p, Interval: i, moved: make(map[string]moved), back: make(map[string]bool)}
	t.pairRenames()
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
			do = t.returned
		case c.A == nil:
			continue
		}
		if err := t.each(ctx, c, do); err != nil {
			return err
		}
	}
	return p.mergeTexts(ctx)
}

// taking is the work on one interval. A change is from c.A, before the interval, to c.B.
type taking struct {
	*Plan
	Interval
	from  map[string]tree.Change // where a file was moved to, by its path before
	to    map[string]string      // the path before, by where a file was moved to
	moved map[string]moved       // files on their way, by the path that they return to
	back  map[string]bool        // paths that returned
}

// moved is a file that the plan took from the name that it was given in the interval.
type moved struct {
	file *file
	base *tree.Inode
}

// pairRenames pairs names that went with names that came, by inode.
func (t *taking) pairRenames() {
	came := make(map[uint64][]tree.Change)
	for _, c := range t.Changes {
		if c.A == nil {
			came[c.B.Ino] = append(came[c.B.Ino], c)
		}
	}
	t.from, t.to = make(map[string]tree.Change), make(map[string]string)
	for _, c := range t.Changes {
		if c.B != nil || len(came[c.A.Ino]) == 0 {
			continue
		}
		to := came[c.A.Ino][0]
		came[c.A.Ino] = came[c.A.Ino][1:]
		t.from[c.Path.String()], t.to[to.Path.String()] = to, c.Path.String()
	}
}

// each does something with one change, unless its path is to stay.
func (t *taking) each(ctx context.Context, c tree.Change, do func(string, tree.Change) error) error {
	p := c.Path.String()
	if t.stays(p) || t.stays(t.to[p]) || t.stays(t.from[p].Path.String()) {
		return nil
	}
	if err := errors.Join(turns.Yield(ctx), t.List.Try(cost+int64(len(p)))); err != nil {
		return err
	}
	return do(p, c)
}

// removed takes back that a path came.
func (t *taking) removed(p string, c tree.Change) error {
	f, err := t.get(p)
	if err != nil {
		return err
	}
	if c.B.IsDir() {
		if f == nil || !f.node.IsDir() {
			return nil
		}
		empty, err := t.empty(p, f)
		if err == nil && empty {
			if to, renamed := t.to[p]; renamed {
				t.moved[to] = moved{f, c.B}
			}
			t.set(p, nil)
		}
		return err
	}
	to, renamed := t.to[p]
	switch {
	case f == nil:
		_, names, err := t.known(c.B.Ino)
		if err == nil && len(names) > 0 && names[0] != to { // it has another name by now
			err = t.conflict(names[0], func() error { t.set(names[0], nil); return nil })
		}
		return err
	case f.node.IsDir():
		return nil // a program put a directory in its place
	case renamed:
		t.moved[to] = moved{f, c.B}
		t.set(p, nil)
		return nil
	}
	if same, err := t.same(f, c.B); err != nil {
		return err
	} else if !same && !inObjects(p) {
		one, err := t.oneOfMore(f, c.B)
		if err != nil {
			return err
		}
		if !one {
			return t.conflict(p, func() error { t.set(p, nil); return nil })
		}
	}
	if !inObjects(p) {
		t.set(p, nil)
	}
	return nil
}

// oneOfMore reports whether a name was added to a file that has other names still.
func (t *taking) oneOfMore(f *file, base *tree.Inode) (bool, error) {
	if _, err := t.Older.Get(t.Source, base.Ino); errors.Is(err, tree.ErrNoInode) || f.ino != base.Ino {
		return false, nil
	} else if err != nil {
		return false, err
	}
	names, err := t.namesOf(f)
	return len(names) > 1, err
}

// returned takes back that a path went.
func (t *taking) returned(p string, c tree.Change) error {
	t.back[p] = true
	f, err := t.get(p)
	if err != nil {
		return err
	}
	back, ok := t.moved[p]
	if _, renamed := t.from[p]; renamed && !ok && !c.A.IsDir() {
		// It has left the name that it was given since: back to this one, or to another.
		base := t.from[p].B
		if f == nil {
			return t.conflict(p, func() error { return t.put(p, c.A) })
		}
		return t.change(p, f, tree.Change{Path: c.Path, A: c.A, B: base})
	}
	switch {
	case f != nil && f.node.IsDir() && c.A.IsDir():
		return nil
	case f != nil:
		if same, err := t.same(f, c.A); err != nil || same {
			return err
		}
		return t.conflict(p, func() error { return t.put(p, c.A) })
	}
	if free, err := t.parents(p); err != nil {
		return err
	} else if !free {
		return t.conflict(p, func() error { return nil })
	}
	if ok {
		if c.A.IsDir() {
			f = &file{node: back.file.node, view: back.file.view, ino: c.A.Ino}
		} else {
			f = back.file
		}
		t.set(p, f)
		return t.change(p, f, tree.Change{Path: c.Path, A: c.A, B: back.base})
	}
	if len(c.A.Links) > 1 && !c.A.IsDir() {
		if other, _, err := t.known(c.A.Ino); err != nil {
			return err
		} else if other != nil {
			t.set(p, other)
			return nil
		}
	}
	return t.put(p, c.A)
}

// changed takes back what became of a path that was there before and after.
func (t *taking) changed(p string, c tree.Change) error {
	f, err := t.get(p)
	if err != nil {
		return err
	}
	theirs := func() error { return t.put(p, c.A) }
	switch {
	case c.What&^(tree.Mtime|tree.Links) == 0 && (f == nil || c.A.Ino == c.B.Ino), f == nil && c.A.IsDir() && c.B.IsDir():
		return nil
	case f == nil && c.A.IsDir():
		return theirs()
	case f == nil && !c.B.IsDir():
		var names []string
		if f, names, err = t.known(c.B.Ino); err != nil {
			return err
		}
		if f == nil || t.back[names[0]] {
			return t.conflict(p, theirs)
		}
		if p = names[0]; t.stays(p) {
			return nil
		}
	case c.B.IsDir() && !c.A.IsDir(): // what was in it has gone
		empty := f == nil
		if f != nil && f.node.IsDir() {
			if empty, err = t.empty(p, f); err != nil {
				return err
			}
		}
		if !empty {
			return t.conflict(p, func() error { return nil })
		}
		return t.put(p, c.A)
	case f.node.IsDir() != c.B.IsDir():
		return t.conflict(p, func() error { return nil })
	case c.A.IsDir() && !c.B.IsDir():
		if same, err := t.same(f, c.B); err != nil {
			return err
		} else if !same {
			return t.conflict(p, theirs)
		}
		return t.put(p, c.A)
	}
	return t.change(p, f, c)
}

// change takes the difference from c.B to c.A over into a file that is at p.
func (t *taking) change(p string, f *file, c tree.Change) error {
	if c.A.Ino != c.B.Ino && len(c.A.Links) > 1 && !c.A.IsDir() {
		// The name led to another file that has more names.
		other, _, err := t.known(c.A.Ino)
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
	if c.A.Ino != c.B.Ino && (len(f.node.Links) > 1 || len(f.names) > 1) {
		names, err := t.namesOf(f)
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
		t.texts = append(t.texts, text{p, f, c.B, ours, c.A})
	}
	return nil
}

// merged returns what a file is like without the difference from c.A to c.B, nil if it
// stays as it is. With text, lines have to be merged. ok is false if it is a conflict.
func (t *taking) merged(f *file, c tree.Change) (n *tree.Inode, view uint32, text, ok bool, err error) {
	if f.node == c.B {
		return c.A, t.OlderView, false, true, nil
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
		view = t.OlderView
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
