package tree

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Differences is a set of the constants below: the ways in which a path differs between two states.
type Differences uint16

// Access, change and birth times are not compared.
const (
	PathAdded     Differences = 1 << iota // only the second state has the path
	PathRemoved                           // only the first state has the path
	TypeDiffers                           // a file of another type
	DataDiffers                           // other bytes in a regular file
	ModeDiffers                           // other permission bits
	OwnerDiffers                          // another user or group
	MtimeDiffers                          // another modification time
	XattrsDiffer                          // other extended attributes
	LinksDiffer                           // other hard links, see Diff; never set for directories
	TargetDiffers                         // a symbolic link that points elsewhere
	RdevDiffers                           // another device
)

// Change is one path that differs between two states, and its inodes in both. Before is nil if the path was added,
// After is nil if it was removed. The inodes must not be changed.
type Change struct {
	Path          *Path
	Before, After *Inode
	Differences   Differences
}

// What happens to the path of a change.
const (
	Created  = "created"
	Modified = "modified"
	Deleted  = "deleted"
)

// Action returns Created, Modified or Deleted.
func (c Change) Action() string { return ActionOf(c.Before != nil, c.After != nil) }

// ActionOf returns the action of a change by whether the path exists before and after it.
func ActionOf(before, after bool) string {
	switch {
	case !before:
		return Created
	case !after:
		return Deleted
	}
	return Modified
}

// Reversed returns the change from the second state to the first.
func (c Change) Reversed() Change {
	c.Before, c.After = c.After, c.Before
	if c.Differences == PathAdded || c.Differences == PathRemoved {
		c.Differences ^= PathAdded | PathRemoved
	}
	return c
}

// compareInodes returns how two inodes at one path differ, apart from their links. If skipData is set, it compares
// contents only if everything else is equal.
func compareInodes(src *Source, a, b *Inode, skipData bool) (Differences, error) {
	var w Differences
	set := func(bit Differences, on bool) {
		if on {
			w |= bit
		}
	}

	set(ModeDiffers, a.Mode&^unix.S_IFMT != b.Mode&^unix.S_IFMT)
	set(OwnerDiffers, a.UID != b.UID || a.GID != b.GID)
	set(MtimeDiffers, a.Mtime != b.Mtime)
	set(XattrsDiffer, !SameXattrs(a, b))
	if a.Type() != b.Type() {
		return w | TypeDiffers, nil
	}

	set(TargetDiffers, a.Target != b.Target)
	set(RdevDiffers, a.Rdev != b.Rdev)

	if a.IsRegular() && a.Content != b.Content && (w == 0 || !skipData) {
		same, err := a.Content.Equal(src.Files, b.Content)
		if err != nil {
			return 0, err
		}
		set(DataDiffers, !same)
	}

	return w, nil
}

// SameFile reports whether two inodes have the same type, contents, permissions, owner and extended
// attributes, or are both nil. They may be of different states. Times are not compared.
func SameFile(src *Source, a, b *Inode) (bool, error) {
	if a == b || a == nil || b == nil {
		return a == b, nil
	}
	if !SameAttrs(a, b) {
		return false, nil
	}
	return SameData(src, a, b)
}

// SameAttrs reports whether two inodes have the same type, permissions, owner, group and extended attributes.
func SameAttrs(a, b *Inode) bool {
	return a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && SameXattrs(a, b)
}

// SameXattrs reports whether two inodes have the same extended attributes.
func SameXattrs(a, b *Inode) bool { return slices.EqualFunc(a.Xattrs, b.Xattrs, equalXattr) }

// SameData reports whether two inodes have the same type and contents.
func SameData(src *Source, a, b *Inode) (bool, error) {
	w, err := compareInodes(src, a, b, false)
	return w&(TypeDiffers|DataDiffers|TargetDiffers|RdevDiffers) == 0, err
}

func equalXattr(a, b Xattr) bool { return a.Name == b.Name && string(a.Value) == string(b.Value) }

// knownEqual reports whether two versions of one inode are known to be equal in everything that Diff compares. It
// reads no object, so it may return false for equal versions. Diff compares these later.
func knownEqual(a, b *Inode) bool {
	if a == b {
		return true
	}
	return SameAttrs(a, b) && a.Rdev == b.Rdev && a.Nlink == b.Nlink && a.Mtime == b.Mtime && a.Target == b.Target &&
		samePage(a.Dir.root, b.Dir.root) && a.Content.KnownEqual(b.Content)
}
