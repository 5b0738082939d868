package threeway

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// MergeAttrs returns ours with the permissions, the owner, the group and the extended attributes that theirs
// changed since base. Each attribute is merged separately, extended attributes by name. changed is set if out
// differs from ours. ok is false if both sides changed an attribute to different values; rule then decides which
// value out gets.
func MergeAttrs(base, ours, theirs *tree.Inode, rule Rule) (out tree.Inode, changed, ok bool) {
	const perm = ^uint32(unix.S_IFMT)
	out, ok = *ours, true
	out.Mode = ours.Mode&unix.S_IFMT | mergeValue(base.Mode&perm, ours.Mode&perm, theirs.Mode&perm, rule, &ok)
	out.UID = mergeValue(base.UID, ours.UID, theirs.UID, rule, &ok)
	out.GID = mergeValue(base.GID, ours.GID, theirs.GID, rule, &ok)

	for _, name := range ChangedXattrs(base, theirs) {
		oursValue := valueOf(ours, name)
		switch v := mergeValue(valueOf(base, name), oursValue, valueOf(theirs, name), rule, &ok); {
		case v == oursValue:
		case v.exists:
			out.SetXattr(name, []byte(v.bytes))
		default:
			out.RemoveXattr(name)
		}
	}

	changed = !tree.SameAttrs(&out, ours)
	return out, changed, ok
}

// mergeValue merges three versions of a value. If both sides changed it to different values, it sets *ok to false,
// and rule decides the result.
func mergeValue[T comparable](base, ours, theirs T, rule Rule, ok *bool) T {
	if theirs == base || theirs == ours {
		return ours
	}
	*ok = *ok && ours == base
	if ours == base || rule == TakeTheirs {
		return theirs
	}

	return ours
}

// A FileMerge is the merge of three versions of a file.
type FileMerge struct {
	Node           tree.Inode // ours with the changes of theirs
	Changed        bool       // Node differs from ours
	DataTaken      bool       // Node has the data of theirs, because ours did not change the data
	NeedsLineMerge bool       // both sides changed the data, and the caller has to merge the versions by lines
	OK             bool       // false for a conflict
}

// MergeFile merges three versions of a file that is no directory. All have the same type. The function same reports
// whether two versions have equal data.
func MergeFile(base, ours, theirs *tree.Inode, same func(x, y *tree.Inode) (bool, error)) (m FileMerge, err error) {
	m.Node, m.Changed, m.OK = MergeAttrs(base, ours, theirs, RefuseConflicts)
	unchanged, err := same(theirs, base)
	if err != nil || unchanged {
		return m, err
	}
	if m.DataTaken, err = same(ours, base); err != nil {
		return m, err
	}

	if m.DataTaken {
		m.Changed = true
		m.Node.Ino, m.Node.Content, m.Node.Target, m.Node.Rdev = theirs.Ino, theirs.Content, theirs.Target, theirs.Rdev
		m.Node.Mtime, m.Node.Atime = theirs.Mtime, theirs.Atime
		return m, nil
	}

	equal, err := same(ours, theirs)
	if err != nil || equal {
		return m, err
	}

	m.NeedsLineMerge = true
	m.OK = m.OK && CanMergeLines(base, ours, theirs)
	return m, nil
}

// CanMergeLines reports whether all versions of a file are regular files, small enough to be merged by
// lines.
func CanMergeLines(versions ...*tree.Inode) bool {
	return !slices.ContainsFunc(versions, func(n *tree.Inode) bool { return n == nil || !n.IsRegular() || n.Size() > MaxMerged })
}

// xattrValue is the value of an extended attribute that may not exist.
type xattrValue struct {
	exists bool
	bytes  string
}

func valueOf(n *tree.Inode, name string) xattrValue {
	v, exists := n.Xattr(name)
	return xattrValue{exists, string(v)}
}

// ChangedXattrs returns the names of the extended attributes that differ between two inodes.
func ChangedXattrs(x, y *tree.Inode) (names []string) {
	if tree.SameXattrs(x, y) {
		return nil
	}

	for _, have := range slices.Concat(x.Xattrs, y.Xattrs) {
		if valueOf(x, have.Name) != valueOf(y, have.Name) && !slices.Contains(names, have.Name) {
			names = append(names, have.Name)
		}
	}

	return names
}
