package live

// An Invalidation lists the names and nodes that an edit (a restore, a merge, an import) changed. The kernel
// must drop its caches of these names and nodes.
type Invalidation struct {
	// Entries are the names that were removed or now have another inode.
	Entries []Entry
	// Inodes are nodes whose attributes or bytes changed, and directories whose
	// entries changed.
	Inodes []NodeID
	// AllNamesExpire is set if the kernel will look up every name again after the change.
	AllNamesExpire bool
}

// view returns the view of all entries and nodes. The invalidation must not be empty.
func (v Invalidation) view() uint32 {
	if len(v.Entries) > 0 {
		return v.Entries[0].Parent.View()
	}
	return v.Inodes[0].View()
}

// rootNames returns the names of Entries that are in the root directory.
func (v Invalidation) rootNames() (names []string) {
	for _, e := range v.Entries {
		if e.Parent.Ino() == RootIno {
			names = append(names, e.Name)
		}
	}
	return names
}

// IsEmpty reports whether the invalidation has neither entries nor inodes.
func (v Invalidation) IsEmpty() bool { return len(v.Entries) == 0 && len(v.Inodes) == 0 }

// An Entry is a name in a directory that an edit changed.
type Entry struct {
	Parent NodeID
	Name   string
	// OldNode is the old node of the name if that node now has no name at all, else 0.
	OldNode NodeID
	WasDir  bool // OldNode is a directory
	// HeldNode is OldNode if the kernel may have a reference to it, else 0.
	HeldNode NodeID
	// MountPoint is set if a file system is mounted on the old node, or below it.
	MountPoint bool
}
