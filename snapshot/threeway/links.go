package threeway

import (
	"errors"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Which names are linked is merged as lines are: names stay linked if they are on both
// sides, and a side that links or separates names is followed. The names of one file make
// a group, which has one content in the end.

// hasLinks reports whether a change of the fork is to a file that has several names on
// some side. a is what the workspace has.
func hasLinks(c tree.Change, a *tree.Inode) bool {
	if c.B == nil || c.B.IsDir() || a != nil && a.IsDir() {
		return false
	}
	return slices.ContainsFunc([]*tree.Inode{c.A, a, c.B}, func(n *tree.Inode) bool { return n != nil && len(n.Links) > 1 })
}

// nameSet is a set of paths.
type nameSet map[string]bool

// A member is a name of a group, with what each side has there: a file or nil.
type member struct {
	path               string
	base, ours, theirs *tree.Inode
}

// linkMerge merges the files with several names.
type linkMerge struct {
	*Merge
	skip    map[string]bool
	done    nameSet         // names of groups that were merged
	claimed map[uint64]bool // inodes of the workspace that a group goes on with
	groups  uint64
	known   map[[3]uint64]nameSet // see linkedWith, by the inode numbers of a name
}

// groupLink is where the numbers of groups begin as values of Step.Link, above all inode
// numbers.
const groupLink = live.MaxIno + 1

// maxGroup bounds the names of a group. A file with more that both sides changed, or
// linked, is a conflict.
const maxGroup = 1000

func (m *Merge) mergeLinks(skip map[string]bool) error {
	l := &linkMerge{Merge: m, skip: skip, done: make(nameSet), claimed: make(map[uint64]bool), known: make(map[[3]uint64]nameSet)}
	for _, c := range m.linked {
		if err := l.mergeName(c.Path.String()); err != nil {
			return err
		}
	}
	return nil
}

// mergeName merges the group of a name.
func (l *linkMerge) mergeName(p string) error {
	if l.done[p] {
		return nil
	}
	members, agree, err := l.group(p)
	if err != nil {
		return err
	}
	for _, x := range members {
		l.done[x.path] = true
	}
	if x := members[0]; x.ours == nil && x.base != nil {
		if same, err := l.same(x.base, x.theirs); err != nil || same {
			return err // removed here, and the fork changed nothing but its links
		}
	}
	to, err := l.pick(members, agree)
	if err != nil {
		return err
	}
	return l.put(members, to)
}

// group returns the names that are one file in the end, p among them, in order. If the
// sides do not agree on them, it returns p alone. A name of another group, or one where a
// directory gives way to a file or the reverse, has its step already.
func (l *linkMerge) group(p string) (members []member, agree bool, err error) {
	seen := nameSet{p: true}
	agree = true
	for todo := []string{p}; len(todo) > 0 && agree; todo = todo[1:] {
		x, err := l.member(todo[0])
		if err != nil {
			return nil, false, err
		}
		members = append(members, x)
		linked, err := l.linkedWith(x)
		if err != nil {
			return nil, false, err
		}
		for q := range linked {
			if !seen[q] && !l.done[q] && !l.replaced[q] {
				seen[q] = true
				todo = append(todo, q)
			}
		}
		agree = linked != nil && len(seen) <= maxGroup
	}
	split := make(map[uint64][3]uint64) // what became of an inode of the base
	for _, x := range members {
		id := x.inodes()
		if first, ok := split[id[0]]; ok && first != id && id[0] != 0 {
			agree = false // a side has separated them, and others link them again
		}
		split[id[0]] = id
	}
	if !agree {
		members = members[:1]
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.path, b.path) })
	return members, agree, nil
}

// linkedWith returns the names that are linked with one, on one side newly or on all, or
// nil if they are too many. Those that a side has removed are left out.
func (l *linkMerge) linkedWith(x member) (nameSet, error) {
	if group, ok := l.known[x.inodes()]; ok {
		return group, nil
	}
	base, err := l.names(l.Base, x.base)
	if err != nil {
		return nil, err
	}
	ours, err := l.names(l.Ours, x.ours)
	if err != nil {
		return nil, err
	}
	theirs, err := l.names(l.Theirs, x.theirs)
	if err != nil {
		return nil, err
	}
	if max(len(base), len(ours), len(theirs)) > maxGroup {
		return nil, nil
	}
	group := make(nameSet)
	for _, side := range []nameSet{base, ours, theirs} {
		for q := range side {
			if group[q] || base[q] && !(ours[q] && theirs[q]) || Under(q, l.skip) {
				continue
			}
			x, err := l.member(q)
			if err != nil {
				return nil, err
			}
			if x.base == nil || x.ours != nil && x.theirs != nil { // else it was removed
				group[q] = true
			}
		}
	}
	l.known[x.inodes()] = group
	return group, nil
}

func (l *linkMerge) member(p string) (member, error) {
	base, err := l.file(l.Base, p)
	if err != nil {
		return member{}, err
	}
	ours, err := l.file(l.Ours, p)
	if err != nil {
		return member{}, err
	}
	theirs, err := l.file(l.Theirs, p)
	return member{p, base, ours, theirs}, err
}

// inodes returns the inode numbers on each side, 0 for none.
func (x member) inodes() (id [3]uint64) {
	for i, n := range []*tree.Inode{x.base, x.ours, x.theirs} {
		if n != nil {
			id[i] = n.Ino
		}
	}
	return id
}

