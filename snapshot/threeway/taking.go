package threeway

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

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
	return p.ours[at] || p.ByPath && Under(at, p.ours) != "" || Under(at, p.Skip) != ""
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
		return t.movedSince(base, to)
	case f.node.IsDir() != base.IsDir() && !t.ByPath:
		return nil // others put it in its place
	case renamed && !base.IsDir():
		t.moved[to], f.away = moved{f, base}, true
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

// movedSince is a conflict if a file that theirs has not, or has as to, got another name
// since the base.
func (t *taking) movedSince(base *tree.Inode, to string) error {
	_, names, err := t.known(base.Ino, 0)
	for _, at := range names {
		n, err := t.resolve(t.Base, at)
		if err != nil {
			return err
		}
		if at != to && (n == nil || n.Ino != base.Ino) {
			return t.conflict(at, func() error { t.set(at, nil); return nil })
		}
	}
	return err
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
		f.away = false
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
		if len(names) > 1 || f.away { // the others lead to that file still
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
