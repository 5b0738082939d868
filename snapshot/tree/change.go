package tree

import (
	"slices"

	"golang.org/x/sys/unix"
)

// What is a set of the constants below: the ways in which a path differs between two states.
type What uint16

// Access, change and birth times are not compared.
const (
	Added   What = 1 << iota // only the second state has the path
	Removed                  // only the first state has the path
	Type                     // a file of another type
	Data                     // other bytes in a regular file
	Mode                     // other permission bits
	Owner                    // another user or group
	Mtime                    // another modification time
	Xattrs                   // other extended attributes
	Links                    // other hard links, see Diff; never set for directories
	Target                   // a symbolic link that points elsewhere
	Rdev                     // another device
)

// Change is one path that differs between two states, and its inodes in both. Before is nil when the
// path was added, After is nil when it was removed. The inodes must not be changed.
type Change struct {
	Path          *Path
	Before, After *Inode
	What          What
}

// Reversed returns the change from the second state to the first.
func (c Change) Reversed() Change {
	c.Before, c.After = c.After, c.Before
	if c.What == Added || c.What == Removed {
		c.What ^= Added | Removed
	}
	return c
}

// compareInodes returns how two inodes at one path differ, apart from their links. With skipData it
// compares contents only if everything else is equal.
func compareInodes(src *Source, a, b *Inode, skipData bool) (What, error) {
	var w What
	set := func(bit What, on bool) {
		if on {
			w |= bit
		}
	}

	set(Mode, a.Mode&^unix.S_IFMT != b.Mode&^unix.S_IFMT)
	set(Owner, a.UID != b.UID || a.GID != b.GID)
	set(Mtime, a.Mtime != b.Mtime)
	set(Xattrs, !SameXattrs(a, b))
	if a.Type() != b.Type() {
		return w | Type, nil
	}

	set(Target, a.Target != b.Target)
	set(Rdev, a.Rdev != b.Rdev)

	if a.IsRegular() && a.Content != b.Content && (w == 0 || !skipData) {
		same, err := a.Content.Equal(src.Files, b.Content)
		if err != nil {
			return 0, err
		}
		set(Data, !same)
	}

	return w, nil
}

// SameFile reports whether two inodes have the same type, contents, permissions, owner and extended
// attributes. They may be of different states. Times are not compared.
func SameFile(src *Source, a, b *Inode) (bool, error) {
	w, err := compareInodes(src, a, b, false)
	return w&^(Mtime|Links) == 0, err
}

// SameXattrs reports whether two inodes have the same extended attributes.
func SameXattrs(a, b *Inode) bool { return slices.EqualFunc(a.Xattrs, b.Xattrs, equalXattr) }

// SameData reports whether two inodes have the same type and contents.
func SameData(src *Source, a, b *Inode) (bool, error) {
	w, err := compareInodes(src, a, b, false)
	return w&(Type|Data|Target|Rdev) == 0, err
}

func equalXattr(a, b Xattr) bool { return a.Name == b.Name && string(a.Value) == string(b.Value) }

// surelySame reports whether two versions of one inode are known to be equal in everything that Diff compares. It
// reads no object, so it may return false for equal versions. Diff compares these later.
func surelySame(a, b *Inode) bool {
	if a == b {
		return true
	}
	return a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Rdev == b.Rdev &&
		a.Nlink == b.Nlink && a.Mtime == b.Mtime && a.Target == b.Target &&
		SameXattrs(a, b) &&
		samePage(a.Dir.root, b.Dir.root) && a.Content.KnownEqual(b.Content)
}