// file returns the file at a path, nil if there is none.
func (m *Merge) file(st *tree.State, p string) (*tree.Inode, error) {
	n, err := st.Resolve(m.Source, p)
	switch {
	case errors.Is(err, tree.ErrNotExist), errors.Is(err, tree.ErrNotDir), errors.Is(err, tree.ErrSymlink):
		return nil, nil
	case err != nil:
		return nil, err
	case n.IsDir():
		return nil, nil
	}
	return n, nil
}

// names returns the paths of a file, which may be nil.
func (m *Merge) names(st *tree.State, n *tree.Inode) (nameSet, error) {
	set := make(nameSet)
	if n == nil {
		return set, nil
	}
	paths, err := st.Paths(m.Source, n)
	for _, p := range paths {
		set[p] = true
	}
	return set, err
}

func (m *Merge) same(a, b *tree.Inode) (bool, error) {
	if a == nil || b == nil {
		return a == b, nil
	}
	return tree.SameFile(m.Source, a, b)
}

// A picked is the content of a group, and the side that it is from.
type picked struct {
	node *tree.Inode
	view uint32
}

// pick merges the contents of a group. What a side changed is taken; of what both sides
// changed it is a conflict, unless lines merge. If the sides do not agree on the group, that
// is a conflict too.
func (l *linkMerge) pick(members []member, agree bool) (to picked, err error) {
	var found []picked
	refused := !agree
	seen := make(map[[3]uint64]bool)
	for _, x := range members {
		oursSame, err := l.same(x.base, x.ours)
		if err != nil {
			return to, err
		}
		theirsSame, err := l.same(x.base, x.theirs)
		if err != nil {
			return to, err
		}
		byUs := joins(members, x, func(m member) *tree.Inode { return m.ours })
		byThem := joins(members, x, func(m member) *tree.Inode { return m.theirs })
		switch {
		case x.theirs != nil && l.lostAbove(x.path), x.ours == nil && x.base != nil,
			// One side wrote to it, and the other put another file in its place.
			byThem && !byUs && x.base != nil && !oursSame, byUs && !byThem && x.base != nil && !theirsSame:
			refused = true
		case byUs, byThem, seen[x.inodes()]:
		case x.ours == nil, !theirsSame && oursSame:
			found = append(found, picked{x.theirs, l.TheirsView})
		case theirsSame:
			found = append(found, picked{x.ours, l.OursView})
		default:
			same, err := l.same(x.ours, x.theirs)
			if err != nil {
				return to, err
			}
			both := collision{x.path, x.base, x.ours, x.theirs, l.mine[x.path].What, theirsWhat(x)}
			switch text := l.texts[x.path]; {
			case same:
				found = append(found, picked{x.ours, l.OursView})
			case text != nil:
				found = append(found, picked{both.merged(text, l.Now), 0})
			default:
				l.collisions = append(l.collisions, both)
				refused = true
			}
		}
		seen[x.inodes()] = true
	}
	for i := 1; i < len(found); i++ {
		same, err := l.same(found[0].node, found[i].node)
		if err != nil {
			return to, err
		}
		refused = refused || !same
	}
	if refused {
		found = nil
		for _, x := range members {
			l.Conflicts = append(l.Conflicts, x.path)
			if x.theirs != nil {
				found = append(found, picked{x.theirs, l.TheirsView})
			}
		}
	}
	if len(found) > 0 {
		return found[0], nil
	}
	if x := members[0]; x.ours == nil {
		return picked{x.theirs, l.TheirsView}, nil
	}
	return picked{members[0].ours, l.OursView}, nil
}

// theirsWhat returns which attributes the fork changed of a file.
func theirsWhat(x member) (w tree.What) {
	if x.base == nil {
		return 0
	}
	if x.base.Mode != x.theirs.Mode {
		w |= tree.Mode
	}
	if x.base.UID != x.theirs.UID || x.base.GID != x.theirs.GID {
		w |= tree.Owner
	}
	if !tree.SameXattrs(x.base, x.theirs) {
		w |= tree.Xattrs
	}
	return w
}

// joins reports whether a side made a name one more name of a file that others of the
// group led to before.
func joins(members []member, x member, side func(member) *tree.Inode) bool {
	n := side(x)
	if n == nil || x.base != nil && x.base.Ino == n.Ino {
		return false
	}
	return slices.ContainsFunc(members, func(o member) bool {
		m := side(o)
		return o.path != x.path && o.base != nil && m != nil && o.base.Ino == n.Ino && m.Ino == n.Ino
	})
}

// put makes the names of a group lead to one file like the one picked.
func (l *linkMerge) put(members []member, to picked) error {
	var keep uint64 // the inode of the workspace that goes on as the group
	for _, x := range members {
		if x.ours == nil || l.claimed[x.ours.Ino] || keep != 0 {
			continue
		}
		if same, err := l.same(x.ours, to.node); err != nil {
			return err
		} else if same {
			keep = x.ours.Ino
			l.claimed[keep] = true
		}
	}
	l.groups++
	for _, x := range members {
		if x.ours != nil && x.ours.Ino == keep {
			continue
		}
		p, err := tree.ParsePath(x.path)
		if err != nil {
			return err
		}
		step := live.StepOf(tree.Change{Path: p, A: x.ours, B: to.node, What: tree.Data})
		step.To, step.Link, step.Linked = keep, groupLink+l.groups, len(members) > 1
		step.With, step.WithView = to.node, to.view
		if err := l.add(x.path, step); err != nil {
			return err
		}
	}
	return nil
}
